package installer

import (
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/hook"
	"github.com/sealift/sealift/installer/lifecycle"
)

// hooks is the shell of all hooks, started with the first call. What finished steps left in it before is put back.
type hooks struct {
	root      string
	addOns    []addOn
	variables map[string]string // from the spec and the host
	state     map[string]string // from earlier steps
	output    io.Writer
	shell     *hook.Shell
}

func newHooks(root string, addOns []addOn, variables map[string]string, output io.Writer) *hooks {
	return &hooks{root: root, addOns: addOns, variables: variables, state: map[string]string{}, output: output}
}

// restore puts back variables that an earlier step set.
func (h *hooks) restore(ctx context.Context, state lifecycle.State) error {
	maps.Copy(h.state, state)
	if h.shell == nil {
		return nil
	}
	return h.set(ctx, state)
}

func (h *hooks) set(ctx context.Context, variables map[string]string) error {
	for name, value := range variables {
		if err := h.shell.Set(ctx, name, value); err != nil {
			return err
		}
	}
	return nil
}

// values are the variables as the hooks see them.
func (h *hooks) values() map[string]string {
	all := maps.Clone(h.variables)
	maps.Copy(all, h.state)
	return all
}

// call calls one function and returns the variables that it changed.
func (h *hooks) call(ctx context.Context, function string) (lifecycle.State, error) {
	if err := h.start(ctx); err != nil {
		return nil, err
	}
	before, err := h.shell.Variables(ctx)
	if err != nil {
		return nil, err
	}
	if err := h.shell.Call(ctx, function); err != nil {
		h.shell = nil // it ended with the failure
		return nil, err
	}
	after, err := h.shell.Variables(ctx)
	if err != nil {
		return nil, err
	}
	changed := lifecycle.State{}
	for name, value := range after {
		if old, known := before[name]; !known || old != value {
			changed[name] = value
		}
	}
	maps.Copy(h.state, changed)
	return changed, nil
}

func (h *hooks) start(ctx context.Context) (err error) {
	if h.shell != nil {
		return nil
	}
	if h.shell, err = hook.Start(hook.Options{Dir: h.root, Env: environment(), Log: h.output}); err != nil {
		return err
	}
	if err := h.set(ctx, h.variables); err != nil {
		return err
	}
	for _, a := range h.addOns {
		if err := h.shell.Source(ctx, filepath.Join(h.root, a.info.Dir(), "install.sh")); err != nil {
			h.shell = nil
			return err
		}
	}
	return h.set(ctx, h.state)
}

// environment is all that hooks inherit: nothing of what the caller's shell had set may change an install.
func environment() []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8",
		"HOSTNAME=" + hostname(), "KUBECONFIG=" + cluster.AdminKubeconfig, "DEBIAN_FRONTEND=noninteractive",
	}
}

func hostname() string {
	name, _ := os.Hostname()
	return name
}

func (h *hooks) close() error {
	if h.shell == nil {
		return nil
	}
	return h.shell.Close()
}
