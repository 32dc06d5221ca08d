package access

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/console/jsonfile"
	"github.com/sealift/sealift/internal/atomicfile"
)

const (
	// IdleTime is how long a session lasts without a request.
	IdleTime = 30 * time.Minute
	// SessionTime is how long a session lasts.
	SessionTime = 12 * time.Hour
	// seenPause is the time between writes of when a session was last seen.
	seenPause = 20 * time.Second
	// maxSessions is the maximum number of sessions, maxOwn that of one person.
	maxSessions, maxOwn = 256, 8
	// idLength is the length of a session's ID, in hex digits of the hash.
	idLength = 16
)

// SessionCookie has the secret of a session. Browsers accept such a name only with Secure, for the whole host, and from the host itself.
const SessionCookie = "__Host-sealift-console"

// FormHeader is the header in which scripts send the FormToken of their session.
const FormHeader = "Sealift-Form"

// ErrNoSession means that a cookie names no session: it ended, was revoked, or never was.
var ErrNoSession = errors.New("the session has ended; log in again")

// Session is one login of a person.
type Session struct {
	ID string `json:"id"` // names it to administrators; it is not the secret
	Person
	From  string    `json:"from"` // the client's address
	Began time.Time `json:"began"`
	Seen  time.Time `json:"seen"` // to 20 seconds
}

// Sessions is the folder of sessions. Each is a file that is named by the hash of its secret; its modification time is Seen. So a
// restart of the console keeps sessions, and removing a file ends one at once.
type Sessions struct {
	Dir string
	Now func() time.Time
}

// Room returns an error if no other session can begin. Callers ask before they redeem a token, which works once.
func (s Sessions) Room() error {
	all, err := s.List()
	if err != nil {
		return err
	}
	return checkRoom(len(all))
}

func checkRoom(sessions int) error {
	if sessions >= maxSessions {
		return fmt.Errorf("%d sessions are in use, which is the limit; end some with 'sealift-console sessions revoke'", sessions)
	}
	return nil
}

// Begin makes a session with a new secret, which the person's browser keeps as a cookie. A person who has too many loses the oldest ones: one
// person must not take the room of others.
func (s Sessions) Begin(p Person, from string) (secret string, made Session, err error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return "", made, err
	}
	all, err := s.List()
	if err != nil {
		return "", made, err
	}
	own := slices.DeleteFunc(slices.Clone(all), func(one Session) bool { return !one.isSame(p) })
	if len(own) >= maxOwn {
		old := own[maxOwn-1:]
		ended, err := s.Revoke(func(one Session) bool {
			return slices.ContainsFunc(old, func(o Session) bool { return o.ID == one.ID })
		})
		if err != nil {
			return "", made, err
		}
		all = all[len(ended):]
	}
	if err := checkRoom(len(all)); err != nil {
		return "", made, err
	}
	secret = rand.Text()
	made = Session{ID: digest(secret)[:idLength], Person: p, From: from, Began: s.Now().UTC(), Seen: s.Now().UTC()}
	if err := jsonfile.Write(s.file(secret), made); err != nil {
		return "", Session{}, err
	}
	return secret, made, s.touch(s.file(secret))
}

// Find returns the session of a secret, and records that it was seen. The error is ErrNoSession if there is none.
func (s Sessions) Find(secret string) (Session, error) {
	if secret == "" || len(secret) > maxName {
		return Session{}, ErrNoSession
	}
	name := s.file(secret)
	found, err := s.read(name)
	if err != nil {
		return Session{}, err
	}
	if s.Now().Sub(found.Seen) >= seenPause {
		if err := s.touch(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Session{}, err
		}
	}
	return found, nil
}

// read reads a session, and removes one that has ended, or that is damaged: it must not keep others from logging in.
func (s Sessions) read(name string) (found Session, err error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return found, ErrNoSession
	}
	if err != nil {
		return found, err
	}
	err = jsonfile.Read(name, &found)
	if errors.Is(err, fs.ErrNotExist) {
		return found, ErrNoSession
	} else if err != nil && !errors.Is(err, jsonfile.ErrDamaged) {
		return found, err
	}
	found.Seen = info.ModTime().UTC()
	now := s.Now()
	if err != nil || now.Sub(found.Began) >= SessionTime || now.Sub(found.Seen) >= IdleTime || found.Began.Sub(now) > skew || found.Seen.Sub(now) > skew || !slices.Contains(Roles(), found.Role) {
		return Session{}, errors.Join(ErrNoSession, atomicfile.Remove(name))
	}
	return found, nil
}

// List returns the sessions, the newest first.
func (s Sessions) List() (all []Session, err error) {
	err = eachFile(s.Dir, func(name string) error {
		one, err := s.read(name)
		if errors.Is(err, ErrNoSession) {
			return nil
		}
		all = append(all, one)
		return err
	})
	slices.SortFunc(all, func(a, b Session) int { return b.Began.Compare(a.Began) })
	return all, err
}

// End ends the session of a secret.
func (s Sessions) End(secret string) error { return atomicfile.Remove(s.file(secret)) }

// Revoke ends the sessions that a predicate selects, and returns them.
func (s Sessions) Revoke(selects func(Session) bool) (ended []Session, err error) {
	err = eachFile(s.Dir, func(name string) error {
		one, err := s.read(name)
		if errors.Is(err, ErrNoSession) {
			return nil
		}
		if err != nil || !selects(one) {
			return err
		}
		ended = append(ended, one)
		return atomicfile.Remove(name)
	})
	return ended, err
}

func (s Sessions) file(secret string) string { return filepath.Join(s.Dir, digest(secret)+extension) }

func (s Sessions) touch(name string) error {
	now := s.Now()
	return os.Chtimes(name, now, now)
}

// FormToken returns the token that each form of a session contains. Another site cannot know it.
func FormToken(secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("sealift console form"))
	return hex.EncodeToString(mac.Sum(nil))
}

// SameToken compares two tokens in constant time. An empty one equals none.
func SameToken(a, b string) bool {
	return strings.TrimSpace(a) != "" && hmac.Equal([]byte(a), []byte(b))
}
