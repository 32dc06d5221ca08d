// Package lab gives tests hosts of the lab, and the programs that its workshop makes.
package lab

import (
	"context"
	"testing"

	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// Host boots a host of the machine's common rack that ends with t. Tests of several packages run at the same time, so
// leave the name empty unless it matters.
func Host(t testing.TB, s host.Spec) *host.Host {
	t.Helper()
	short.Skip(t, "a host of the lab")
	rack, err := host.OpenRack(t.Context(), host.Options{Progress: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatalf("open the rack of lab hosts: %v", err)
	}
	h, err := rack.Boot(t.Context(), s)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := rack.Remove(context.WithoutCancel(t.Context()), h.Name()); err != nil {
			t.Errorf("remove host %s: %v", h.Name(), err)
		}
	})
	return h
}

// Workshop returns the lab's workshop. It writes its progress to t's log.
func Workshop(t testing.TB) *upstream.Workshop {
	t.Helper()
	short.Skip(t, "programs of the lab")
	w, err := upstream.NewWorkshop(upstream.Options{Progress: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	return w
}
