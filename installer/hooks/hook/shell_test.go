package hook_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/hooks/hook"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// shell starts a shell that has sourced a script.
func shell(t *testing.T, script string) (*hook.Shell, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	s, err := hook.Start(hook.Options{Dir: t.TempDir(), Env: []string{"PATH=" + os.Getenv("PATH")}, Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	name := filepath.Join(t.TempDir(), "install.sh")
	if err := os.WriteFile(name, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Source(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return s, &log
}

func variable(t *testing.T, s *hook.Shell, name string) string {
	t.Helper()
	vars, err := s.Variables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return vars[name]
}

func TestGlobalsPassFromHookToHook(t *testing.T) {
	s, _ := shell(t, "first() { POD_CIDR=10.32.0.0/20; }\nsecond() { SEEN=\"$POD_CIDR\"; }")
	for _, f := range []string{"first", "second"} {
		if err := s.Call(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	if got := variable(t, s, "SEEN"); got != "10.32.0.0/20" {
		t.Errorf("second hook saw %q", got)
	}
}

// TestHookFindsNewlyInstalledProgram: the kubectl of a host package is installed before that of the cluster.
func TestHookFindsNewlyInstalledProgram(t *testing.T) {
	early, late := t.TempDir(), t.TempDir()
	t.Setenv("PATH", early+":"+late+":"+os.Getenv("PATH"))
	s, _ := shell(t, "ask() { SEEN=$(kubectl; kubectl); kubectl >/dev/null; }")
	for _, folder := range []string{late, early} {
		if err := fixture.WriteProgram(filepath.Join(folder, "kubectl"), "#!/bin/sh\nprintf "+folder+"\n"); err != nil {
			t.Fatal(err)
		}
		if err := s.Call(t.Context(), "ask"); err != nil {
			t.Fatal(err)
		}
		if got := variable(t, s, "SEEN"); got != folder+folder {
			t.Errorf("the hook ran that of %s, want %s", got, folder)
		}
	}
}

func TestValuesAreDataNeverCode(t *testing.T) {
	dir := t.TempDir()
	mark := filepath.Join(dir, "mark")
	s, _ := shell(t, `show() { COPY="$VALUE"; RENDERED=$(render_yaml_file_2 "$TEMPLATE"; printf .); }`)
	template := filepath.Join(dir, "template")
	if err := os.WriteFile(template, []byte("a: \"$VALUE\"\nb: ${VALUE}\nc: $(touch "+mark+")\nd: `touch "+mark+"` $5 \\n\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{
		`$(touch ` + mark + `)`, "`touch " + mark + "`", `"; touch ` + mark + `; "`, "line\nbreak\n", `back\slash`, `${VALUE}`, `'`, "", "*", " spaced  out ",
	} {
		for name, v := range map[string]string{"VALUE": value, "TEMPLATE": template} {
			if err := s.Set(t.Context(), name, v); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Call(t.Context(), "show"); err != nil {
			t.Fatal(err)
		}
		if got := variable(t, s, "COPY"); got != value {
			t.Errorf("hook saw %q, want %q", got, value)
		}
		want := "a: \"" + value + "\"\nb: " + value + "\nc: $(touch " + mark + ")\nd: `touch " + mark + "` $5 \\n\n\n."
		if got := variable(t, s, "RENDERED"); got != want {
			t.Errorf("rendered\n%q, want\n%q", got, want)
		}
	}
	if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
		t.Error("a value was run as code")
	}
}

func TestHookFailureNamesLineAndCommand(t *testing.T) {
	for name, row := range map[string]struct{ body, status, place, output string }{
		"command fails":         {"echo before; ls /nowhere/at/all; echo after", "exit status 2", "install.sh:1: ls /nowhere/at/all", "before"},
		"bail":                  {`bail "no disk"`, "exit status 1", "", "failed: no disk"},
		"exit in a hook":        {"exit 7", "exit status 7", "", ""},
		"function not there":    {"unheard_of", "exit status 127", "unheard_of", "not found"},
		"failing in a function": {"inner() { false; }; inner", "exit status 1", "false", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := shell(t, "broken() { "+row.body+"; }")
			err := s.Call(t.Context(), "broken")
			var failed *hook.Error
			if !errors.As(err, &failed) {
				t.Fatalf("got %v", err)
			}
			if failed.Hook != "broken" || failed.Status != row.status || !strings.Contains(failed.Place, row.place) || !strings.Contains(failed.Output, row.output) {
				t.Errorf("got %+v, want %+v", failed, row)
			}
			if strings.Contains(failed.Output, "after") {
				t.Error("the hook went on after a failure")
			}
			if err := s.Call(t.Context(), "broken"); err == nil {
				t.Error("a dead shell accepted a call")
			}
		})
	}
}

func TestErrorShowsEndOfLongOutput(t *testing.T) {
	s, _ := shell(t, `broken() { for i in $(seq 5000); do echo "line $i"; done; printf '%01000d\n' 0; echo last; false; }`)
	err := s.Call(t.Context(), "broken")
	var failed *hook.Error
	if !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
	lines := strings.Split(failed.Output, "\n")
	if len(lines) != 12 || lines[11] != "last" || lines[0] != "line 4991" || len(lines[10]) > 410 {
		t.Errorf("got %d lines:\n%s", len(lines), failed.Output)
	}
}

func TestHookIsStoppedWithItsChildren(t *testing.T) {
	s, _ := shell(t, "hang() { echo waiting; sleep 3600 & sleep 3600; }")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Call(ctx, "hang"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "waiting") {
		t.Errorf("got %v", err)
	}
}

func TestHookOutputIsLogged(t *testing.T) {
	s, log := shell(t, "speak() { echo to stdout; logStep to stderr; }")
	if err := s.Call(t.Context(), "speak"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); !strings.Contains(got, "to stdout\n") || !strings.Contains(got, "to stderr\n") {
		t.Errorf("log has %q", got)
	}
}

func TestHookCannotReadRequests(t *testing.T) {
	s, _ := shell(t, `greedy() { cat >/dev/null; GOT=$(cat <&3 2>/dev/null || echo closed); }; next() { NEXT=1; }`)
	for _, f := range []string{"greedy", "next"} {
		if err := s.Call(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	if got := variable(t, s, "NEXT"); got != "1" {
		t.Errorf("NEXT is %q", got)
	}
}

func TestSetRefusesInvalidShellValues(t *testing.T) {
	s, _ := shell(t, "")
	for _, row := range [][2]string{{"a-b", "1"}, {"1A", "1"}, {"A;touch x", "1"}, {"", "1"}, {"A[0]", "1"}, {"OK", "nul\x00byte"}} {
		if err := s.Set(t.Context(), row[0], row[1]); err == nil {
			t.Errorf("set %q to %q", row[0], row[1])
		}
	}
}

func TestHookInsertsIntoKustomization(t *testing.T) {
	s, _ := shell(t, `edit() {
  printf 'resources:\n- old.yaml\n' >kustomization.yaml
  insert_resources kustomization.yaml new.yaml
  insert_patches_strategic_merge kustomization.yaml patch.yaml
  RESULT=$(cat kustomization.yaml)
}`)
	if err := s.Call(t.Context(), "edit"); err != nil {
		t.Fatal(err)
	}
	if got, want := variable(t, s, "RESULT"), "resources:\n- new.yaml\n- old.yaml\npatchesStrategicMerge:\n- patch.yaml"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestSpinnerUntilEnds(t *testing.T) {
	s, _ := shell(t, `try() { if spinner_until 1 false; then RESULT=true; else RESULT=gave-up; fi; spinner_until 5 true; }`)
	if err := s.Call(t.Context(), "try"); err != nil {
		t.Fatal(err)
	}
	if got := variable(t, s, "RESULT"); got != "gave-up" {
		t.Errorf("got %q", got)
	}
}

func TestFunctionsAreListedWithoutRunning(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	script := "touch " + mark + "\nflannel_pre_init() { :; }\nfunction cert-manager { inner() { :; }; }\n"
	got, err := hook.Functions("install.sh", strings.NewReader(script))
	if err != nil || !slices.Equal(got, []string{"flannel_pre_init", "cert-manager"}) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the script was run")
	}
	if _, err := hook.Functions("install.sh", strings.NewReader("if true; then")); err == nil {
		t.Error("broken script accepted")
	}
}
