package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/queue"
)

// switched is an owner that is off or on. Its hooks cannot run: their files fail.
type switched struct{ off bool }

var errRan = errors.New("it ran")

func (switched) Files() (map[string][]byte, error) { return nil, errRan }
func (switched) Answers() []string                 { return nil }
func (switched) Ending() bool                      { return false }
func (s switched) Off() bool                       { return s.off }

func (switched) Take(context.Context, *Hook, []binding.Context, map[string][]byte) error { return nil }

// TestHooksOfOwnerThatIsOffSeeItsEnd: what happens in the cluster is not theirs any more.
func TestHooksOfOwnerThatIsOffSeeItsEnd(t *testing.T) {
	e := New(Options{Modules: true})
	for kind, event := range map[binding.Type]bool{binding.OnKubernetes: true, binding.OnSchedule: true, binding.BeforeDeleteHelm: false, binding.AfterDeleteHelm: false} {
		for _, off := range []bool{true, false} {
			h := &Hook{Name: "h", Config: &binding.Config{Version: "v1"}, folder: Folder{Scope: binding.Module, Owner: switched{off}}}
			task := e.Task(h, binding.Common{}, binding.Context{Type: kind, Binding: "b"})
			err := task.Do(t.Context(), &queue.Queue{}, task)
			if ran := errors.Is(err, errRan); ran == (off && event) {
				t.Errorf("%s of an owner that is off (%v): %v", kind, off, err)
			}
		}
	}
}
