package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/hooks/kurlbin"
	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/regularfile"
)

// containerdConfig is the configuration of this host's container runtime, which any add-on may have installed.
type containerdConfig struct {
	program string
	dir     string // with config.toml and conf.d
}

// systemContainerd is the containerd that the kubelet uses.
func systemContainerd() containerdConfig { return containerdConfig{"containerd", "/etc/containerd"} }

func (c containerdConfig) config() string { return filepath.Join(c.dir, "config.toml") }

// dropIn is read after the files of add-ons (kURL's is 50-replicated.toml), and before the Installer's settings.
func (c containerdConfig) dropIn() string { return filepath.Join(c.dir, "conf.d", "60-sealift.toml") }

// removeDropIn removes what ensureSettings wrote, before an add-on configures containerd again: kURL's looks whether its own settings hold.
func (c containerdConfig) removeDropIn() error {
	if err := files.Remove(c.dropIn()); err != nil {
		return err
	}
	return nil
}

// requiredSettings are the settings of containerd that Kubernetes and this host need, whichever package installed containerd.
type requiredSettings struct {
	sandbox           string // image of pods' sandboxes
	systemdCgroup     bool
	restrictOOMScores bool // the host cannot lower them
}

// tables returns the settings as a config file of a version has them, containerd's docs/cri/config.md.
func (w requiredSettings) tables(version int64) map[string]any {
	runtime := map[string]any{"containerd": map[string]any{"runtimes": map[string]any{"runc": map[string]any{
		"options": map[string]any{"SystemdCgroup": w.systemdCgroup}}}}}
	if w.restrictOOMScores {
		runtime["restrict_oom_score_adj"] = true
	}
	plugins := map[string]any{"io.containerd.cri.v1.runtime": runtime,
		"io.containerd.cri.v1.images": map[string]any{"pinned_images": map[string]any{"sandbox": w.sandbox}}}
	if version < 3 {
		runtime["sandbox_image"] = w.sandbox
		plugins = map[string]any{"io.containerd.grpc.v1.cri": runtime}
	}
	return map[string]any{"version": version, "plugins": plugins}
}

// effective is the whole configuration, as containerd reads it with all imports.
func (c containerdConfig) effective(ctx context.Context) (map[string]any, error) {
	out, err := exec.CommandContext(ctx, c.program, "--config", c.config(), "config", "dump").Output()
	if err != nil {
		said := ""
		if failed := new(exec.ExitError); errors.As(err, &failed) {
			said = string(failed.Stderr)
		}
		return nil, fmt.Errorf("containerd does not take its configuration in %s: %w\n%s", c.dir, err, said)
	}
	config := map[string]any{}
	return config, toml.Unmarshal(out, &config)
}

// checkSandbox fails if this containerd starts no pod with the sandbox image that its configuration names.
func (c containerdConfig) checkSandbox(ctx context.Context) error {
	config, err := c.effective(ctx)
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, c.program, "--version").Output() // containerd github.com/containerd/containerd/v2 v2.4.2 REVISION
	if err != nil {
		return fmt.Errorf("ask containerd for its version: %w", err)
	}
	fields := strings.Fields(string(out))
	if len(fields) < 3 {
		return fmt.Errorf("containerd prints %q as its version", out)
	}
	for _, plugin := range []string{"io.containerd.cri.v1.images", "io.containerd.grpc.v1.cri"} {
		for _, setting := range [][]string{{"plugins", plugin, "pinned_images", "sandbox"}, {"plugins", plugin, "sandbox_image"}} {
			ref, _, _ := unstructured.NestedString(config, setting...) // "" where there is none
			if err := catalog.CheckSandboxImage(strings.TrimPrefix(fields[2], "v"), ref); err != nil {
				return err
			}
		}
	}
	return nil
}

// has reports whether all of these settings hold.
func has(config, settings map[string]any) bool {
	for key, want := range settings {
		switch want := want.(type) {
		case map[string]any:
			inner, ok := config[key].(map[string]any)
			if !ok || !has(inner, want) {
				return false
			}
		default:
			if config[key] != want {
				return false
			}
		}
	}
	return true
}

