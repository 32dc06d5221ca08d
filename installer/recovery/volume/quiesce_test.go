package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// running is a pod with two containers.
func running(name string, annotations map[string]string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: annotations},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}, {Name: "side"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "side", ContainerID: "containerd://side-of-" + name}, {Name: "main", ContainerID: "containerd://main-of-" + name},
		}},
	}
}

func TestHooksAreReadAsVeleroReadsThem(t *testing.T) {
	pod := running("db", map[string]string{
		"pre.hook.backup.velero.io/command":    `["/bin/sh", "-c", "fsfreeze -f /data"]`,
		"pre.hook.backup.velero.io/container":  "side",
		"pre.hook.backup.velero.io/timeout":    "3m",
		"pre.hook.backup.velero.io/on-error":   "Continue",
		"post.hook.backup.velero.io/command":   "/bin/thaw",
		"post.hook.backup.velero.io/container": "",
	})
	h, err := hooksOf(pod)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%+v", *h.before); got != "{Pod:shop/db Container:side ID:side-of-db Command:[/bin/sh -c fsfreeze -f /data] Timeout:3m0s Continue:true}" {
		t.Error(got)
	}
	if got := fmt.Sprintf("%+v", *h.after); got != "{Pod:shop/db Container:main ID:main-of-db Command:[/bin/thaw] Timeout:30s Continue:false}" {
		t.Error(got)
	}
	old, err := hooksOf(running("old", map[string]string{"hook.backup.velero.io/command": "[broken"}))
	if err != nil || old.before == nil || !slices.Equal(old.before.Command, []string{"[broken"}) || old.after != nil {
		t.Error(old, err)
	}
	pod.Status.Phase = corev1.PodPending
	if h, err := hooksOf(pod); err != nil || h.before != nil || h.after != nil {
		t.Error("a pod that does not run has hooks", h, err)
	}
	for annotation, value := range map[string]string{"pre.hook.backup.velero.io/container": "none", "pre.hook.backup.velero.io/timeout": "soon"} {
		bad := running("bad", map[string]string{"pre.hook.backup.velero.io/command": "x", annotation: value})
		if _, err := hooksOf(bad); err == nil || !strings.Contains(err.Error(), "shop/bad") || !strings.Contains(err.Error(), annotation) {
			t.Error(err)
		}
	}
}

// recorder records the calls, and fails on request.
type recorder struct {
	ran   []string
	fails map[string]error
}

func (r *recorder) execute(ctx context.Context, container string, command []string, output io.Writer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	what := container + " " + strings.Join(command, " ")
	r.ran = append(r.ran, what)
	fmt.Fprint(output, "it said so")
	return r.fails[what]
}

// quieted is a group of a pod that is quiesced, and of one that has a hook after its volumes are read and none before.
func quieted(t *testing.T) Group {
	t.Helper()
	users := map[string][]corev1.Pod{"shop/data": {
		running("db", map[string]string{"pre.hook.backup.velero.io/command": "freeze", "post.hook.backup.velero.io/command": "thaw"}),
		running("log", map[string]string{"post.hook.backup.velero.io/command": "rotate", "post.hook.backup.velero.io/on-error": "Continue"}),
	}}
	groups, err := group([]Volume{{Name: "b", Claim: "shop/data"}}, users)
	if err != nil || len(groups) != 1 {
		t.Fatal(groups, err)
	}
	return groups[0]
}

func TestPodsAreQuiescedWhileTheirVolumesAreRead(t *testing.T) {
	for name, row := range map[string]struct {
		fails map[string]error
		work  error
		want  string // what ran
		err   string
		said  string
	}{
		"all goes well":       {want: "main-of-db freeze, work, main-of-db thaw, main-of-log rotate"},
		"the copy fails":      {work: errors.New("disk full"), want: "main-of-db freeze, work, main-of-db thaw, main-of-log rotate", err: "disk full"},
		"a hook before fails": {fails: map[string]error{"main-of-db freeze": errors.New("no")}, want: "main-of-db freeze, main-of-db thaw, main-of-log rotate", err: `the hook of pod shop/db in container main, "freeze": no: it said so`},
		"a hook after fails":  {fails: map[string]error{"main-of-db thaw": errors.New("no")}, want: "main-of-db freeze, work, main-of-db thaw, main-of-log rotate", err: `"thaw": no`},
		"one may fail":        {fails: map[string]error{"main-of-log rotate": errors.New("no")}, want: "main-of-db freeze, work, main-of-db thaw, main-of-log rotate", said: `"rotate": no`},
		"a container is gone": {fails: map[string]error{"main-of-db thaw": fs.ErrNotExist}, want: "main-of-db freeze, work, main-of-db thaw, main-of-log rotate"},
	} {
		r := &recorder{fails: row.fails}
		var said bytes.Buffer
		q := Quiescence{File: filepath.Join(t.TempDir(), "quiesced.json"), Execute: r.execute, Output: &said}
		err := q.During(t.Context(), quieted(t), func() error {
			r.ran = append(r.ran, "work")
			return row.work
		})
		if got := strings.Join(r.ran, ", "); got != row.want {
			t.Errorf("%s: ran %s, want %s", name, got, row.want)
		}
		if row.err == "" && err != nil || row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)) {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(said.String(), row.said) {
			t.Errorf("%s: said %q", name, said.String())
		}
		if _, err := os.Stat(q.File); errors.Is(err, fs.ErrNotExist) == (name == "a hook after fails") {
			t.Errorf("%s: the record of pods that are quiesced: %v", name, err)
		}
	}
}

