package kube

import (
	"fmt"
	"strings"
)

// Action is the action on one object.
type Action string

// The actions of Apply, Diff and Delete. In the result of Diff they say what Apply would do.
const (
	Created    Action = "created"
	Configured Action = "configured"
	Unchanged  Action = "unchanged"
	Pruned     Action = "pruned" // deleted: the set no longer contains it
	Kept       Action = "kept"   // left the set and stays in the cluster; Message has the reason
	Failed     Action = "failed" // Message has the reason
)

// Entry is the result for one object.
type Entry struct {
	Object  Ref      `json:"object"`
	Action  Action   `json:"action"`
	Message string   `json:"message,omitempty"`
	Changes []Change `json:"changes,omitempty"` // only in Diff

	// Err is the failure; errors.As finds a *ConflictError in it.
	Err error `json:"-"`

	uid string
}

// String is one line: object, action, and why.
func (e Entry) String() string {
	line := fmt.Sprintf("%s %s", e.Object, e.Action)
	if e.Message != "" {
		line += ": " + e.Message
	}
	return line
}

// Result has an entry for every object of a set: first the given ones, in their order, then those that left.
type Result struct {
	Set     Set     `json:"set"`
	Entries []Entry `json:"objects"`
}

// Count returns the number of objects with an action.
func (r Result) Count(a Action) int {
	n := 0
	for _, entry := range r.Entries {
		if entry.Action == a {
			n++
		}
	}
	return n
}

// Summary is one line such as "3 created, 1 configured, 12 unchanged".
func (r Result) Summary() string {
	var parts []string
	for _, action := range []Action{Created, Configured, Unchanged, Pruned, Kept, Failed} {
		if n := r.Count(action); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, action))
		}
	}
	if len(parts) == 0 {
		return "nothing to do"
	}
	return strings.Join(parts, ", ")
}

// Err joins the failures, or is nil. Failures with the same cause are joined into one, with a count.
func (r Result) Err() error {
	var errs []error
	var causes []string
	objects := map[string][]string{} // by cause
	for _, entry := range r.Entries {
		if entry.Action != Failed {
			continue
		}
		errs = append(errs, fmt.Errorf("%s: %w", entry.Object, entry.Err))
		cause := entry.Err.Error()
		if objects[cause] == nil {
			causes = append(causes, cause)
		}
		objects[cause] = append(objects[cause], entry.Object.String())
	}
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	text := fmt.Sprintf("%d of %d objects failed:", len(errs), len(r.Entries))
	for _, cause := range causes {
		text += "\n" + Several(objects[cause]) + ": " + cause
	}
	return &failures{text, errs}
}

// failures are several errors with one text.
type failures struct {
	text string
	errs []error
}

func (f *failures) Error() string   { return f.text }
func (f *failures) Unwrap() []error { return f.errs }

// severalNames is the number of names that a text lists.
const severalNames = 3

// Several joins names; a long list is cut to the first few and a count.
func Several(names []string) string {
	if len(names) <= severalNames+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d others", strings.Join(names[:severalNames], ", "), len(names)-severalNames)
}

// longestError bounds the text of an error, in bytes: a server may repeat a whole object.
const longestError = 1000

// shortError is an error without the values that a server repeats. They may be long, and they may be secret.
type shortError struct{ error }

func (e shortError) Unwrap() error { return e.error }

func (e shortError) Error() string {
	text, _, repeated := strings.Cut(e.error.Error(), "got &value.valueUnstructured{")
	if repeated {
		text += "got a value of another type"
	}
	if len(text) > longestError {
		text = strings.ToValidUTF8(text[:longestError/2]+" … "+text[len(text)-longestError/2:], "") // the end may name the remedy
	}
	return text
}

func failed(ref Ref, err error) Entry {
	err = shortError{err}
	return Entry{Object: ref, Action: Failed, Message: err.Error(), Err: err}
}

// OwnedError reports that an object was left alone because it belongs to another set.
type OwnedError struct {
	// Holder names the set.
	Holder string
}

func (e *OwnedError) Error() string {
	return fmt.Sprintf("it belongs to %s: delete its label %s to hand it over", e.Holder, labelPartOf)
}

// Conflict is a field that another manager holds.
type Conflict struct {
	Field   string `json:"field"`
	Manager string `json:"manager"`
}

// ConflictError reports that an object was left alone because some of its fields belong to others.
type ConflictError struct {
	Conflicts []Conflict
}

func (e *ConflictError) Error() string {
	parts := make([]string, len(e.Conflicts))
	for i, c := range e.Conflicts {
		parts[i] = fmt.Sprintf("%s is managed by %q", c.Field, c.Manager)
	}
	return strings.Join(parts, ", ") + "; leave the field out, or force it to be taken over"
}
