package sealift_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/sealift/sealift/"

// fixtures is the room that only tests import. It belongs to the top floor: it uses rooms of all floors, and no program links
// it.
const fixtures = "internal/testing"

// floors is the house: a package imports packages of lower floors, and of its own room. Words that every floor
// uses are on the ground floor.
var floors = [][]string{
	{"internal"},
	{"manifest", "spec", "bundle", "store", "kube", "addon"},
	{"catalog", "preflight", "helm", "rollout", "batch"},
	{"channel", "operator", "fleet", "assemble", "registry", "testgrid"},
	{"builder", "installer", "server"},
	{"console"},
	{"cli"},
	{"cmd", "deploy", fixtures},
}

// houses are the floors of a large room: a package imports packages of lower ones, and of its own.
var houses = map[string][]string{
	"installer": {"host", "journal", "hooks", "cluster", "recovery", "install", "operation", "inspect", "agent"},
}

// fences keep heavy trees where they belong: what may not be reached from which packages.
var fences = []struct{ from, what, why string }{
	{"cmd/sealift", "github.com/google/go-containerregistry/pkg/v1/daemon", "pulls in a Docker client"},
	{"cmd/sealift", "github.com/distribution/distribution/v3", "the registry of the lab is a program of its own"},
	{"cmd/sealift", module + "testgrid/lab", "the lab is a program of its own, sealift-testgrid"},
	{"cmd/sealift", module + "testgrid/machine", "tests run in a program of its own, sealift-testgrid"},
	{"cmd/sealift", module + "testgrid/runner", "tests run in a program of its own, sealift-testgrid"},
	{"cmd/sealift-node", module + "builder", "a node builds nothing"},
	{"cmd/sealift-node", module + "server", "a node serves no bundles"},
	{"cmd/sealift-node", module + "registry", "a node pushes nothing"},
	{"cmd/sealift-node", module + "console", "the console is a program of its own, sealift-console"},
	{"cmd/sealift-console", "k8s.io/client-go", "the console runs sealift, which asks the cluster"},
	{"cmd/sealift-node", module + "testgrid", "the lab is a program of its own, sealift-testgrid"},
	{"cmd/sealift", module + "helm/release", "releases are kept by what runs in a cluster, sealift-controller"},
	{"cmd/sealift-node", "github.com/sigstore", "identities are verified where packages are built"},
	{"cmd/sealift-node", "helm.sh/helm", "charts are rendered before they are carried"},
	{"cmd/sealift-node", "sigs.k8s.io/controller-runtime", "controllers do not run in what every node has"},
	{"manifest", "k8s.io/", "reading a Manifest needs no cluster"},
	{"bundle", "k8s.io/", "reading an archive needs no cluster"},
	{"kube/render", "k8s.io/client-go", "rendering needs no cluster"},
	{"kube/health", "k8s.io/client-go", "judging objects needs no cluster"},
	{"kube", "sigs.k8s.io/controller-runtime", "the node links kube; client-go watches and queues"},
	{"rollout", "k8s.io/", "a rollout decides on plain data"},
	{"cmd/sealift", "sigs.k8s.io/controller-runtime", "controllers run in a program of their own, sealift-controller"},
	{"fleet/configuration", "k8s.io/client-go", "the fleet's decisions need no cluster"},
	{"fleet/conversion", "k8s.io/client-go", "converting needs no cluster"},
	{"fleet/deploy", "k8s.io/client-go", "the fleet's decisions need no cluster"},
	{"fleet/install", "k8s.io/client-go", "the fleet's decisions need no cluster"},
	{"fleet/ocm", "k8s.io/client-go", "the types need no cluster"},
	{"fleet/expression", "k8s.io/client-go", "the fleet's decisions need no cluster"},
	{"fleet/placement", "k8s.io/client-go", "the fleet's decisions need no cluster"},
	{"fleet/registration", "k8s.io/client-go", "the fleet's decisions need no cluster"},
	{"fleet/relation", "k8s.io/client-go", "the fleet's decisions need no cluster"},
	{"fleet/chartplan", "k8s.io/client-go", "the fleet's decisions need no cluster"},
	{"fleet/parcel", "k8s.io/client-go", "reading what is carried needs no cluster"},
	{"fleet/seal", "k8s.io/client-go", "signing and checking need no cluster"},
	{"fleet/strategy", "k8s.io/client-go", "the fleet's decisions need no cluster"},
	{"fleet/status", "k8s.io/client-go", "the fleet's decisions need no cluster"},
	{"fleet/template", "k8s.io/client-go", "rendering needs no cluster"},
	{"fleet/values", "k8s.io/client-go", "rendering needs no cluster"},
	{"catalog", "k8s.io/client-go", "reading a catalogue needs no cluster"},
	{"cmd/sealift", module + "operator", "the operator is a program of its own, sealift-controller"},
	{"cmd/sealift-node", module + "operator", "a node runs no operator"},
	{"cmd/sealift-controller", module + "builder", "what runs in a cluster builds nothing"},
	{"cmd/sealift-controller", module + "installer", "what runs in a cluster installs no nodes"},
	{"operator", "helm.sh/", "the engine of hooks knows no charts"},
	{"operator", "sigs.k8s.io/controller-runtime", "client-go watches and queues"},
	{"helm/source", "k8s.io/client-go", "fetching charts needs no cluster"},
	{"builder", "k8s.io/client-go", "building needs no cluster"},
	{"builder", "helm.sh/", "the command line hands a renderer of charts to the builder"},
	{"catalog", "helm.sh/", "the command line hands a renderer of charts to lint"},
	{"installer", "helm.sh/", "a node applies what a chart was rendered to"},
	{"builder", "github.com/containerd/containerd/v2/client", "building needs no container runtime"},
}