// ensureSettings gives containerd its missing settings, and reports whether any were missing, and whether they hold now: the
// Installer's settings override them.
func (c containerdConfig) ensureSettings(ctx context.Context, w requiredSettings) (changed, hold bool, err error) {
	config, err := c.effective(ctx)
	if err != nil {
		return false, false, err
	}
	if version, _ := config["version"].(int64); has(config, w.tables(version)) {
		return false, true, nil
	}
	own, err := readConfig(c.config(), config)
	if err != nil {
		return false, false, err
	}
	version, _ := own["version"].(int64)
	newest, err := c.newestDropIn(own)
	if err != nil {
		return false, false, err
	}
	if max(version, newest) < 3 {
		kurlbin.MergeTables(own, w.tables(version))
		err = writeConfig(c.config(), own)
	} else {
		err = c.writeDropIn(own, w.tables(max(version, newest)))
	}
	if err != nil {
		return false, false, err
	}
	if config, err = c.effective(ctx); err != nil {
		return true, false, err
	}
	version, _ = config["version"].(int64)
	return true, has(config, w.tables(version)), nil
}

// newestDropIn returns the newest schema among the files that config.toml imports, 0 without any. Before 2.3.0, containerd reads no setting of
// schema 2 when a drop-in has schema 3 (https://github.com/containerd/containerd/pull/12891).
func (c containerdConfig) newestDropIn(own map[string]any) (newest int64, err error) {
	imports, _ := own["imports"].([]any)
	for _, pattern := range imports {
		name, _ := pattern.(string)
		if !filepath.IsAbs(name) {
			name = filepath.Join(c.dir, name)
		}
		names, err := filepath.Glob(name)
		if err != nil {
			return 0, fmt.Errorf("%s imports %q: %w", c.config(), name, err)
		}
		for _, name := range names {
			config, err := readConfig(name, nil)
			if err != nil {
				return 0, err
			}
			version, _ := config["version"].(int64)
			newest = max(newest, version)
		}
	}
	return newest, nil
}

// writeDropIn writes settings into a file that config.toml imports.
func (c containerdConfig) writeDropIn(own, settings map[string]any) error {
	if err := files.MkdirAll(filepath.Dir(c.dropIn()), 0o755); err != nil {
		return err
	}
	imports, _ := own["imports"].([]any)
	if pattern := filepath.Join(c.dir, "conf.d", "*.toml"); !slices.Contains(imports, any(pattern)) {
		own["imports"] = append(imports, pattern)
		if err := writeConfig(c.config(), own); err != nil {
			return err
		}
	}
	return writeConfig(c.dropIn(), settings)
}

// readConfig reads a config file. A missing one has containerd's version.
func readConfig(name string, effective map[string]any) (map[string]any, error) {
	text, err := regularfile.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]any{"version": effective["version"]}, nil
	}
	own := map[string]any{}
	if err == nil {
		err = toml.Unmarshal(text, &own)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return own, nil
}

func writeConfig(name string, config map[string]any) error {
	text, err := toml.Marshal(config)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return files.WriteMode(name, 0o600, text) // it may have passwords of registries
}

// settled runs the hook that installs containerd, and sees to the settings that Kubernetes needs of it.
func settled(do action) action {
	c := systemContainerd()
	return func(i *Install, ctx context.Context) (lifecycle.State, error) {
		if err := c.removeDropIn(); err != nil {
			return nil, err
		}
		state, err := do(i, ctx)
		if err != nil {
			return nil, err
		}
		return state, i.settleContainerd(ctx, c)
	}
}

func (i *Install) settleContainerd(ctx context.Context, c containerdConfig) error {
	k, ok := kubernetes(i.addOns)
	w := requiredSettings{k.sandboxImage(), i.facts.CgroupDriver == "systemd", !i.facts.CanLowerOOMScore}
	if !ok || w.sandbox == "" {
		return nil
	}
	if i.settings.keepRuntime {
		if err := c.checkSandbox(ctx); err != nil {
			return err
		}
		config, err := c.effective(ctx)
		if err != nil {
			return err
		}
		if version, _ := config["version"].(int64); !has(config, w.tables(version)) {
			fmt.Fprintf(i.Log, "note: containerd's configuration is kept, as the Installer says; Kubernetes wants the sandbox image %s there\n", w.sandbox)
		}
		return nil
	}
	changed, hold, err := c.ensureSettings(ctx, w)
	if err != nil {
		return err
	}
	if !hold {
		fmt.Fprintf(i.Log, "note: containerd.tomlConfig of the Installer goes over what Kubernetes wants: the sandbox image %s, SystemdCgroup %t\n", w.sandbox, w.systemdCgroup)
	}
	if err := c.checkSandbox(ctx); err != nil {
		return err
	}
	if changed {
		return command.Run(ctx, i.Log, "systemctl", "restart", "containerd")
	}
	return nil
}
