package leader

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/operation/intent"
	_ "github.com/sealift/sealift/internal/testing/usualhost"
)

// fakeNodes has one node. answer makes its report, or the error of the API, from the intent and the time since it was written.
type fakeNodes struct {
	intent string
	asked  time.Time
	answer func(in intent.Intent, since time.Duration) (intent.Report, error)
}

func (f *fakeNodes) Annotate(_ context.Context, _ string, annotations map[string]string) error {
	f.intent, f.asked = annotations[intent.Annotation], time.Now()
	return nil
}

func (f *fakeNodes) OwnNode(_ context.Context, name string) (cluster.Node, error) {
	return cluster.Node{Name: name}, nil
}

func (f *fakeNodes) AnnotationsOf(context.Context, string) (map[string]string, error) {
	if f.intent == "" {
		return nil, nil
	}
	in, err := intent.Parse(f.intent)
	if err != nil {
		return nil, err
	}
	report, err := f.answer(in, time.Since(f.asked))
	return map[string]string{intent.ReportAnnotation: report.Encode()}, err
}

// unsigned writes an intent as if there were no CA: see package intent for signatures.
func unsigned(in intent.Intent) (string, error) {
	text, err := json.Marshal(in)
	return string(text), err
}

func working(in intent.Intent, step string) intent.Report {
	return intent.Report{Upgrade: in.Upgrade, Operation: in.Operation, Attempt: in.Attempt, State: intent.Working, Step: step}
}

func TestLeaderWaitsForAnswersOfAgents(t *testing.T) {
	removed := apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "host-2")
	for name, row := range map[string]struct {
		answer func(in intent.Intent, since time.Duration) (intent.Report, error)
		within time.Duration // of the end
		says   []string      // the error has
	}{
		"a node that works and is done": {func(in intent.Intent, since time.Duration) (intent.Report, error) {
			r := working(in, "files")
			if since > 10*time.Minute {
				r.State = intent.Done
			}
			return r, nil
		}, 11 * time.Minute, nil},
		"an API that is away for some minutes": {func(in intent.Intent, since time.Duration) (intent.Report, error) {
			r := working(in, "files")
			switch {
			case since > 10*time.Minute:
				r.State = intent.Done
			case since > 4*time.Minute:
				return r, syscall.ECONNREFUSED
			}
			return r, nil
		}, 11 * time.Minute, nil},
		"a node that is removed meanwhile": {func(in intent.Intent, since time.Duration) (intent.Report, error) {
			if since > time.Minute {
				return intent.Report{}, removed
			}
			return working(in, "files"), nil
		}, 2 * time.Minute, []string{`nodes "host-2" not found`, "upgrade"}},
		"a node whose operation fails": {func(in intent.Intent, _ time.Duration) (intent.Report, error) {
			r := working(in, "containerd/start")
			r.State, r.Error = intent.Failed, "the disk is full"
			return r, nil
		}, time.Minute, []string{"failed at containerd/start: the disk is full"}},
		"a node whose agent never answers": {func(intent.Intent, time.Duration) (intent.Report, error) {
			return intent.Report{}, nil
		}, 4 * time.Minute, []string{"does not answer", "is the host up?"}},
		"a node that stays at a step": {func(in intent.Intent, _ time.Duration) (intent.Report, error) {
			return working(in, "containerd/start"), nil
		}, 41 * time.Minute, []string{"is not done", "gave up after 40m0s", "containerd/start", "sealift-agent"}},
		"an API that stays away": {func(intent.Intent, time.Duration) (intent.Report, error) {
			return intent.Report{}, syscall.ECONNREFUSED
		}, 41 * time.Minute, []string{"gave up after 40m0s", "connection refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				in := intent.Intent{Upgrade: "u", Operation: intent.Upgrade, Index: strings.Repeat("a", 64), Sealift: strings.Repeat("b", 64), Server: "10.0.0.1:6445"}
				err := Leader{&fakeNodes{answer: row.answer}, unsigned}.Ask(t.Context(), func(string) {}, "host-2", in)
				if took := time.Since(began); took > row.within {
					t.Errorf("it ended after %s, want %s", took, row.within)
				}
				if (err != nil) != (row.says != nil) {
					t.Fatalf("got %v", err)
				}
				for _, text := range row.says {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("%q lacks %q", err, text)
					}
				}
			})
		})
	}
}

// TestTooLowNumberIsRaised has a node that accepted a request while a clock was ahead, and whose report an undo took back.
func TestTooLowNumberIsRaised(t *testing.T) {
	for name, accepts := range map[string]bool{"the node accepts a higher number": true, "the node accepts nothing": false} {
		synctest.Test(t, func(t *testing.T) {
			accepted := time.Now().AddDate(1, 2, 0).UnixNano()
			numbers := map[int64]bool{}
			nodes := &fakeNodes{answer: func(in intent.Intent, _ time.Duration) (intent.Report, error) {
				numbers[in.Number] = true
				r := working(in, "")
				r.Number, r.State = in.Number, intent.Done
				if !accepts || in.Number <= accepted {
					r.State, r.Error, r.Accepted = intent.Failed, "it was used before", max(accepted, in.Number)
				}
				return r, nil
			}}
			in := intent.Intent{Upgrade: "u", Operation: intent.Upgrade, Index: strings.Repeat("a", 64), Sealift: strings.Repeat("b", 64), Server: "10.0.0.1:6445"}
			err := Leader{nodes, unsigned}.Ask(t.Context(), func(string) {}, "host-2", in)
			if len(numbers) != 2 || (err == nil) != accepts {
				t.Errorf("%s: it was asked with %v: %v", name, numbers, err)
			}
		})
	}
}

func TestRetryDuringOutageReturnsPermanentErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, broken := time.Now(), errors.New("ConfigMap kube-system/sealift-upgrade: invalid character")
		err := RetryDuringOutage(t.Context(), func(context.Context) error { return broken })
		if !errors.Is(err, broken) || time.Since(began) != 0 {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		err = RetryDuringOutage(t.Context(), func(context.Context) error { return syscall.ECONNREFUSED })
		if !errors.Is(err, syscall.ECONNREFUSED) || time.Since(began) != outage {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}