// imports maps each package that the project links, by its import path, to the packages that it imports.
var imports = sync.OnceValues(func() (map[string][]string, error) {
	out, err := exec.Command("go", "list", "-deps", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		return nil, err
	}
	all := make(map[string][]string)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all[p.ImportPath] = p.Imports
	}
})

// house returns imports, and our packages among them in order.
func house(t *testing.T) (all map[string][]string, ours []string) {
	t.Helper()
	all, err := imports()
	if err != nil {
		t.Fatal(err)
	}
	for path := range all {
		if strings.HasPrefix(path, module) {
			ours = append(ours, path)
		}
	}
	slices.Sort(ours)
	return all, ours
}

// within reports whether a package is the named one, or below it. A name may end with a slash.
func within(path, name string) bool {
	return path == name || strings.HasPrefix(path, strings.TrimSuffix(name, "/")+"/")
}

// chain returns the shortest path of imports from a package to one within what, or nil.
func chain(all map[string][]string, from, what string) []string {
	came := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, next := range all[queue[0]] {
			if _, seen := came[next]; seen {
				continue
			}
			came[next] = queue[0]
			if !within(next, what) {
				queue = append(queue, next)
				continue
			}
			var links []string
			for at := next; at != ""; at = came[at] {
				links = append(links, strings.TrimPrefix(at, module))
			}
			slices.Reverse(links)
			return links
		}
	}
	return nil
}

// room returns the room of one of our packages, and its floor.
func room(t *testing.T, path string) (name string, floor int) {
	path = strings.TrimPrefix(path, module)
	name, _, _ = strings.Cut(path, "/")
	if within(path, fixtures) {
		name = fixtures
	}
	for floor, rooms := range floors {
		if slices.Contains(rooms, name) {
			return name, floor
		}
	}
	t.Errorf("package %s lies in no room of the house", path)
	return name, -1
}

func TestImportsNeverPointUp(t *testing.T) {
	all, ours := house(t)
	for _, path := range ours {
		name, floor := room(t, path)
		for _, imported := range all[path] {
			if !strings.HasPrefix(imported, module) {
				continue
			}
			if other, below := room(t, imported); other != name && below >= floor {
				t.Errorf("%s (floor %d) imports %s (floor %d)", path, floor, imported, below)
			}
		}
	}
}

func TestImportsNeverPointUpInsideARoom(t *testing.T) {
	all, ours := house(t)
	for in, floors := range houses {
		floorOf := func(path string) int {
			folder, _, _ := strings.Cut(strings.TrimPrefix(path, module+in+"/"), "/")
			return slices.Index(floors, folder)
		}
		for _, path := range ours {
			if !within(path, module+in) {
				continue
			}
			floor := floorOf(path)
			if floor < 0 {
				t.Errorf("package %s lies in no part of %s", path, in)
			}
			for _, imported := range all[path] {
				if within(imported, module+in) && floorOf(imported) > floor {
					t.Errorf("%s imports %s, which is above it", path, imported)
				}
			}
		}
	}
}

// TestOnlyFixturesLinkTesting keeps what helps tests below internal/testing, where no program can import it.
func TestOnlyFixturesLinkTesting(t *testing.T) {
	all, ours := house(t)
	for _, path := range ours {
		if slices.Contains(all[path], "testing") && !within(path, module+fixtures) {
			t.Errorf("%s imports testing and is not a test; it belongs to %s", path, fixtures)
		}
	}
}

func TestHeavyDependenciesStayFenced(t *testing.T) {
	all, ours := house(t)
	for _, fence := range fences {
		found := false
		for _, path := range ours {
			if !within(path, module+fence.from) {
				continue
			}
			found = true
			if links := chain(all, path, fence.what); links != nil {
				t.Errorf("%s: %s", strings.Join(links, " imports "), fence.why)
			}
		}
		if !found {
			t.Errorf("there is no package %s, which a fence names", fence.from)
		}
	}
}

