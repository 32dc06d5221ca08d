package command_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/console/command"
)

// program writes a shell script that stands for sealift. dir is its folder.
func program(t *testing.T, script string) (name, dir string) {
	t.Helper()
	dir = t.TempDir()
	name = filepath.Join(dir, "sealift")
	if err := os.WriteFile(name, []byte("#!/bin/sh\ncd "+dir+"\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return name, dir
}

func TestReadsAreShared(t *testing.T) {
	name, dir := program(t, "echo run >>runs\nsleep 0.3\necho '{\"state\": \"'\"$*\"'\"}'; exit 1\n")
	r := command.NewReader(name, time.Now)
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			var got struct{ State string }
			if err := r.Read(t.Context(), "status").Decode(&got); err != nil || got.State != "status -o json" {
				t.Errorf("got %q, %v", got.State, err)
			}
		})
	}
	all.Wait()
	runs, err := os.ReadFile(filepath.Join(dir, "runs"))
	if err != nil || strings.Count(string(runs), "run") > 2 { // a slow machine may take longer than a result is fresh
		t.Errorf("30 reads ran the command %d times, %v", strings.Count(string(runs), "run"), err)
	}
}

// TestStaleResultIsShownOnce moves the clock, and counts the runs.
func TestStaleResultIsShownOnce(t *testing.T) {
	name, dir := program(t, "echo run >>runs\necho \"{\\\"n\\\": $(wc -l <runs)}\"\n")
	var ahead atomic.Int64
	r := command.NewReader(name, func() time.Time { return time.Unix(1000+ahead.Load(), 0) })
	read := func() int {
		t.Helper()
		var got struct{ N int }
		if err := r.Read(t.Context(), "status").Decode(&got); err != nil {
			t.Fatal(err)
		}
		return got.N
	}
	ran := func(want int) bool {
		runs, err := os.ReadFile(filepath.Join(dir, "runs"))
		return err == nil && strings.Count(string(runs), "run") >= want
	}
	for range 2 {
		if read() != 1 {
			t.Error("a fresh result is not reused")
		}
	}
	ahead.Add(6)
	if got := read(); got != 1 {
		t.Errorf("a result of 6 seconds ago was not shown at once: %d", got)
	}
	for end := time.Now().Add(time.Minute); !ran(2) || read() != 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the result was not refreshed")
		}
	}
	ahead.Add(16)
	if got := read(); got != 3 {
		t.Errorf("a result of 16 seconds ago was shown: %d", got)
	}
	r.Forget()
	if got := read(); got != 4 {
		t.Errorf("a forgotten result was shown: %d", got)
	}
}

func TestReadReportsWhatIsWrong(t *testing.T) {
	for behaviour, row := range map[string]struct{ script, want string }{
		"it fails":             {"echo 'only root can read' >&2; exit 1", "failed: exit status 1"},
		"it prints no JSON":    {"echo hello", "printed no JSON"},
		"it prints too much":   {"head -c 9000000 /dev/zero | tr '\\0' 1", "it printed too much"},
		"it prints other JSON": {"echo '[1]'", "printed JSON of another form"},
	} {
		t.Run(behaviour, func(t *testing.T) {
			name, _ := program(t, row.script)
			d := command.NewReader(name, time.Now).Read(t.Context(), "status")
			var into struct{ State string }
			if err := d.Decode(&into); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v; want %q", err, row.want)
			}
			if behaviour == "it fails" && d.Said != "only root can read" {
				t.Errorf("it said %q", d.Said)
			}
		})
	}
}

func settings() command.Settings {
	return command.Settings{SnapshotKey: "age1key", SnapshotStore: "/backups", SnapshotIdentity: "/root/key", Bundles: "/bundles"}
}

func TestWordsOfActions(t *testing.T) {
	const snapshot = "snapshot-0123abcd-node-1.example-20260102T030405Z.tar.gz.age"
	for _, row := range []struct {
		action string
		values map[string]string
		want   string // words with | between them; "" for a refusal
	}{
		{command.SaveSnapshot, nil, "snapshot|save|--key|age1key|--store|/backups|-o|json"},
		{command.SaveSnapshot, map[string]string{"snapshotKey": "age1mine", "key": "x"}, "snapshot|save|--key|age1key|--store|/backups|-o|json"},
		{command.VerifySnapshot, map[string]string{"snapshot": snapshot}, "snapshot|verify|" + snapshot + "|--identity|/root/key|--store|/backups|-o|json"},
		{command.VerifySnapshot, map[string]string{"snapshot": "../" + snapshot}, ""},
		{command.VerifySnapshot, map[string]string{"snapshot": "--allow-unsigned"}, ""},
		{command.VerifySnapshot, map[string]string{"snapshot": snapshot + "\n--store"}, ""},
		{command.VerifySnapshot, nil, ""},
		{command.PlanUpgrade, map[string]string{"bundle": "cluster-1.tar.gz"}, "upgrade|--bundle|/bundles/cluster-1.tar.gz|--plan|-o|json"},
		{command.PlanUpgrade, map[string]string{"bundle": "../etc/x.tar.gz"}, ""},
		{command.PlanUpgrade, map[string]string{"bundle": "-x.tar.gz"}, ""},
		{command.PlanUpgrade, map[string]string{"bundle": "$(id).tar.gz"}, ""},
		{command.PlanUpgrade, map[string]string{"bundle": ""}, ""},
		{command.PauseUpgrade, map[string]string{"bundle": "x"}, "upgrade|pause"},
		{command.ResumeUpgrade, nil, "upgrade|resume"},
	} {
		action, ok := command.Find(row.action)
		if !ok {
			t.Fatal(row.action)
		}
		words, err := action.Words(settings(), row.values)
		if got := strings.Join(words, "|"); got != row.want || (err == nil) != (row.want != "") {
			t.Errorf("%s %v: got %s, %v; want %s", row.action, row.values, got, err, row.want)
		}
	}
}

