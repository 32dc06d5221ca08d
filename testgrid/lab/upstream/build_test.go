package upstream

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sealift/sealift/testgrid/lab/cache"
	"github.com/sealift/sealift/testgrid/lab/debian"
)

// made is a recipe of a test: its dependencies, and its function.
type made struct {
	After    []string
	Download func(context.Context) error `json:"-"`
	Do       func(context.Context) error `json:"-"`
}

func (m made) Needs() []string      { return m.After }
func (m made) Tools() []debian.Tool { return nil }
func (m made) Make(ctx context.Context, _ *Workshop, dir string) error {
	if m.Do != nil {
		if err := m.Do(ctx); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)
}

// compiled is one that downloads first.
type compiled struct{ made }

func (c compiled) download(ctx context.Context) error {
	if c.Download == nil {
		return nil
	}
	return c.Download(ctx)
}

// shop is a workshop with only these components. lines returns its output.
func shop(t *testing.T, recipes map[string]Recipe) (w *Workshop, lines func() string) {
	t.Helper()
	dir, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	w = &Workshop{cache: dir, components: map[string]Component{}, progress: newProgress(func(line string) { said = append(said, line) })}
	for id, recipe := range recipes {
		name, version, _ := strings.Cut(id, "-")
		w.components[id] = Component{Name: name, Version: version, Recipe: recipe}
	}
	return w, func() string { return strings.Join(said, "\n") }
}

// rendezvous returns when both callers have arrived, with an error if one is late.
func rendezvous(ctx context.Context, mine, theirs chan struct{}) error {
	close(mine)
	select {
	case <-theirs:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(30 * time.Second):
		return errors.New("the other one does not run at the same time")
	}
}

func TestDownloadsOverlapWithCompile(t *testing.T) {
	compiling, downloading := make(chan struct{}), make(chan struct{})
	w, _ := shop(t, map[string]Recipe{
		"a-1": compiled{made{Do: func(ctx context.Context) error { return rendezvous(ctx, compiling, downloading) }}},
		"b-1": compiled{made{Download: func(ctx context.Context) error { return rendezvous(ctx, downloading, compiling) }}},
	})
	folders, err := w.Build(t.Context(), "a-1", "b-1")
	if err != nil || len(folders) != 2 {
		t.Errorf("made %v: %v", folders, err)
	}
}

func TestComponentsAreCompiledOneAtATime(t *testing.T) {
	var compiles sync.Mutex
	alone := func(context.Context) error {
		if !compiles.TryLock() {
			return errors.New("two compile at once")
		}
		defer compiles.Unlock()
		time.Sleep(5 * time.Millisecond) // so that a second one would be seen
		return nil
	}
	recipes, ids := map[string]Recipe{}, []string{}
	for _, id := range []string{"a-1", "b-1", "c-1", "d-1", "e-1", "f-1"} {
		recipes[id] = compiled{made{Do: alone}}
		ids = append(ids, id)
	}
	w, _ := shop(t, recipes)
	if _, err := w.Build(t.Context(), ids...); err != nil {
		t.Error(err)
	}
}

func TestDependenciesAreBuiltFirst(t *testing.T) {
	var order []string
	var mu sync.Mutex
	note := func(id string) func(context.Context) error {
		return func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, id)
			return nil
		}
	}
	w, lines := shop(t, map[string]Recipe{
		"image-1":  made{After: []string{"binary-1", "base-1"}, Do: note("image")},
		"binary-1": compiled{made{Do: note("binary")}}, "base-1": made{Do: note("base")}, "unasked-1": made{Do: note("unasked")},
	})
	for range 2 { // the second time nothing is missing
		if _, err := w.Build(t.Context(), "image-1"); err != nil {
			t.Fatal(err)
		}
	}
	if len(order) != 3 || order[2] != "image" {
		t.Errorf("made %q", order)
	}
	for _, want := range []string{"3 components are missing", "[0/3] ", "[2/3] image-1: making", "3 of 3 components made in "} {
		if !strings.Contains(lines(), want) {
			t.Errorf("%q is not said:\n%s", want, lines())
		}
	}
}

// TestOnlyRootCauseIsReported uses three components that wait for one that fails: they end at the same moment.
func TestOnlyRootCauseIsReported(t *testing.T) {
	recipes := map[string]Recipe{"bad-1": made{Do: func(context.Context) error { return errors.New("undefined: x") }}}
	for _, id := range []string{"a-1", "b-1", "c-1"} {
		recipes[id] = made{After: []string{"bad-1"}}
	}
	for range 500 {
		w, _ := shop(t, recipes)
		if _, err := w.Build(t.Context(), "a-1", "b-1", "c-1"); err == nil || !strings.Contains(err.Error(), "undefined: x") {
			t.Fatalf("the error is %v", err)
		}
	}
}

func TestFailureEndsBuildWithOutput(t *testing.T) {
	w, lines := shop(t, map[string]Recipe{
		"bad-1":  compiled{made{Do: func(context.Context) error { return errors.New("run go build: exit status 1\nmain.go:3: undefined: x") }}},
		"slow-1": made{Do: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
	})
	_, err := w.Build(t.Context(), "slow-1", "bad-1")
	if err == nil || !strings.Contains(err.Error(), "make bad-1") || !strings.Contains(err.Error(), "main.go:3: undefined: x") {
		t.Errorf("the error is %v", err)
	}
	if !strings.Contains(lines(), "bad-1: failed after") {
		t.Errorf("said:\n%s", lines())
	}
}

func TestCompileTimesNameComponents(t *testing.T) {
	for name := range compileTimes {
		if !slices.ContainsFunc(Components(), func(c Component) bool { return c.Name == name }) {
			t.Errorf("the lab has no component %s", name)
		}
	}
}

func TestProgressNamesSlowComponents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		p := newProgress(func(line string) { said = append(said, line) })
		end := p.plan(t.Context(), map[string]time.Duration{"kubernetes-v1.36.3": 10 * time.Minute, "flannel-v0.28.7": 2 * time.Minute})
		first := p.begin("kubernetes-v1.36.3")
		first.stage("compiling")
		time.Sleep(20*time.Minute + heartbeat/2)
		first.end(nil)
		end()
		want := []string{
			"2 components are missing and are made now, in about 12 minutes on two processors",
			"[0/2] kubernetes-v1.36.3: compiling",
			"[0/2] kubernetes-v1.36.3 compiling for 30s (30s so far, about 12 minutes left)",
			"[0/2] kubernetes-v1.36.3 compiling for 1m0s (1m0s so far, about 11 minutes left)",
		}
		for i, line := range want {
			if i >= len(said) || said[i] != line {
				t.Fatalf("said %q, want line %d to be %q", said, i+1, line)
			}
		}
		// It took twice as long as on the machine of the table, and so will the other one.
		if last := said[len(said)-2:]; last[0] != "[1/2] kubernetes-v1.36.3: made in 20m15s (20m15s so far, about 4 minutes left)" || last[1] != "1 of 2 components made in 20m15s" {
			t.Errorf("the last lines are %q", last)
		}
	})
}
