package controlplane

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/testing/short"
)

// Shared is a control plane for all tests of a package, whose TestMain calls Main. Each test keeps to its own namespace.
type Shared struct {
	Options Options
	// Prepare is called once, when the control plane runs. It may be nil.
	Prepare func(ctx context.Context, config *rest.Config) error

	once  sync.Once
	plane *ControlPlane
	err   error
}

// Config returns a copy of the administrator's configuration. The first call starts the control plane.
func (s *Shared) Config(t testing.TB) *rest.Config {
	t.Helper()
	short.Skip(t, "a kube-apiserver")
	s.once.Do(func() {
		s.Options.Progress = func(line string) { t.Log(line) }
		s.plane, s.err = Start(context.Background(), s.Options)
		if s.err == nil && s.Prepare != nil {
			s.err = s.Prepare(t.Context(), s.plane.Config())
		}
	})
	if s.err != nil {
		t.Fatalf("start a control plane: %v", s.err)
	}
	return s.plane.Config()
}

// Main runs the tests of a package, stops the control plane, and ends the process.
func (s *Shared) Main(m *testing.M) {
	code := m.Run()
	if s.plane != nil {
		if err := s.plane.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the control plane:", err)
			code = 1
		}
	}
	os.Exit(code)
}
