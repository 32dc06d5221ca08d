package rotation

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/internal/testing/kubeadm"
)

// TestAnyControlPlaneResumes a rotation whose leader is gone: with the keys that it has, with those of another control plane, and with
// new ones if nobody got any. It does not guess while one is silent that may have them.
func TestAnyControlPlaneResumes(t *testing.T) {
	client := fake.NewClientset()
	records := operation.RecordsOf(func() (kubernetes.Interface, error) { return client, nil })
	nobody := func(context.Context, string) (s authority.State, ok bool, err error) { return s, false, nil }
	begins := func(own, rootfs string, o Options, fetch func(context.Context, string) (authority.State, bool, error)) (*Rotation, error) {
		t.Helper()
		r := &Rotation{options: o, own: own, rootfs: rootfs, fetch: fetch, client: func() (kubernetes.Interface, error) { return client, nil }}
		return r, r.begin(t.Context(), records, time.Now())
	}
	hosts := map[string]string{}
	for _, name := range []string{"one", "two"} {
		hosts[name] = strings.TrimSuffix(kubeadm.Copy(t), "/etc/kubernetes")
	}
	only := Options{Only: []string{authority.Cluster}}
	first, err := begins("one", hosts["one"], only, nobody)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.run.Begin(t.Context()), first.save(t.Context())); err != nil {
		t.Fatal(err)
	}

	got := func(context.Context, string) (authority.State, bool, error) { return first.state, true, nil }
	if r, err := begins("two", hosts["two"], only, got); err != nil || !r.Resumes || r.state.ID != first.state.ID {
		t.Errorf("with the keys of another: %v", err)
	}
	silent := func(context.Context, string) (s authority.State, ok bool, err error) {
		return s, false, errors.New("control plane one: no route to host")
	}
	if _, err := begins("two", hosts["two"], only, silent); err == nil || !strings.Contains(err.Error(), "no route to host") || !strings.Contains(err.Error(), "which control plane one led last") {
		t.Errorf("while one is silent: %v", err)
	}
	if _, err := begins("two", hosts["two"], Options{Finish: true}, nobody); err == nil || !strings.Contains(err.Error(), "no rotation of CAs is under way") {
		t.Errorf("the end of what nobody has: %v", err)
	}
	second, err := begins("two", hosts["two"], only, nobody)
	if err != nil || second.Resumes || second.state.Parts[0].Key == first.state.Parts[0].Key {
		t.Fatalf("with new keys: %v", err)
	}
	if err := second.run.Begin(t.Context()); err != nil {
		t.Errorf("it does not take the place of the first: %v", err)
	}
	if err := first.run.Reach(t.Context(), first.run.Stages[0]); !errors.Is(err, operation.ErrTaken) {
		t.Errorf("the first goes on: %v", err)
	}

	// every node has the new CAs, which the host that led and the cluster know
	now := time.Now().UTC().Truncate(time.Second)
	if err := errors.Join(second.save(t.Context()), second.run.Save(t.Context(), params{second.Parts(), &now})); err != nil {
		t.Fatal(err)
	}
	gotSecond := func(context.Context, string) (authority.State, bool, error) { return second.state, true, nil }
	if r, err := begins("one", hosts["one"], Options{Finish: true}, gotSecond); err != nil || !r.Signed() || r.state.ID != second.state.ID {
		t.Errorf("another control plane does not end it: %v", err)
	}
}
