package hook_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/isolation"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/operator/hook"
)

// file writes an executable file.
func file(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := fixture.WriteProgram(path, text); err != nil {
		t.Fatal(err)
	}
	return path
}

func logger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

func TestFind(t *testing.T) {
	dir, log := t.TempDir(), &fixture.Buffer{}
	for _, name := range []string{"b.sh", "a/z.py", "a/lib/no.sh", "lib/no.sh", ".git/no.sh", ".hidden", "a/values.yaml", "README.md", "plain", "a.sh"} {
		file(t, dir, name, "#!/bin/sh\n")
	}
	if err := os.Chmod(filepath.Join(dir, "plain"), 0o644); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	for name, to := range map[string]string{"linked": file(t, elsewhere, "target", "#!/bin/sh\n"), "dangling": "/nowhere", "folder": elsewhere} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := hook.Find(dir, logger(log))
	if want := []string{"a.sh", "a/z.py", "b.sh", "linked"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("found %v, %v", got, err)
	}
	for _, warned := range []string{"plain", "dangling"} {
		if !strings.Contains(log.String(), filepath.Join(dir, warned)) {
			t.Errorf("no warning about %s:\n%s", warned, log)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if through, err := hook.Find(link, logger(log)); err != nil || !slices.Equal(through, got) {
		t.Errorf("found through a link: %v, %v", through, err)
	}
	if _, err := hook.Find("/nowhere", logger(log)); err == nil || !strings.Contains(err.Error(), "find hooks in /nowhere") {
		t.Errorf("a folder that does not exist: %v", err)
	}
}

func TestHookHasItsOwnFiles(t *testing.T) {
	dir, temp, log := t.TempDir(), t.TempDir(), &fixture.Buffer{}
	path := file(t, dir, "hook.sh", `#!/bin/bash
echo "in $PWD with $# arguments"
stat -c '%a %n' "$BINDING_CONTEXT_PATH" "${BINDING_CONTEXT_PATH%/*}"
cat "$BINDING_CONTEXT_PATH" > "$METRICS_PATH"
[ "$METRICS_PATH" = "$OTHER_PATH" ] && echo same >&2
[ -z "$SECRET" ] && echo "no secret, but $EXTRA"
rm "$GONE_PATH"
`)
	t.Setenv("SECRET", "x")
	r := hook.Runner{Log: logger(log), TempDir: temp, Pass: []string{"PATH"}, Set: []string{"EXTRA=more"}}
	result, err := r.Run(t.Context(), hook.Command{
		Name: "hook.sh", Path: path, Dir: dir, In: map[string][]byte{"BINDING_CONTEXT_PATH": []byte("told")},
		Out: []string{"METRICS_PATH", "GONE_PATH"}, Alias: map[string]string{"METRICS_PATH": "OTHER_PATH"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if string(result.Out["METRICS_PATH"]) != "told" || len(result.Out["GONE_PATH"]) != 0 || result.Duration <= 0 || result.MaxRSS < 1<<19 {
		t.Errorf("%+v", result)
	}
	for _, want := range []string{"in " + dir + " with 0 arguments", "600 " + temp, "700 " + temp, "msg=same", "output=stderr", "no secret, but more"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
}

func TestFailedHookKeepsItsAnswers(t *testing.T) {
	dir := t.TempDir()
	path := file(t, dir, "hook.sh", "#!/bin/sh\necho status > $KUBERNETES_PATCH_PATH\necho what went wrong >&2\nexit 3\n")
	r := hook.Runner{TempDir: t.TempDir()}
	result, err := r.Run(t.Context(), hook.Command{Name: "hook.sh", Path: path, Dir: dir, Out: []string{"KUBERNETES_PATCH_PATH"}})
	if err == nil || !strings.Contains(err.Error(), "hook hook.sh: exit status 3; it printed last:\nwhat went wrong") {
		t.Errorf("got %v", err)
	}
	if string(result.Out["KUBERNETES_PATCH_PATH"]) != "status\n" {
		t.Errorf("%q", result.Out)
	}
}

func TestAnswerMustBeRegularFile(t *testing.T) {
	dir := t.TempDir()
	for name, script := range map[string]string{
		"a link out":   "ln -sf /etc/hostname $METRICS_PATH",
		"a pipe":       "rm $METRICS_PATH; mkfifo $METRICS_PATH",
		"much too big": "truncate -s 65M $METRICS_PATH",
	} {
		path := file(t, dir, "hook.sh", "#!/bin/sh\n"+script+"\n")
		r := hook.Runner{TempDir: t.TempDir()}
		if _, err := r.Run(t.Context(), hook.Command{Name: "hook.sh", Path: path, Dir: dir, Out: []string{"METRICS_PATH"}}); err == nil || !strings.Contains(err.Error(), "METRICS_PATH") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRunEndsWithItsProcessNotItsChildren(t *testing.T) {
	dir, log := t.TempDir(), &fixture.Buffer{}
	path := file(t, dir, "hook.sh", "#!/bin/sh\nsleep 60 &\necho $! > $METRICS_PATH\necho started\n")
	r := hook.Runner{Log: logger(log), TempDir: t.TempDir()}
	start := time.Now()
	result, err := r.Run(t.Context(), hook.Command{Name: "hook.sh", Path: path, Dir: dir, Out: []string{"METRICS_PATH"}})
	if err != nil || time.Since(start) > 20*time.Second || !strings.Contains(log.String(), "started") {
		t.Errorf("after %s: %v\n%s", time.Since(start), err, log)
	}
	var pid int
	if _, err := fmt.Sscan(string(result.Out["METRICS_PATH"]), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the child was ended with the hook: %v", err)
	}
}

func TestHookIsStoppedWithItsProcessGroup(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), &fixture.Buffer{}
	path := file(t, dir, "hook.sh", "#!/bin/sh\ntrap 'echo got TERM; exit 1' TERM\necho ready\nsleep 60 & wait\n")
	r := hook.Runner{Log: logger(log), TempDir: t.TempDir()}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for !strings.Contains(log.String(), "ready") {
			time.Sleep(5 * time.Millisecond)
		}
		cancel()
	}()
	_, err := r.Run(ctx, hook.Command{Name: "hook.sh", Path: path, Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "stopped: context canceled") || !strings.Contains(log.String(), "got TERM") {
		t.Errorf("%v\n%s", err, log)
	}
	stubborn := file(t, dir, "stubborn.sh", "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 1; done\n")
	r.Timeout = 100 * time.Millisecond
	if _, err := r.Run(t.Context(), hook.Command{Name: "stubborn.sh", Path: stubborn, Dir: dir}); err == nil || !strings.Contains(err.Error(), "it ran longer than 100ms") {
		t.Errorf("a hook that ignores SIGTERM: %v", err)
	}
}

func TestChildIgnoringSIGTERMIsKilled(t *testing.T) {
	dir, log := t.TempDir(), &fixture.Buffer{}
	path := file(t, dir, "hook.sh", "#!/bin/bash\nbash -c 'trap \"\" TERM; echo child $$ is set; while :; do sleep 0.2; done' &\nsleep 60 & wait\n")
	r := hook.Runner{Log: logger(log), TempDir: t.TempDir()}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for !strings.Contains(log.String(), "is set") {
			time.Sleep(5 * time.Millisecond)
		}
		cancel()
	}()
	if _, err := r.Run(ctx, hook.Command{Name: "hook.sh", Path: path, Dir: dir}); err == nil {
		t.Error("a hook that was stopped succeeded")
	}
	_, rest, _ := strings.Cut(log.String(), "child ")
	var pid int
	if _, err := fmt.Sscan(rest, &pid); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(state), ") Z ") { // gone, or not waited for yet
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the child lives on: %s", state)
		}
	}
}

// TestFullDiskFailsOneRun has no room for the files of one run, and room for the next.
func TestFullDiskFailsOneRun(t *testing.T) {
	short.Root(t, "a file system of its own")
	full := isolation.NewDisk(t, 4<<20)
	path := file(t, t.TempDir(), "hook.sh", "#!/bin/sh\nexec cat \"$BINDING_CONTEXT_PATH\" > \"$METRICS_PATH\"\n")
	r := hook.Runner{TempDir: full.Path()}
	run := func() (*hook.Result, error) {
		return r.Run(t.Context(), hook.Command{
			Name: "hook.sh", Path: path, Dir: "/", In: map[string][]byte{"BINDING_CONTEXT_PATH": bytes.Repeat([]byte("x"), 64<<10)}, Out: []string{"METRICS_PATH"},
		})
	}
	free := full.Fill()
	if _, err := run(); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "make the files of hook hook.sh") {
		t.Errorf("on a full disk: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(full.Path(), "hook-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	free()
	if result, err := run(); err != nil || len(result.Out["METRICS_PATH"]) != 64<<10 {
		t.Errorf("with room again: %v", err)
	}
}

func TestHookLinesAreLogged(t *testing.T) {
	dir, log := t.TempDir(), &fixture.Buffer{}
	path := file(t, dir, "hook.sh", `#!/bin/bash
echo '{"level":"Warning","msg":"mine","time":"1999","zone":"a","count":{"n":2}}'
echo '{"no":"message"}' >&2
echo '["no object"]'
echo '{broken'
printf '{"msg":"long","text":"%020000d"}\n' 0
head -c 1048576 /dev/zero | tr '\0' x; echo
printf 'no newline'
`)
	r := hook.Runner{Log: logger(log), JSON: true, TempDir: t.TempDir()}
	if _, err := r.Run(t.Context(), hook.Command{Name: "hook.sh", Path: path, Dir: dir, Why: []slog.Attr{slog.String("binding", "pods")}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"level=WARN msg=mine hook=hook.sh output=stdout binding=pods proxyJsonLog=true hook_count=map[n:2] hook_zone=a\n",
		"level=INFO msg=\"hook result\" hook=hook.sh output=stderr binding=pods proxyJsonLog=true hook_no=message\n",
		`msg="[\"no object\"]" hook=`, `msg=long hook=hook.sh output=stdout binding=pods proxyJsonLog=true hook.truncated="{\"text\":\"000`, "000:truncated\"\n",
		"{broken", "xxx… (cut)", "no newline", "hook=hook.sh output=stdout binding=pods"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	if strings.Contains(log.String(), "1999") {
		t.Error("the log has the time of a hook's record")
	}
	if size := len(log.String()); size > 100<<10 {
		t.Errorf("a line of 1 MiB makes a log of %d bytes", size)
	}
}

// TestMultilineRecordIsOne: with LOG_PROXY_HOOK_JSON, upstream joins what jq prints without -c.
func TestMultilineRecordIsOne(t *testing.T) {
	dir, log := t.TempDir(), &fixture.Buffer{}
	path := file(t, dir, "hook.sh", `#!/bin/bash
echo 'before'
jq -n '{level: "error", msg: "pretty", list: [1, {a: "}"}], "time": "1999"}'
echo '{"msg":"two"} {"msg":"on one line"}'
printf '  {\n\n"msg":\n"with an empty line"}\n'
printf '{"msg":"parts"'; sleep 0.1; printf ',"n":1}\n'
printf '{\n"msg": broken\n{"msg":"after a broken one"}\n'
printf '{\nplain again\n'
printf '{"msg":"over both",\n' >&2; echo '{"msg":"other stream"}'; echo '"n":2}' >&2
for i in $(seq 1500); do echo "{\"n\":"; done
printf '\nlast\n{"msg": "it ends here",\n'
`)
	r := hook.Runner{Log: logger(log), JSON: true, TempDir: t.TempDir()}
	if _, err := r.Run(t.Context(), hook.Command{Name: "hook.sh", Path: path, Dir: dir}); err != nil {
		t.Fatal(err)
	}
	const of = " hook=hook.sh output=stdout"
	for _, want := range []string{
		"msg=before" + of, "level=ERROR msg=pretty" + of + " proxyJsonLog=true hook_list=\"[1 map[a:}]]\"\n", "msg=two" + of + " proxyJsonLog=true", `msg="on one line"` + of + " proxyJsonLog=true",
		`msg="with an empty line"` + of + " proxyJsonLog=true", "msg=parts" + of + " proxyJsonLog=true hook_n=1", `msg="\"msg\": broken"` + of, `msg="after a broken one"` + of + " proxyJsonLog=true",
		`msg="plain again"` + of, `msg="over both" hook=hook.sh output=stderr proxyJsonLog=true hook_n=2`, `msg="other stream"` + of + " proxyJsonLog=true", "msg=last" + of, `msg="{\"msg\": \"it ends here\","` + of,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	if got := strings.Count(log.String(), `msg="{\"n\":"`); got != 1500 {
		t.Errorf("%d of 1500 lines of a record without an end are in the log", got)
	}
}

// slowLog takes a while for each record.
type slowLog struct{ fixture.Buffer }

func (s *slowLog) Write(p []byte) (int, error) {
	time.Sleep(5 * time.Millisecond)
	return s.Buffer.Write(p)
}

// TestSlowLogGetsWholeOutput uses a hook that ends long before its lines are in the log, with and without a child that holds its output.
func TestSlowLogGetsWholeOutput(t *testing.T) {
	dir := t.TempDir()
	for name, more := range map[string]string{"alone": "", "with a child": "sleep 30 &\n"} {
		t.Run(name, func(t *testing.T) {
			log := &slowLog{}
			path := file(t, dir, strings.ReplaceAll(name, " ", "-")+".sh", "#!/bin/bash\n"+more+"for i in $(seq 400); do printf 'line %0140d\\n' $i; done\n")
			r := hook.Runner{Log: logger(log), TempDir: t.TempDir()}
			if _, err := r.Run(t.Context(), hook.Command{Name: "hook.sh", Path: path, Dir: dir}); err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(log.String(), `msg="line `); got != 400 {
				t.Errorf("%d of 400 lines are in the log", got)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	dir := t.TempDir()
	r := hook.Runner{}
	config := func(text string) (string, error) {
		out, err := r.Config(t.Context(), "hook.sh", file(t, dir, "hook.sh", text), dir)
		return string(out), err
	}
	if out, err := config("#!/bin/sh\n[ \"$1\" = --config ] && pwd\necho told >&2\n"); err != nil || out != dir+"\n" {
		t.Errorf("printed %q, %v", out, err)
	}
	arm := "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 11) + "\xb7\x00" + strings.Repeat("\x00", 44)
	for name, c := range map[string]struct{ text, want string }{
		"it fails":              {"#!/bin/sh\necho why >&2\nexit 1\n", "exit status 1; it printed last:\nwhy"},
		"it floods":             {"#!/bin/sh\nhead -c 2000000 /dev/zero\n", "more than 1048576 bytes"},
		"no first line":         {"echo hello\n", "no first line such as #!/usr/bin/env bash"},
		"an empty file":         {"", "the file is empty"},
		"CRLF":                  {"#!/bin/sh\r\necho hello\r\n", "its lines end in CRLF"},
		"a missing interpreter": {"#!/usr/bin/nothing -x\n", "its interpreter /usr/bin/nothing does not exist"},
		"another architecture":  {arm, "a program for AARCH64"},
	} {
		if _, err := config(c.text); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "configuration of hook hook.sh") {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := r.Config(ctx, "hook.sh", file(t, dir, "hangs.sh", "#!/bin/sh\nexec sleep 60\n"), dir); err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("it hangs: %v", err)
	}
	path := file(t, dir, "plain.sh", "#!/bin/sh\n")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Config(t.Context(), "plain.sh", path, dir); err == nil || !strings.Contains(err.Error(), "chmod +x") {
		t.Errorf("not executable: %v", err)
	}
}

func TestHooksRunAsAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can run hooks as another user")
	}
	dir := t.TempDir()
	temp, err := os.MkdirTemp("", "hooks-of-nobody-") // which nobody else may enter, unlike the test's own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temp) })
	if err := os.Chmod(temp, 0o711); err != nil {
		t.Fatal(err)
	}
	path := file(t, temp, "hook.sh", "#!/bin/sh\nid -u > $METRICS_PATH\nhead -c 3 $BINDING_CONTEXT_PATH >> $METRICS_PATH\n")
	r := hook.Runner{TempDir: temp, User: &syscall.Credential{Uid: 65534, Gid: 65534}}
	result, err := r.Run(t.Context(), hook.Command{
		Name: "hook.sh", Path: path, Dir: "/", In: map[string][]byte{"BINDING_CONTEXT_PATH": []byte("told")}, Out: []string{"METRICS_PATH"},
	})
	if err != nil || string(result.Out["METRICS_PATH"]) != "65534\ntol" {
		t.Errorf("%q, %v in %s", result.Out, err, dir)
	}
}
