package install

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// configured is a containerd configured in a folder, with an add-on's files there.
func configured(t *testing.T, files map[string]string) containerdConfig {
	t.Helper()
	return configuredRelease(t, upstream.Program("containerd"), files)
}

func configuredRelease(t *testing.T, program upstream.FileOf, files map[string]string) containerdConfig {
	t.Helper()
	path, err := lab.Workshop(t).File(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	c := containerdConfig{path, t.TempDir()}
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
			schema, _ := config["version"].(int64)
			if row.hold && !has(config, wished.tables(schema)) {
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

// takesDropIns checks which schemas config.toml and its drop-ins may have. Programs of others, such as NVIDIA's toolkit, write a drop-in with
// the newest schema that containerd knows; config.toml of the add-on has the same.
func takesDropIns(t *testing.T, release releases.Release) {
	program := upstream.FileOf{Component: "containerd-v" + release.Version, Name: "containerd"}
	shown, err := configuredRelease(t, program, nil).effective(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	newest, _ := shown["version"].(int64)
	if want := map[bool]int64{true: 4, false: 3}[catalog.CompareVersions(release.Version, "2.3") >= 0]; newest != want {
		t.Fatalf("containerd %s writes schema %d, want %d", release.Version, newest, want)
	}
	wished := requiredSettings{"registry.k8s.io/pause:3.10.2", true, false}
	for root := int64(2); root <= newest; root++ {
		for _, dropIn := range []int64{3, 4} {
			c := configuredRelease(t, program, map[string]string{
				"config.toml":          fmt.Sprintf("version = %d\nimports = ['DIR/conf.d/*.toml']\n", root),
				"conf.d/99-other.toml": fmt.Sprintf("version = %d\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.other]\nruntime_type = 'io.containerd.runc.v2'\n", dropIn),
			})
			_, hold, err := c.ensureSettings(t.Context(), wished)
			if dropIn > newest {
				if err == nil || !strings.Contains(err.Error(), "does not take its configuration") {
					t.Errorf("schema %d with a drop-in of %d: hold %t, %v", root, dropIn, hold, err)
				}
				continue
			}
			if err != nil || !hold {
				t.Errorf("schema %d with a drop-in of %d: hold %t, %v", root, dropIn, hold, err)
				continue
			}
			config, err := c.effective(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if kind, _, _ := unstructured.NestedString(config, "plugins", "io.containerd.cri.v1.runtime", "containerd", "runtimes", "other", "runtime_type"); kind != "io.containerd.runc.v2" {
				t.Errorf("schema %d ignores a drop-in of %d", root, dropIn)
			}
		}
	}
}

func TestContainerdTakesDropIns(t *testing.T) {
	for _, r := range releases.Of("containerd", releases.Tested) {
		t.Run(r.Version, func(t *testing.T) { takesDropIns(t, r) })
	}
}

// TestUnusableSandboxImageIsRefused uses a containerd that calls itself 2.3.1.
func TestUnusableSandboxImageIsRefused(t *testing.T) {
	const both = "registry.k8s.io/pause:3.10.2@sha256:0000000000000000000000000000000000000000000000000000000000000000"
	c := configured(t, map[string]string{"config.toml": strings.Replace(byOwners, "example.org/pause:1", both, 1)})
	if err := c.checkSandbox(t.Context()); err != nil {
		t.Errorf("containerd %s: %v", releases.Current("containerd").Version, err)
	}
	script := "#!/bin/sh\n[ \"$1\" != --version ] || { echo containerd github.com/containerd/containerd/v2 v2.3.1 0123; exit; }\nexec " + c.program + " \"$@\"\n"
	c.program = filepath.Join(t.TempDir(), "containerd")
	if err := fixture.WriteProgram(c.program, script); err != nil {
		t.Fatal(err)
	}
	if err := c.checkSandbox(t.Context()); err == nil || !strings.Contains(err.Error(), "containerd 2.3.1 starts no pod with the sandbox image "+both) {
		t.Error(err)
	}
	if err := os.WriteFile(c.config(), []byte(byOwners), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.checkSandbox(t.Context()); err != nil {
		t.Errorf("with a tag alone: %v", err)
	}
}