// TestOnlyOneProgramLinksTroubleshoot keeps out a dependency that is larger than everything else together.
func TestOnlyOneProgramLinksTroubleshoot(t *testing.T) {
	const troubleshoot, linker = "github.com/replicatedhq/troubleshoot", module + "cmd/sealift-preflight"
	all, ours := house(t)
	if chain(all, linker, troubleshoot) == nil {
		t.Errorf("%s does not link Troubleshoot", linker)
	}
	for _, path := range ours {
		if links := chain(all, path, troubleshoot); links != nil && path != linker {
			t.Errorf("%s; only %s may, which sealift runs as a program", strings.Join(links, " imports "), linker)
		}
	}
}

// TestOnlyTwoPackagesLinkHelm keeps Helm behind the types of package helm. Troubleshoot links its own Helm.
func TestOnlyTwoPackagesLinkHelm(t *testing.T) {
	linkers := []string{module + "helm/engine", module + "helm/release"}
	all, ours := house(t)
	var linked []string
	for _, path := range ours {
		if slices.ContainsFunc(all[path], func(imported string) bool { return within(imported, "helm.sh/helm") }) {
			linked = append(linked, path)
		}
	}
	if !slices.Equal(linked, linkers) {
		t.Errorf("%v import Helm; %v may, and do", linked, linkers)
	}
}

// TestTemplatesOfTenantsRunInChildren keeps templates where package sandbox bounds them. Package preflight/template parses the language of
// text/template and executes it itself; packages contain the templates. helm/release asks Helm for lookup only.
func TestTemplatesOfTenantsRunInChildren(t *testing.T) {
	executors := []string{"fleet/values", "helm/engine", "helm/release", "preflight", "preflight/template"}
	all, ours := house(t)
	var found []string
	for _, path := range ours {
		if slices.ContainsFunc(all[path], func(imported string) bool {
			return imported == "text/template" || imported == "github.com/Masterminds/sprig/v3" || imported == "helm.sh/helm/v4/pkg/engine"
		}) {
			found = append(found, strings.TrimPrefix(path, module))
		}
	}
	if !slices.Equal(found, executors) {
		t.Errorf("%v execute templates; %v may, and do", found, executors)
	}
	for _, path := range ours {
		program := strings.TrimPrefix(path, module)
		if !within(program, "cmd") || chain(all, path, module+"internal/sandbox") == nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(program, "main.go"))
		if err != nil || !bytes.Contains(text, []byte("func main() {\n\tsandbox.Main(")) {
			t.Errorf("%s may have to be a child that renders, and its main does not begin with sandbox.Main: %v", program, err)
		}
	}
}

