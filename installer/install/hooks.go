package install

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/hooks/hook"
	"github.com/sealift/sealift/installer/host/redact"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/hostpath"
)

// hooks is the shell of all hooks, started with the first call. What finished steps left in it before is put back.
type hooks struct {
	root      string
	addOns    []addOn
	variables map[string]string // from the spec and the host
	state     hook.Variables    // from earlier steps
	verbs     map[string]hook.Verb
	yes       bool // to questions; not a variable, since a step is the same whatever the answer
	// upgrade are the variables of an upgrade. They are not inputs of steps: an add-on is the same however it was fetched.
	upgrade map[string]string
	env     []string // all that hooks inherit; nil is that of a node
	output  io.Writer
	secret  func(values ...string) // gets the secrets that hooks generate
	shell   *hook.Shell
}

func newHooks(root string, addOns []addOn, variables map[string]string, output io.Writer) *hooks {
	return &hooks{root: root, addOns: addOns, variables: variables, state: hook.Variables{}, output: output, secret: func(...string) {}}
}

// restore restores an earlier step's variables in the shell.
func (h *hooks) restore(ctx context.Context, state lifecycle.State) error {
	h.secret(redact.Named(state)...)
	h.state.Add(hook.Variables(state))
	if h.shell == nil {
		return nil
	}
	return h.shell.Restore(ctx, hook.Variables(state))
}

// values are the variables as the hooks see them.
func (h *hooks) values() map[string]string {
	all := maps.Clone(h.variables)
	maps.Copy(all, h.state.Scalars())
	return all
}

// networks lists the networks of pods and Services.
func (h *hooks) networks() (all []string) {
	values := h.values()
	for _, name := range node.NetworkVariables() {
		if network := values[name]; network != "" {
			all = append(all, network)
		}
	}
	return all
}

// call calls one function and returns its changes in the shell.
func (h *hooks) call(ctx context.Context, function string) (lifecycle.State, error) {
	if err := h.start(ctx); err != nil {
		return nil, err
	}
	h.shell.SetSilence(speed.Stretch(h.silence(function)))
	command := h.command(function)
	before, err := h.shell.Variables(ctx)
	if err == nil {
		err = h.shell.Call(ctx, command[0], command[1:]...)
	}
	var after hook.Variables
	if err == nil {
		after, err = h.shell.Variables(ctx)
	}
	if err == nil {
		chosen := emptied(before, after)
		maps.Copy(after, chosen)
		err = h.shell.Restore(ctx, chosen)
	}
	if err != nil {
		h.shell = nil // it ended with the failure
		if failed := new(hook.Error); errors.As(err, &failed) {
			failed.Hook = function // and not what prepares its call
		}
		return nil, err
	}
	changed := after.Since(before)
	h.state.Add(changed)
	h.secret(redact.Named(changed)...)
	return lifecycle.State(changed), nil
}

// silence returns how long a function may print nothing: what its add-on declares, or the default.
func (h *hooks) silence(function string) time.Duration {
	for _, a := range h.addOns {
		if a.hasHook(function) {
			return cmp.Or(a.meta.Silence, hookSilence)
		}
	}
	return hookSilence
}

// command is the call of a hook: an add-on is applied as one add-on calls another, so that both make the same preparations.
// Objects that no other add-on needs are awaited later, all at once.
func (h *hooks) command(function string) []string {
	for _, a := range h.addOns {
		if function == a.name() || function == a.name()+"_install" && !a.hasHook(a.name()) {
			command := []string{"sealift_install", a.name(), a.info.Version}
			if !a.needed {
				command = append(command, "later")
			}
			return command
		}
	}
	return []string{function}
}

func (h *hooks) start(ctx context.Context) (err error) {
	if h.shell != nil {
		return nil
	}
	if err := layOut(h.root, h.variables["SEALIFT_BIN"]); err != nil {
		return err
	}
	env := h.env
	if env == nil {
		env = environment()
	}
	if h.shell, err = hook.Start(hook.Options{Dir: h.root, Env: env, Log: h.output, Verbs: h.verbs, Silence: hookSilence}); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err, h.shell = errors.Join(err, h.shell.Close()), nil
		}
	}()
	given := hook.Variables{}
	given.Add(h.variables)
	given.Add(h.upgrade)
	given["ASSUME_YES"] = flag(h.yes)
	given["KOTSADM_APPLICATION_NAMESPACES_ARRAY[]"] = words(h.variables["KOTSADM_APPLICATION_NAMESPACES"])
	for _, a := range h.addOns {
		given[optionsVariable(a.name())] = lifecycle.Digest(a.info.Index, a.reads(h.variables))
	}
	if err := h.shell.Restore(ctx, given); err != nil {
		return err
	}
	for _, a := range h.addOns {
		if err := h.shell.Source(ctx, filepath.Join(h.root, a.info.Dir(), "install.sh")); err != nil {
			return err
		}
	}
	return h.shell.Restore(ctx, h.state)
}

// words are the elements of an array of the shell, from a text that has them parted by blanks or commas.
func words(text string) string {
	elements := map[string]string{}
	for i, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		elements[strconv.Itoa(i)] = word
	}
	data, _ := json.Marshal(elements) // of strings: cannot fail
	return string(data)
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_]`)

// optionsVariable passes the options of an add-on to the shell: addon_install does not apply the same twice.
func optionsVariable(addOn string) string {
	return "SEALIFT_OPTIONS_" + notInNames.ReplaceAllString(addOn, "_")
}

// environment is all that hooks inherit. The caller's shell must not be able to change an install.
func environment() []string {
	return []string{
		"PATH=" + hostpath.Folders, "HOME=/root", "LANG=C.UTF-8",
		"HOSTNAME=" + hostname(), "KUBECONFIG=" + kubeadm.AdminKubeconfig, "DEBIAN_FRONTEND=noninteractive",
	}
}

// hostname is the name that the node has in the cluster, which is lower-case.
func hostname() string {
	name, _ := os.Hostname()
	return strings.ToLower(name)
}

func (h *hooks) close() error {
	if h.shell == nil {
		return nil
	}
	return h.shell.Close()
}
