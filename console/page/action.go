package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/sealift/sealift/console/audit"
	"github.com/sealift/sealift/console/background"
	"github.com/sealift/sealift/console/command"
)

// maxShown is how much of an output a page shows, in bytes.
const maxShown = 32 << 10

// offer is an action on a page.
type offer struct {
	command.Action
	Allowed bool     // for the role of the person
	Setup   string   // the command without which the action cannot run, "" if it can
	Example string   // the command that the action runs
	Choices []string // values of its field
}

func (s *Site) offer(v visitor, name string) offer {
	action, _ := command.Find(name)
	o := offer{Action: action, Allowed: v.session.Role.Has(action.Right), Example: action.Example(s.Settings, nil)}
	if missing := action.Missing(s.Settings); missing != "" {
		o.Setup = "sudo sealift-console on " + missing
	}
	return o
}

// act starts an action. It runs only if the audit has its line.
func (s *Site) act(w http.ResponseWriter, r *http.Request, v visitor) error {
	action, ok := command.Find(r.PathValue("name"))
	if !ok {
		return errNotFound
	}
	if !v.session.Role.Has(action.Right) {
		s.refuse(w, r, v, action.Right)
		return nil
	}
	values := map[string]string{}
	for _, field := range action.Fields {
		values[field.Name] = r.PostForm.Get(field.Name)
	}
	what := "action " + action.Name
	if action.Outside != "" {
		return s.startOutside(w, r, v, action, values)
	}
	job, err := s.jobs.Start(s.context, action, s.Settings, values, v.session.Who(), func(job *command.Job) error {
		if err := s.Audit.Write(s.entry(r, v, what, "started", job.Command)); err != nil {
			return fmt.Errorf("the action was not started: %w; free space on the node", err)
		}
		return nil
	})
	if err != nil {
		return s.notStarted(w, r, v, action, err)
	}
	http.Redirect(w, r, "/jobs/"+job.ID, http.StatusSeeOther) //nolint:gosec // the console makes the ID
	return nil
}

// startOutside starts an action that outlives the console.
func (s *Site) startOutside(w http.ResponseWriter, r *http.Request, v visitor, action command.Action, values map[string]string) error {
	words, err := action.Words(s.Settings, values)
	if err == nil {
		err = s.jobs.CheckAfter(action, values)
	}
	if err == nil {
		request := background.Request{Action: action.Name, Title: action.Title, Command: command.Line(words...), Words: words, Bundle: values["bundle"], Who: v.session.Who(), Began: s.Now().UTC()}
		err = s.Background.Begin(r.Context(), request, func() error {
			if err := s.Audit.Write(s.entry(r, v, "action "+action.Name, "started", request.Command)); err != nil {
				return fmt.Errorf("the action was not started: %w; free space on the node", err)
			}
			return nil
		})
	}
	if err != nil {
		return s.notStarted(w, r, v, action, err)
	}
	s.reader.Forget()
	http.Redirect(w, r, action.Outside, http.StatusSeeOther)
	return nil
}

// notStarted answers a person whose action was not started.
func (s *Site) notStarted(w http.ResponseWriter, r *http.Request, v visitor, action command.Action, err error) error {
	s.note(s.Refused, r, v, "action "+action.Name, "not started", err.Error())
	status := http.StatusBadRequest
	if errors.Is(err, command.ErrBusy) || errors.Is(err, background.ErrBusy) {
		status = http.StatusConflict
	}
	return s.fail(w, r, v, status, "Not started", err.Error(), action.Example(s.Settings, nil))
}

// jobEnded records how an action ended. Pages show what it changed from now on.
func (s *Site) jobEnded(job *command.Job, state command.State) {
	s.reader.Forget()
	result := "done"
	if state.Failure != "" {
		result = state.Failure
	}
	if err := s.Audit.Write(audit.Entry{Time: state.Ended, Who: job.Who, What: "action " + job.Action.Name, Result: result, Detail: job.Command}); err != nil {
		s.Log.Error("the audit lacks a line", "what", job.Action.Name, "result", result, "who", job.Who, "error", err)
	}
}

// jobView is a job on a page.
type jobView struct {
	*command.Job
	command.State
	Document text // what the program printed for programs
}

func viewOf(job *command.Job) jobView {
	state, _ := job.State()
	v := jobView{Job: job, State: state}
	if long := len(v.Progress) - maxShown; long > 0 {
		v.Progress = "[…]" + strings.ToValidUTF8(v.Progress[long:], "")
	}
	var indented bytes.Buffer
	if json.Indent(&indented, state.Document, "", "  ") == nil {
		shown := indented.Bytes()
		v.Document = text(bytes.ToValidUTF8(shown[:min(len(shown), maxShown)], nil))
	}
	return v
}

// refresh makes the page of a running job reload itself where no script does.
func (v jobView) refresh() bool { return v.Ended.IsZero() }

func (s *Site) listJobs(w http.ResponseWriter, r *http.Request, v visitor) error {
	var all []jobView
	for _, job := range s.jobs.List() {
		all = append(all, viewOf(job))
	}
	return s.show(w, r, v, "jobs", http.StatusOK, "Actions", all)
}

func (s *Site) job(w http.ResponseWriter, r *http.Request, v visitor) error {
	job := s.jobs.Find(r.PathValue("id"))
	if job == nil {
		return errNotFound
	}
	return s.show(w, r, v, "job", http.StatusOK, job.Action.Title, viewOf(job))
}

// events streams the progress of an action as server-sent events: each has the text that is new as a string of JSON. The event "end"
// is the last one. A stream begins with the whole progress: the script replaces what the page shows.
func (s *Site) events(w http.ResponseWriter, r *http.Request, v visitor) error {
	job := s.jobs.Find(r.PathValue("id"))
	if job == nil {
		return errNotFound
	}
	sent := 0
	return s.stream(w, r, v, func(control *http.ResponseController) (<-chan struct{}, bool, error) {
		state, changed := job.State()
		err := s.send(w, control, state, &sent)
		return changed, !state.Ended.IsZero(), err
	})
}

// send sends the progress after a position, and the end.
func (s *Site) send(w http.ResponseWriter, control *http.ResponseController, state command.State, sent *int) error {
	if new := state.Progress[*sent:]; new != "" {
		line, err := json.Marshal(new)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", len(state.Progress), line); err != nil {
			return err
		}
		*sent = len(state.Progress)
	}
	if !state.Ended.IsZero() {
		if _, err := fmt.Fprint(w, "event: end\ndata: \"\"\n\n"); err != nil {
			return err
		}
	}
	return control.Flush()
}
