package hook_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/hooks/hook"
)

// patience is far more than any of these takes; it keeps a hang from lasting as long as the test binary.
const patience = 5 * time.Minute

// within fails the test when work does not end.
func within(t *testing.T, work func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- work() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatal("it does not end")
		return nil
	}
}

func TestShellKillsLeftoverProcesses(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"the shell is killed":                       `kill -9 $$`,
		"the shell is killed, a daemon holds pipes": `setsid sleep 600 & echo $! >pid; kill -9 $$`,
		"exit, and a daemon holds pipes":            `setsid sleep 600 & echo $! >pid; exit 3`,
		"the shell becomes another program":         `exec true`,
		"the pipe to Go is closed":                  `exec 4>&-`,
		"all pipes are closed, and nothing ends":    `exec 3<&- 4>&- 5<&- 6>&-; while :; do sleep 1; done`,
		"a question whose answer nobody reads":      `exec 6>&-; printf '%s\0' ask 2 template-names /dev/null >&4; kill -9 $$`,
		"a large answer that a daemon could read":   `head -c 4000000 /dev/zero | tr '\0' x >big; setsid sleep 600 & echo $! >pid; printf '%s\0' ask 3 template-render document big >&4; kill -9 $$`,
		"a message that is none":                    `printf 'x\0y\0' >&4`,
		"nothing, for ever, a daemon in between":    `setsid sleep 600 & echo $! >pid; while :; do sleep 1; done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, err := hook.Start(hook.Options{Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH")}, Log: &strings.Builder{}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if pid, err := os.ReadFile(dir + "/pid"); err == nil {
					_ = exec.Command("kill", strings.TrimSpace(string(pid))).Run()
				}
			})
			if err := os.WriteFile(dir+"/install.sh", []byte("hostile() { "+body+"; }\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := s.Source(t.Context(), dir+"/install.sh"); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			err = within(t, func() error { return s.Call(ctx, "hostile") })
			if _, ok := errors.AsType[*hook.Error](err); !ok {
				t.Errorf("%v", err)
			}
			_ = within(t, s.Close)
		})
	}
}