// TestOutputOfCommandsIsPlain keeps foreign control characters away from terminals. Streams of the process belong to app.Main, which
// escapes its output, and tables are those of package plaintext.
func TestOutputOfCommandsIsPlain(t *testing.T) {
	owners := []string{"cli/app/app.go", "cli/operator/init.go"}
	err := filepath.WalkDir("cli", func(path string, entry os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if regexp.MustCompile(`\bos\.Std(out|err)\b|\bfmt\.Print(f|ln)?\(`).Match(text) && !slices.Contains(owners, path) {
			t.Errorf("%s writes to the process's own streams; write to App.Out or App.Err", path)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "tabwriter.NewWriter(") && !strings.Contains(line, "plaintext.NewTable(") && !bytes.Contains(text, []byte("plaintext.Row(")) && !bytes.Contains(text, []byte("plaintext.Line(")) {
				t.Errorf("%s has a table with cells that are not escaped: %s", path, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// maxNode is the maximum size of sealift-node, in bytes. Every bundle contains it.
const maxNode = 55 << 20

// TestNodeProgramIsSmall checks the output of 'make build'. A template that is reachable makes the linker keep every exported
// method of every type, since templates find methods by name: package preflight/template exists to avoid it. slices.SortFunc of large
// structs is 20 KB of code for each type, and SortStableFunc a third of that.
func TestNodeProgramIsSmall(t *testing.T) {
	const program = "bin/sealift-node"
	made, err := os.Stat(program)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("there is no " + program + "; 'make build' makes it")
	}
	makefile, makefileErr := os.Stat("Makefile")
	if err := errors.Join(err, makefileErr); err != nil {
		t.Fatal(err)
	}
	if made.ModTime().Before(makefile.ModTime()) {
		t.Skip(program + " is older than the Makefile; 'make build' makes it again")
	}
	if made.Size() > maxNode {
		t.Errorf("%s has %d bytes, more than %d", program, made.Size(), maxNode)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("text/template.(*state).evalField")) { // a stripped program still has the names of its functions
		t.Errorf("%s executes a text/template; go build -ldflags=-dumpdep ./cmd/sealift-node says what calls it", program)
	}
}

// maxLines is the maximum number of lines of a file.
const maxLines = 400

func TestFilesStayReadable(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != "." {
			return filepath.SkipDir
		}
		if entry.IsDir() && slices.Contains([]string{"util", "utils", "common", "helpers", "misc"}, entry.Name()) {
			t.Errorf("%s: a folder is named by a noun, not by its being shared", path)
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		lines := 0
		for s := bufio.NewScanner(f); s.Scan(); {
			lines++
		}
		if lines > maxLines {
			t.Errorf("%s has %d lines, more than %d", path, lines, maxLines)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// hostFiles are where the installer may still use package os, and atomicfile, to change files, and why.
var hostFiles = map[string]string{
	"installer/host/files":                  "it is the way",
	"installer/host/state.go":               "writes to the kernel's settings in /proc/sys",
	"installer/recovery/restore/sandbox.go": "writes to /proc",
	"installer/hooks/hook/verbs.go":         "hooks name pipes as files to be read",
	"installer/recovery/snapshot/keys.go":   "reads the keys that an administrator names, which may come through a pipe",
	"installer/hooks/kurlbin":               "reads what hooks name, which may be a pipe, and /proc",
	"installer/host/facts.go":               "reads /proc",
	"installer/host/containers.go":          "reads /proc",
	"installer/host/baseline/baseline.go":   "opens folders and files to sync their file systems",
}

// changesFiles are the functions of package os that follow the symbolic links of others, or wait for their pipes.
var changesFiles = []string{"Chmod", "Chown", "Chtimes", "CopyFS", "Create", "CreateTemp", "Lchown", "Link", "Mkdir", "MkdirAll", "MkdirTemp", "Open", "OpenFile", "OpenInRoot",
	"OpenRoot", "ReadFile", "Remove", "RemoveAll", "Rename", "Symlink", "Truncate", "WriteFile"}

// TestInstallerUsesOneFilePackage keeps what runs as root from following links that users of a host have put into their folders.
func TestInstallerUsesOneFilePackage(t *testing.T) {
	used := map[string]bool{}
	err := filepath.WalkDir("installer", func(path string, entry os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of, ok := call.X.(*ast.Ident)
			if !ok || of.Name != "atomicfile" && !(of.Name == "os" && slices.Contains(changesFiles, call.Sel.Name)) || of.Name == "atomicfile" && slices.Contains([]string{"File", "Folder"}, call.Sel.Name) {
				return true
			}
			for _, allowed := range []string{path, filepath.Dir(path)} {
				if _, ok := hostFiles[allowed]; ok {
					used[allowed] = true
					return true
				}
			}
			t.Errorf("%s: %s.%s; use installer/host/files, or internal/regularfile for reading", fset.Position(call.Pos()), of.Name, call.Sel.Name)
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path := range hostFiles {
		if !used[path] {
			t.Errorf("%s needs no exception any more", path)
		}
	}
}

// script is the first line of a shell script without an extension.
var script = regexp.MustCompile(`^#!.*\b(ba)?sh\n`)

// TestShellcheckFindsNothing checks every shell script, including those without an extension.
func TestShellcheckFindsNothing(t *testing.T) {
	tool, err := exec.LookPath("shellcheck")
	if err != nil {
		t.Fatal("shellcheck is not installed; 'make deps' installs it")
	}
	var hooks, others []string
	err = filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin"}, path):
			return filepath.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch {
		case filepath.Base(path) == "install.sh" && strings.HasPrefix(path, "addons/"):
			hooks = append(hooks, path)
		case strings.HasSuffix(path, ".sh"), script.Match(text):
			others = append(others, path)
		}
		return nil
	})
	if err != nil || len(hooks) < 5 || len(others) < 15 {
		t.Fatal(hooks, others, err)
	}
	// templates read what hooks set
	for _, args := range [][]string{append([]string{"--exclude=SC2034"}, hooks...), others} {
		if out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// TestActionsArePinned: a tag of an action can be moved to other code, a commit cannot. Dependabot moves the pins.
func TestActionsArePinned(t *testing.T) {
	workflows, err := filepath.Glob(".github/workflows/*.yaml")
	if err != nil || len(workflows) < 4 {
		t.Fatal(workflows, err)
	}
	pinned := regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	for _, name := range workflows {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, uses := range regexp.MustCompile(`(?m)uses: (.*)$`).FindAllStringSubmatch(string(text), -1) {
			if !pinned.MatchString(uses[1]) {
				t.Errorf("%s uses %s; write the digest of the commit, and its version behind it", name, uses[1])
			}
		}
	}
}
