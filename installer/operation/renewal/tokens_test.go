package renewal_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/operation/renewal"
)

// kubelet is one that wrote the token of a pod, and a clock.
type kubelet struct {
	renewal.TokenKeeper
	link     string
	now      time.Time
	restarts int
}

func newKubelet(t *testing.T) *kubelet {
	t.Helper()
	dir := t.TempDir()
	k := &kubelet{link: filepath.Join(dir, "pod-1", "..data"), now: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)}
	k.Log, k.Volumes = slog.New(slog.NewTextHandler(t.Output(), nil)), filepath.Join(dir, "*", "..data")
	k.Now = func() time.Time { return k.now }
	k.Restart = func(context.Context) error {
		k.restarts++
		return nil
	}
	if err := os.Mkdir(filepath.Dir(k.link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("..2026", k.link); err != nil {
		t.Fatal(err)
	}
	k.writes(t)
	return k
}

// writes is what the kubelet does when it got a token.
func (k *kubelet) writes(t *testing.T) {
	t.Helper()
	if err := unix.Lutimes(k.link, []unix.Timeval{unix.NsecToTimeval(k.now.UnixNano()), unix.NsecToTimeval(k.now.UnixNano())}); err != nil {
		t.Fatal(err)
	}
}

func (k *kubelet) wants(t *testing.T, when string, restarts int) {
	t.Helper()
	for range 2 {
		if err := k.Pass(t.Context()); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	if k.restarts != restarts {
		t.Errorf("%s: %d restarts, want %d", when, k.restarts, restarts)
	}
}

// TestTokensFromTheFutureAreReplacedOnce sets the clock ahead and back.
func TestTokensFromTheFutureAreReplacedOnce(t *testing.T) {
	k := newKubelet(t)
	k.wants(t, "with the right clock", 0)
	k.now = k.now.AddDate(0, 0, 1)
	k.wants(t, "a day ahead", 0)
	k.writes(t)
	k.now = k.now.AddDate(0, 0, -1)
	k.wants(t, "set back", 1)
	k.writes(t)
	k.now = k.now.Add(-30 * time.Second)
	k.wants(t, "set back by less than an API server minds", 1)
	k.now = k.now.AddDate(0, 0, -1)
	k.wants(t, "set back once more", 2)
	k.now = k.now.AddDate(0, 0, 1)
	k.wants(t, "right again", 2)
}

func TestKubeletThatDidNotRestartIsRestartedLater(t *testing.T) {
	k := newKubelet(t)
	k.now = k.now.AddDate(0, 0, -1)
	works, failure := k.Restart, errors.New("systemd is busy")
	k.Restart = func(context.Context) error { return failure }
	if err := k.Pass(t.Context()); !errors.Is(err, failure) {
		t.Errorf("%v", err)
	}
	k.Restart = works
	k.wants(t, "when systemd works again", 1)
}

func TestNodeWithoutPodsNeedsNoRestart(t *testing.T) {
	k := newKubelet(t)
	if err := os.RemoveAll(filepath.Dir(k.link)); err != nil {
		t.Fatal(err)
	}
	k.now = time.Unix(0, 0)
	k.wants(t, "in 1970", 0)
}
