package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// configured is a containerd configured in a folder, with an add-on's files there.
func configured(t *testing.T, files map[string]string) containerdConfig {
	t.Helper()
	w := lab.Workshop(t)
	program, err := w.File(t.Context(), upstream.Program("containerd"))
	if err != nil {
		t.Fatal(err)
	}
	c := containerdConfig{program, t.TempDir()}
	for name, text := range files {
		name = filepath.Join(c.dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(strings.ReplaceAll(text, "DIR", c.dir)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

const (
	// containerd 2's defaults, and the additions of kURL's add-on
	third    = "version = 3\nimports = ['DIR/conf.d/*.toml']\n"
	byKurl   = "version = 3\n[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = 'registry.k8s.io/pause:3.10'\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\nSystemdCgroup = true\n"
	second   = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"registry.k8s.io/pause:3.8\"\nenable_selinux = true\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\nruntime_type = \"io.containerd.runc.v2\"\n"
	byOwners = "version = 3\n[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = 'example.org/pause:1'\n"
)

func TestContainerdGetsSandboxImageOfKubernetes(t *testing.T) {
	wished := requiredSettings{"registry.k8s.io/pause:3.10.2", false, true}
	for name, row := range map[string]struct {
		files         map[string]string
		changed, hold bool
	}{
		"nothing is configured":              {nil, true, true},
		"a file that imports":                {map[string]string{"config.toml": third}, true, true},
		"a file that imports nothing":        {map[string]string{"config.toml": "version = 3\nimports = []\n"}, true, true},
		"kURL's settings":                    {map[string]string{"config.toml": third, "conf.d/50-replicated.toml": byKurl}, true, true},
		"an older schema":                    {map[string]string{"config.toml": second}, true, true},
		"the Installer says otherwise":       {map[string]string{"config.toml": third, "conf.d/99-user.toml": byOwners}, true, false},
		"as it is wished, by another's hand": {map[string]string{"config.toml": third, "conf.d/70.toml": strings.NewReplacer("3.10'", "3.10.2'", "true", "false\n[plugins.'io.containerd.cri.v1.runtime']\nrestrict_oom_score_adj = true").Replace(byKurl)}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := configured(t, row.files)
			changed, hold, err := c.ensureSettings(t.Context(), wished)
			if err != nil || changed != row.changed || hold != row.hold {
				t.Fatalf("changed %t, hold %t, %v", changed, hold, err)
			}
			config, err := c.effective(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if row.hold && !has(config, wished.tables(3)) {
				t.Errorf("got %v", config["plugins"])
			}
			if name == "an older schema" && !has(config, map[string]any{"plugins": map[string]any{"io.containerd.cri.v1.runtime": map[string]any{"enable_selinux": true}}}) {
				t.Error("a setting of the owner is gone")
			}
			if changed, hold, err := c.ensureSettings(t.Context(), wished); err != nil || changed != !row.hold || hold != row.hold {
				t.Errorf("a second time: changed %t, hold %t, %v", changed, hold, err)
			}
			if err := c.removeDropIn(); err != nil {
				t.Error(err)
			}
			if err := c.removeDropIn(); err != nil {
				t.Errorf("a second time: %v", err)
			}
		})
	}
}

func TestRefusedContainerdConfigurationIsReported(t *testing.T) {
	c := configured(t, map[string]string{"config.toml": third, "conf.d/99-user.toml": "[["})
	if _, _, err := c.ensureSettings(t.Context(), requiredSettings{sandbox: "a"}); err == nil || !strings.Contains(err.Error(), "does not take its configuration in "+c.dir) {
		t.Error(err)
	}
}