func TestActionWithoutItsSettingIsRefused(t *testing.T) {
	for _, action := range command.Actions() {
		values := map[string]string{"bundle": "a.tar.gz", "snapshot": "snapshot-0123abcd-n-20260102T030405Z.tar.gz.age"}
		_, err := action.Words(command.Settings{}, values)
		if needs := action.Missing(command.Settings{}); (needs != "") != (err != nil) || needs != "" && !strings.Contains(err.Error(), "sealift-console on "+needs) {
			t.Errorf("%s needs %q: %v", action.Name, needs, err)
		}
	}
}

func TestJobRunsAndIsBounded(t *testing.T) {
	name, dir := program(t, `case "$2" in
pause) while [ ! -e go ]; do sleep 0.05; done; printf 'one\n\033[31mtwo\033[0m\033]0;title\007\n' >&2; exit 3;;
resume) head -c 400000 /dev/zero | tr '\0' x >&2; echo '{"a": 1}';;
esac`)
	ended := make(chan command.State, 10)
	jobs := command.NewJobs(name, time.Now, func(_ *command.Job, s command.State) { ended <- s })
	begin := func(*command.Job) error { return nil }
	start := func(action string, begin func(*command.Job) error) (*command.Job, error) {
		a, _ := command.Find(action)
		return jobs.Start(t.Context(), a, settings(), nil, "jane", begin)
	}
	if _, err := start(command.PauseUpgrade, func(*command.Job) error { return errors.New("no audit") }); err == nil || len(jobs.List()) != 0 {
		t.Errorf("a job without its audit: %v, %d jobs", err, len(jobs.List()))
	}
	job, err := start(command.PauseUpgrade, begin)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := start(command.PauseUpgrade, begin); !errors.Is(err, command.ErrBusy) {
		t.Errorf("the same action again: %v", err)
	}
	if jobs.Idle() {
		t.Error("a running job is not seen")
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := <-ended; s.Failure != "failed with exit code 3" || s.Progress != "one\ntwo\\u001b]0;title\\u0007\n" {
		t.Errorf("got %+v", s)
	}
	if !jobs.Idle() {
		t.Error("a job that has ended still runs")
	}
	if jobs.Find(job.ID) != job || jobs.Last(command.PauseUpgrade) != nil {
		t.Error("the job is not found, or it has a document")
	}
	if _, err := start(command.ResumeUpgrade, begin); err != nil {
		t.Fatal(err)
	}
	if s := <-ended; s.Failure != "" || len(s.Progress) > 300<<10 || !strings.HasSuffix(s.Progress, "left out]\n") || !strings.Contains(string(s.Document), `"a"`) {
		t.Errorf("got %d bytes, %q, %q", len(s.Progress), s.Failure, s.Document)
	}
}

func TestOldJobsAreForgotten(t *testing.T) {
	name, _ := program(t, "exit 0")
	ended := make(chan bool, 1)
	jobs := command.NewJobs(name, time.Now, func(*command.Job, command.State) { ended <- true })
	a, _ := command.Find(command.PauseUpgrade)
	var ids []string
	for range 30 {
		job, err := jobs.Start(t.Context(), a, settings(), nil, "jane", func(*command.Job) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, job.ID)
		<-ended
	}
	if left := jobs.List(); len(left) != 24 || left[0].ID != ids[29] || jobs.Find(ids[0]) != nil {
		t.Errorf("%d jobs are left", len(left))
	}
}

func TestCommandLinesAreQuoted(t *testing.T) {
	for _, words := range [][]string{{"a; rm -rf /"}, {"$(id)"}, {"a\nb"}, {"`id`"}, {"x\x00y"}} {
		line := command.Shell(append([]string{"less"}, words...)...)
		if strings.ContainsAny(line, "\n\x00") || !strings.HasPrefix(line, "sudo less ") || slices.Contains(strings.Fields(line), "rm") && !strings.Contains(line, "'") {
			t.Errorf("%q becomes %s", words, line)
		}
	}
	if got, want := command.Shell("less", "a; b"), "sudo less 'a; b'"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := command.Kubectl("describe", "node", "n1"); got != "sudo kubectl --kubeconfig /etc/kubernetes/admin.conf describe node n1" {
		t.Errorf("got %s", got)
	}
}
