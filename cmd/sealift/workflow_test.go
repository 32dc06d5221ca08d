package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/fips"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// workflow has the fields that the test reads of the workflow for users' repositories.
type workflow struct {
	Jobs map[string]struct {
		Steps []struct {
			Name string            `yaml:"name"`
			Run  string            `yaml:"run"`
			Env  map[string]string `yaml:"env"`
		} `yaml:"steps"`
	} `yaml:"jobs"`
}

// runner plays the machine that GitHub runs steps on.
type runner struct {
	workflow workflow
	dir      string // the repository
	env      []string
}

// step runs the script of one step as GitHub does, and returns what it printed. The scripts have no expressions: all of them
// are in env, which values replace.
func (r *runner) step(t *testing.T, job, name string, values map[string]string) string {
	t.Helper()
	for _, s := range r.workflow.Jobs[job].Steps {
		if s.Name != name {
			continue
		}
		if strings.Contains(s.Run, "${{") {
			t.Errorf("step %s takes an expression into its script", name)
		}
		env := slices.Clone(r.env)
		for key := range s.Env {
			value, given := values[key]
			if !given {
				t.Fatalf("step %s needs %s", name, key)
			}
			env = append(env, key+"="+value)
		}
		cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", s.Run)
		cmd.Dir, cmd.Env = r.dir, env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("step %s: %v\n%s", name, err, out)
		}
		return string(out)
	}
	t.Fatalf("job %s has no step %s", job, name)
	return ""
}

// groups lists the changed packages, as the matrix has them.
func (r *runner) groups(t *testing.T, jobs, store string) [][]string {
	t.Helper()
	output := filepath.Join(t.TempDir(), "output")
	r.env = append(r.env, "GITHUB_OUTPUT="+output)
	r.step(t, "changed", "list", map[string]string{"ADDONS": "addons", "STORE": store, "JOBS": jobs})
	data, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	text, found := strings.CutPrefix(string(data), "groups=")
	var groups []struct{ Dirs []string }
	if err := json.Unmarshal([]byte(text), &groups); err != nil || !found {
		t.Fatalf("%v: %s", err, data)
	}
	var dirs [][]string
	for _, g := range groups {
		dirs = append(dirs, g.Dirs)
	}
	return dirs
}

func TestPackagesWorkflowRuns(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		t.Fatal("jq is missing, which GitHub's machines have; make deps installs it")
	}
	r := &runner{dir: t.TempDir()}
	text, err := os.ReadFile("../../.github/workflows/packages.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &r.workflow); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, temp, store := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "sealift")); err != nil { // by this name TestMain knows it
		t.Fatal(err)
	}
	r.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+t.TempDir(), "RUNNER_TEMP="+temp, "XDG_CACHE_HOME="+t.TempDir(),
		"GITHUB_ENV="+filepath.Join(temp, "env"), "SEALIFT_TARGET=debian-12", "SEALIFT_KEY_PASSPHRASE=")
	put := func(path, content string) {
		t.Helper()
		path = filepath.Join(r.dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"one", "two", "with space"} {
		put("addons/"+name+"/1.0/Manifest", "asset notes ./notes\n")
		put("addons/"+name+"/1.0/notes", name)
		put("addons/"+name+"/1.0/install.sh", "# nothing\n")
	}
	put("addons/one/template/Manifest", "not a version\n")

	r.step(t, "changed", "lint", map[string]string{"ADDONS": "addons"})
	key, public := filepath.Join(temp, "made"), filepath.Join(temp, "made.pub")
	t.Setenv("SEALIFT_KEY_PASSPHRASE", "")
	fixture.Unapproved(t, fips.PrivateKeys)
	if code, _, errOut := command(t, "key", "generate", "--out", key); code != app.ExitDone {
		t.Fatal(errOut)
	}
	private, err := os.ReadFile(key + ".key")
	if err != nil {
		t.Fatal(err)
	}
	r.step(t, "changed", "key", map[string]string{"KEY": string(private)})
	environment, err := os.ReadFile(filepath.Join(temp, "env"))
	if err != nil {
		t.Fatal(err)
	}
	r.env = append(r.env, strings.TrimSpace(string(environment)))

	if got := r.groups(t, "2", store); len(got) != 2 || len(got[0]) != 2 || len(got[1]) != 1 {
		t.Fatalf("three add-ons for two jobs are %v", got)
	}
	for _, dirs := range r.groups(t, "20", store) {
		list, err := json.Marshal(dirs)
		if err != nil {
			t.Fatal(err)
		}
		r.step(t, "package", "build", map[string]string{"DIRS": string(list)})
	}
	if out := r.step(t, "package", "publish", map[string]string{"STORE": store}); strings.Count(out, "published ") != 3 {
		t.Errorf("published: %s", out)
	}
	if code, out, errOut := command(t, "verify", filepath.Join(store, "one-1.0.tar.gz"), "--key", public); code != app.ExitDone {
		t.Errorf("%s%s", out, errOut)
	}
	if got := r.groups(t, "20", store); len(got) != 0 {
		t.Errorf("after publishing %v has changed", got)
	}
	put("addons/two/1.0/notes", "other notes")
	if got := r.groups(t, "20", store); len(got) != 1 || !slices.Equal(got[0], []string{"addons/two/1.0"}) {
		t.Errorf("after a change to two, %v has changed", got)
	}
	if err := os.WriteFile(filepath.Join(store, "one-1.0.tar.gz"), []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := r.groups(t, "20", store); len(got) != 2 || !slices.Equal(got[0], []string{"addons/one/1.0"}) {
		t.Errorf("after damage to the package of one, %v has changed", got)
	}
}
