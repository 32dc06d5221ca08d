package page

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// lifetimes are those of a join token that a person can choose, as words of 'sealift token create --ttl'.
func lifetimes() []string { return []string{"1h", "8h", "24h"} }

// joinView is the data of the page about new nodes.
type joinView struct {
	Lifetimes []string
	Problem   string
	Said      text
	Command   text // for the new host, with a token: only in the answer to the form
	Expires   time.Time
}

func (s *Site) joinPage(w http.ResponseWriter, r *http.Request, v visitor) error {
	return s.show(w, r, v, "join", http.StatusOK, "Join", joinView{Lifetimes: lifetimes()})
}

// join makes a token for workers, and shows the command with it. The command is in no URL, no list of actions and no audit, and browsers
// must not store the page. A token for control planes would give away the keys of the cluster: a session of the console cannot get one.
func (s *Site) join(w http.ResponseWriter, r *http.Request, v visitor) error {
	ttl := r.PostForm.Get("ttl")
	if !slices.Contains(lifetimes(), ttl) {
		return s.fail(w, r, v, http.StatusBadRequest, "Not made", "The lifetime of the token: choose one of the list.")
	}
	const what = "join token"
	if err := s.Audit.Write(s.entry(r, v, what, "started", "for workers, for "+ttl)); err != nil {
		return fmt.Errorf("no token was made: %w; free space on the node", err)
	}
	d := s.reader.Once(r.Context(), "token", "create", "--ttl", ttl, "--description", "made in the console by "+v.session.Who())
	var made struct {
		Command text      `json:"command"`
		Expires time.Time `json:"expires"`
	}
	if err := d.Decode(&made); err != nil {
		s.note(s.Audit, r, v, what, "failed", "")
		return s.show(w, r, v, "join", http.StatusBadGateway, "Join", joinView{Lifetimes: lifetimes(), Problem: err.Error(), Said: clean(d.Said)})
	}
	s.note(s.Audit, r, v, what, "done", "for workers, until "+made.Expires.UTC().Format(time.RFC3339))
	return s.show(w, r, v, "join", http.StatusOK, "Join", joinView{Command: made.Command, Expires: made.Expires})
}
