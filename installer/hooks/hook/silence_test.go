package hook_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/hooks/hook"
)

func TestOnlySilenceCountsTowardsTimeout(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "install.sh")
	if err := os.WriteFile(script, []byte("working() { for n in $(seq 20); do echo $n; sleep 0.5; done; }\nsilent() { sleep 600; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := hook.Start(hook.Options{Dir: t.TempDir(), Env: os.Environ(), Log: t.Output(), Silence: 8 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Source(t.Context(), script); err != nil {
		t.Fatal(err)
	}
	if err := s.Call(t.Context(), "working"); err != nil {
		t.Errorf("a hook that takes longer than its silence may: %v", err)
	}
	silent := new(hook.SilenceError)
	if err := s.Call(t.Context(), "silent"); !errors.As(err, &silent) {
		t.Errorf("got %v", err)
	}
}
