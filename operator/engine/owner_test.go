package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"

	bindings "github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/engine"
	"github.com/sealift/sealift/operator/hook"
)

// owner records the results of hooks, and refuses the first one.
type owner struct {
	mu    sync.Mutex
	taken []string
}

func (*owner) Files() (map[string][]byte, error) {
	return map[string][]byte{"VALUES_PATH": []byte("42")}, nil
}

func (*owner) Ending() bool { return false }

func (*owner) Off() bool { return false }

func (*owner) Answers() []string { return []string{"VALUES_JSON_PATCH_PATH"} }

func (o *owner) Take(_ context.Context, h *engine.Hook, contexts []bindings.Context, answers map[string][]byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.taken = append(o.taken, h.Name+" "+contexts[0].Binding+" "+string(answers["VALUES_JSON_PATCH_PATH"]))
	if len(o.taken) == 1 {
		return errors.New("not yet")
	}
	return nil
}

func (o *owner) all() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.taken, ", ")
}

func testOwner(s *site) {
	s.apply(configMap("owned", "a", ""))
	s.hook("hook.sh", "configVersion: v1\nbeforeHelm: 1\nkubernetes: ["+binding("one", "owned", "")+", "+binding("two", "owned", "")+"]",
		`printf %s "$(<"$VALUES_PATH") in $PWD" > "$VALUES_JSON_PATCH_PATH"`)
	o := &owner{}
	e := engine.New(engine.Options{
		Cluster: s.cluster, Modules: true, Log: slog.New(slog.NewTextHandler(s.log, nil)),
		Runner: hook.Runner{TempDir: s.TempDir(), Set: []string{"TRACE=" + s.trace}},
	})
	hooks, err := e.Add(s.Context(), engine.Folder{Dir: s.dir, Prefix: "001-mod/hooks", Module: "mod", Scope: bindings.Module, Owner: o})
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	over := make(chan struct{})
	go func() { e.Serve(ctx, func(context.Context) { e.Start(hooks...) }); close(over) }()
	defer func() { cancel(); <-over }()
	s.until("the answer is taken at the second try", func() bool { e.Queues().Wake(bindings.MainQueue); return strings.Count(o.all(), ",") == 1 })
	if got := o.all(); !strings.HasPrefix(got, "001-mod/hooks/hook.sh one 42 in /") || strings.Contains(got, s.dir) {
		s.Error(got)
	}
	one := "hook.sh one:Synchronization:1 two:Synchronization:1"
	s.ran(one, one)
	e.Remove(hooks[0])
	s.apply(configMap("owned", "b", ""))
	s.hook("other.sh", "configVersion: v1\nkubernetes: ["+binding("maps", "owned", "")+"]", "")
	if hooks, err = e.Add(s.Context(), engine.Folder{Dir: s.dir, Scope: bindings.Module, Owner: o}); err != nil {
		s.Fatal(err)
	}
	e.Start(hooks[1])
	s.ran(one, one, "other.sh maps:Synchronization:2") // and no event for the hook that was removed
}