func TestNextSaveResumesQuiescedPod(t *testing.T) {
	r := &recorder{fails: map[string]error{"main-of-db thaw": errors.New("no")}}
	q := Quiescence{File: filepath.Join(t.TempDir(), "quiesced.json"), Execute: r.execute, Output: io.Discard}
	if err := q.During(t.Context(), quieted(t), func() error { return nil }); err == nil || !strings.Contains(err.Error(), "pods stay quiesced") {
		t.Errorf("got %v", err)
	}
	for _, row := range []struct {
		fails error
		want  string // what ran
	}{{errors.New("no"), "main-of-db thaw"}, {nil, "main-of-db thaw"}, {nil, ""}} {
		r.ran, r.fails = nil, map[string]error{"main-of-db thaw": row.fails}
		if err := q.Wake(t.Context()); (err == nil) != (row.fails == nil) || strings.Join(r.ran, ", ") != row.want {
			t.Errorf("ran %q, want %q, %v", r.ran, row.want, err)
		}
	}
}

func TestPodsQuiescedByKilledSaveAreResumed(t *testing.T) {
	r := &recorder{}
	q := Quiescence{File: filepath.Join(t.TempDir(), "quiesced.json"), Execute: r.execute, Output: io.Discard}
	before := []byte{}
	err := q.During(t.Context(), quieted(t), func() (err error) {
		if err := q.Wake(t.Context()); err != nil || len(r.ran) != 1 {
			t.Error("another save wakes a pod that is quiesced", r.ran, err)
		}
		if err := q.During(t.Context(), quieted(t), func() error { return nil }); !errors.Is(err, ErrBusy) || len(r.ran) != 1 {
			t.Error("another save reads volumes at the same time", r.ran, err)
		}
		before, err = os.ReadFile(q.File)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(q.File, before, 0o600); err != nil { // as SIGKILL leaves it
		t.Fatal(err)
	}
	r.ran = nil
	if err := q.Wake(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(r.ran, ", "); got != "main-of-db thaw, main-of-log rotate" {
		t.Error(got)
	}
	if err := q.Wake(t.Context()); err != nil || len(r.ran) != 2 {
		t.Error("woken twice", r.ran, err)
	}
}

// TestPodsThatStayQuiescedAreNotForgotten has a pod of another group that could not be resumed.
func TestPodsThatStayQuiescedAreNotForgotten(t *testing.T) {
	r := &recorder{}
	q := Quiescence{File: filepath.Join(t.TempDir(), "quiesced.json"), Execute: r.execute, Output: io.Discard}
	other := hook{Pod: "shop/cache", Container: "main", ID: "main-of-cache", Command: []string{"thaw"}, Timeout: hookTime}
	if err := q.remember([]hook{other, {Pod: "shop/db", Container: "main", ID: "main-of-db", Command: []string{"thaw"}, Timeout: hookTime}}); err != nil {
		t.Fatal(err)
	}
	if err := q.During(t.Context(), quieted(t), func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(r.ran, ", "); got != "main-of-db freeze, main-of-db thaw, main-of-log rotate" {
		t.Error(got)
	}
	if left, err := q.remembered(); err != nil || len(left) != 1 || !left[0].same(other) {
		t.Errorf("%+v, %v", left, err)
	}
}

// TestHooksThatNeverEndEndWithTheSave: the timeout of a hook is an annotation of its pod.
func TestHooksThatNeverEndEndWithTheSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := Quiescence{File: filepath.Join(t.TempDir(), "quiesced.json"), Output: io.Discard}
		q.Execute = func(ctx context.Context, _ string, command []string, _ io.Writer) error {
			if command[0] == "freeze" {
				return nil
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}
		group := quieted(t)
		for n := range group.hooks {
			group.hooks[n].after.Timeout = 100 * time.Hour
		}
		began := time.Now()
		err := q.During(t.Context(), group, func() error { return nil })
		if took := time.Since(began); !errors.Is(err, ErrAsleep) || took > wakeTime {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestInterruptedSaveResumesPods(t *testing.T) {
	r := &recorder{}
	q := Quiescence{File: filepath.Join(t.TempDir(), "quiesced.json"), Execute: r.execute, Output: io.Discard}
	ctx, cancel := context.WithCancel(t.Context())
	if err := q.During(ctx, quieted(t), func() error { cancel(); return ctx.Err() }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got := strings.Join(r.ran, ", "); got != "main-of-db freeze, main-of-db thaw, main-of-log rotate" {
		t.Error(got)
	}
}

func TestVolumesOfSamePodsAreReadTogether(t *testing.T) {
	one, two := running("one", nil), running("two", nil)
	groups, err := group([]Volume{{Name: "d", Claim: "shop/d"}, {Name: "c"}, {Name: "b", Claim: "shop/b"}, {Name: "a", Claim: "shop/a"}},
		map[string][]corev1.Pod{"shop/a": {one}, "shop/b": {two}, "shop/d": {one, two}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, g := range groups {
		var group []string
		for _, v := range g.Volumes {
			group = append(group, v.Name)
		}
		names = append(names, strings.Join(group, "+"))
	}
	if got := strings.Join(names, " "); got != "c a+b+d" && got != "c b+a+d" {
		t.Error(got)
	}
}
