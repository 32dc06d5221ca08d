package sealift_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sealift/sealift/"

// floors is the house: a package imports packages of lower floors, and of its own room. The words of every floor stand
// on the ground.
var floors = [][]string{
	{"internal"},
	{"manifest", "spec", "bundle", "store", "kube", "addon"},
	{"channel", "operator", "fleet", "catalog", "preflight", "testgrid"},
	{"builder", "installer", "server"},
	{"cli"},
	{"cmd", "deploy"},
}

// fences keep heavy trees where they belong: what may not be reached from which packages.
var fences = []struct{ from, what, why string }{
	{"cmd/sealift", "github.com/google/go-containerregistry/pkg/v1/daemon", "pulls in a Docker client"},
	{"cmd/sealift", "github.com/distribution/distribution/v3", "the registry of the lab is a program of its own"},
	{"cmd/sealift", module + "testgrid", "the lab is a program of its own, sealift-testgrid"},
	{"manifest", "k8s.io/", "reading a Manifest needs no cluster"},
	{"bundle", "k8s.io/", "reading an archive needs no cluster"},
	{"kube/render", "k8s.io/client-go", "rendering needs no cluster"},
	{"catalog", "k8s.io/client-go", "reading a catalogue needs no cluster"},
	{"builder", "k8s.io/client-go", "building needs no cluster"},
	{"builder", "github.com/containerd/containerd/v2/client", "building needs no container runtime"},
}

type goPackage struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps=false", "-json=ImportPath,Imports,Deps", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// room gives the room of one of our packages, and its floor.
func room(t *testing.T, path string) (name string, floor int) {
	name, _, _ = strings.Cut(strings.TrimPrefix(path, module), "/")
	for floor, rooms := range floors {
		if slices.Contains(rooms, name) {
			return name, floor
		}
	}
	t.Errorf("package %s lies in no room of the house", path)
	return name, -1
}

func TestArrowsNeverRunUp(t *testing.T) {
	for _, p := range packages(t) {
		if p.ImportPath+"/" == module {
			continue
		}
		name, floor := room(t, p.ImportPath)
		for _, imported := range p.Imports {
			if !strings.HasPrefix(imported, module) {
				continue
			}
			if other, below := room(t, imported); other != name && below >= floor && floor > 0 {
				t.Errorf("%s (floor %d) imports %s (floor %d)", p.ImportPath, floor, imported, below)
			}
		}
	}
}

func TestHeavyTreesStayFenced(t *testing.T) {
	for _, p := range packages(t) {
		for _, fence := range fences {
			path := strings.TrimPrefix(p.ImportPath, module)
			if path != fence.from && !strings.HasPrefix(path, fence.from+"/") {
				continue
			}
			for _, dep := range p.Deps {
				if dep == fence.what || strings.HasPrefix(dep, strings.TrimSuffix(fence.what, "/")+"/") {
					t.Errorf("%s links %s: %s", path, dep, fence.why)
				}
			}
		}
	}
}

// TestOnlyOneProgramLinksTroubleshoot keeps out what is larger than everything else together.
func TestOnlyOneProgramLinksTroubleshoot(t *testing.T) {
	linked := false
	for _, p := range packages(t) {
		if !slices.ContainsFunc(p.Deps, func(dep string) bool { return strings.HasPrefix(dep, "github.com/replicatedhq/troubleshoot/") }) {
			continue
		}
		if p.ImportPath == module+"cmd/sealift-preflight" {
			linked = true
		} else {
			t.Errorf("%s links Troubleshoot; only cmd/sealift-preflight may, which sealift runs as a program", p.ImportPath)
		}
	}
	if !linked {
		t.Error("cmd/sealift-preflight does not link Troubleshoot")
	}
}

// maxLines is where a file is two rooms in one.
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

// script is the first line of a shell script that has no name that says so.
var script = regexp.MustCompile(`^#!.*\b(ba)?sh\n`)

// TestShellcheckHasNothingToSay looks at every shell script, also at those that carry no name of one.
func TestShellcheckHasNothingToSay(t *testing.T) {
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
