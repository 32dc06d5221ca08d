package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/testing/fixture"
)

// gitHubStandIn is gh with one pull request for each branch, in files. The test grid's program is a stand-in, too: its verdict is that
// of the version.
const (
	gitHubStandIn = `#!/bin/sh
case "$1 $2" in
"pr view") [ -e "$PULLS/$3" ] && echo OPEN ;;
"pr create") echo "created $*" >>"$PULLS/log"; cp "${10}" "$PULLS/$(basename "$6").md"; mkdir -p "$PULLS/sealift"; : >"$PULLS/$6" ;;
"pr edit") echo "edited $*" >>"$PULLS/log"; cp "$7" "$PULLS/$(basename "$3").md" ;;
esac
`
	gridStandIn = `#!/bin/sh
case "$2" in
*/1.0.2/*) echo "0 passed, 1 failed, 0 flaky, 0 skipped; the report is x"; exit 1 ;;
esac
echo "1 passed, 0 failed, 0 flaky, 0 skipped; the report is x"
`
)

// outdatedDay is one day's run of the workflow.
type outdatedDay struct {
	*runner
	temp, pulls string
}

// list runs the first job, and returns the add-ons with their versions as the matrix has them.
func (d *outdatedDay) list(t *testing.T) (names []string, versions map[string][]string) {
	t.Helper()
	output := filepath.Join(t.TempDir(), "output")
	env := d.env
	d.env = append(d.env, "GITHUB_OUTPUT="+output)
	d.step(t, "list", "list", map[string]string{"ADDONS": "addons", "WITHIN": "", "IGNORE": ""})
	d.env = env
	data, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Name     string
		Versions []string
	}
	text, rest, _ := strings.Cut(strings.TrimPrefix(string(data), "addons="), "\n")
	if err := json.Unmarshal([]byte(text), &list); err != nil || strings.TrimSpace(rest) != "code=0" {
		t.Fatalf("%v: %s", err, data)
	}
	versions = map[string][]string{}
	for _, a := range list {
		names = append(names, a.Name)
		versions[a.Name] = a.Versions
	}
	return names, versions
}

// change runs the second job for one add-on, and returns the text of its pull request.
func (d *outdatedDay) change(t *testing.T, name string, versions []string) string {
	t.Helper()
	for _, file := range []string{"update.txt", "body.md"} {
		_ = os.Remove(filepath.Join(d.temp, file))
	}
	d.git(t, "checkout", "-q", "-f", "main")
	d.git(t, "clean", "-qfd", "addons")
	words := strings.Join(versions, " ")
	d.step(t, "change", "update", map[string]string{"ADDONS": "addons", "NAME": name, "VERSIONS": words, "WITHIN": "", "IGNORE": ""})
	d.step(t, "change", "lint", map[string]string{"ADDONS": "addons"})
	d.step(t, "change", "grid", map[string]string{"ADDONS": "addons", "NAME": name, "VERSIONS": words, "HOSTS": "hosts.yaml"})
	d.step(t, "change", "propose", map[string]string{"ADDONS": "addons", "NAME": name, "VERSIONS": strings.Join(versions, ", ")})
	body, err := os.ReadFile(filepath.Join(d.pulls, name+".md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func (d *outdatedDay) git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Env = d.dir, d.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func newOutdatedDay(t *testing.T, c catalogueWithRegistry) *outdatedDay {
	t.Helper()
	d := &outdatedDay{runner: &runner{dir: c.dir}, temp: t.TempDir(), pulls: t.TempDir()}
	text, err := os.ReadFile("../../.github/workflows/outdated.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &d.workflow); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "sealift")); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{"gh": gitHubStandIn, "sealift-testgrid": gridStandIn} {
		if err := fixture.WriteProgram(filepath.Join(bin, name), script); err != nil {
			t.Fatal(err)
		}
	}
	d.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+t.TempDir(), "RUNNER_TEMP="+d.temp, "XDG_CACHE_HOME="+t.TempDir(), "PULLS="+d.pulls,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@example.org", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@example.org")
	origin := t.TempDir()
	d.git(t, "init", "-q", "--bare", origin)
	d.git(t, "init", "-q", "-b", "main")
	d.git(t, "remote", "add", "origin", origin)
	d.git(t, "add", "addons", "sealift.yaml")
	d.git(t, "commit", "-q", "-m", "the catalogue")
	d.git(t, "push", "-q", "origin", "main")
	return d
}

// TestOutdatedWorkflowProposesNewTags plays four days: nothing is new; a tag appears; another one appears while the workflow runs; the
// next day the change has both.
func TestOutdatedWorkflowProposesNewTags(t *testing.T) {
	for _, tool := range []string{"jq", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatal(tool + " is missing, which GitHub's machines have; make deps installs it")
		}
	}
	c := newCatalogueWithRegistry(t)
	d := newOutdatedDay(t, c)
	if names, _ := d.list(t); len(names) != 0 {
		t.Fatalf("nothing is new, and the list is %v", names)
	}

	c.push(t, "app:v1.0.1")
	names, versions := d.list(t)
	if len(names) != 1 || names[0] != "demo" || strings.Join(versions["demo"], " ") != "1.0.1" {
		t.Fatalf("%v %v", names, versions)
	}
	c.push(t, "app:v1.0.2") // while the workflow runs
	body := d.change(t, "demo", versions["demo"])
	for _, want := range []string{
		"```\naddons/demo/1.0.1: written\n", "image app: registry.example.io/app:v1.0.1, was registry.example.io/app:v1.0.0", "**Lint**: ",
		"**Grid, demo 1.0.1**: passed; 1 passed, 0 failed",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the change lacks %s:\n%s", want, body)
		}
	}
	if files := d.git(t, "ls-tree", "-r", "--name-only", "origin/sealift/demo"); !strings.Contains(files, "addons/demo/1.0.1/Manifest.lock\n") || strings.Contains(files, "1.0.2") {
		t.Errorf("the branch has\n%s", files)
	}

	if _, versions = d.list(t); strings.Join(versions["demo"], " ") != "1.0.2" {
		// the work tree still has the branch of the change; the next day begins with main
		d.git(t, "checkout", "-q", "-f", "main")
		if _, versions = d.list(t); strings.Join(versions["demo"], " ") != "1.0.2" {
			t.Fatal(versions)
		}
	}
	if body := d.change(t, "demo", versions["demo"]); !strings.Contains(body, "**Grid, demo 1.0.2**: failed; 0 passed, 1 failed") {
		t.Errorf("the change hides the verdict:\n%s", body)
	}
	log, err := os.ReadFile(filepath.Join(d.pulls, "log"))
	if err != nil || strings.Count(string(log), "\n") != 2 || !strings.HasPrefix(string(log), "created pr create --base main --head sealift/demo --title demo 1.0.1 ") ||
		!strings.Contains(string(log), "\nedited pr edit sealift/demo --title demo 1.0.2 ") {
		t.Errorf("one change for the add-on is opened, and then edited: %v\n%s", err, log)
	}
}
