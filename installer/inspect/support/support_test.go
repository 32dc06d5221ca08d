package support_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sealift/sealift/installer/inspect/support"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// unpack reads a support bundle: contents by name, without the folder that they are in.
func unpack(t *testing.T, name string) map[string]string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	packed, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(packed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		_, below, _ := strings.Cut(header.Name, "/")
		files[below] = string(text)
	}
}

// halfInstalled is the state of an install that was stopped halfway.
func halfInstalled(t *testing.T) support.Options {
	t.Helper()
	root := t.TempDir()
	o := support.Options{Root: root, StateDir: filepath.Join(root, "state"), LogDir: filepath.Join(root, "log"), Version: "v1.2.3",
		Host: fstest.MapFS{
			"etc/os-release":             {Data: []byte("ID=debian\n")},
			"etc/containerd/config.toml": {Data: []byte("[auth]\n  password = \"anchor\"\n")},
			"etc/kubernetes/admin.conf":  {Data: []byte("client-key-data: anchor\n")},
		}}
	for name, text := range map[string]string{
		"state/journal.jsonl": `{"time":"2026-11-20T12:00:00Z","step":"x/install","phase":"install","inputs":"1","outcome":"finished","state":{"X_PASSPHRASE_OF":"anchor","MADE_PASSWORD":"made-up-by-hook"}}` + "\n" +
			`{"time":"2026-11-20T12:00:01Z","step":"kubernetes/init","phase":"install","inputs":"1","outcome":"failed","error":"it printed: log in with CorrectHorse1 or made-up-by-hook"}` + "\n",
		"state/installer.yaml":                            "spec: {console: {version: 1.0.0, user: operator, backends: [{adminPassword: CorrectHorse1}]}}\n",
		"state/preflight/20261120T120000Z.json":           `{"results":[]}`,
		"log/install-20261120T120000Z.log":                "kubeadm join --token abcdef.0123456789abcdef\nthe end\n",
		"log/long.log":                                    "password=" + strings.Repeat("anchor", 2<<20) + "\n" + strings.Repeat("many lines\n", 400000) + "last line\n",
		"addons/flannel/0.26.7/troubleshoot.yaml":         "kind: SupportBundle\nspec: {}\n",
		"addons/broken/1/troubleshoot.yaml":               "{{kurl if }}",
		"addons/local-path-provisioner/0.0.30/install.sh": "",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key := filepath.Join(t.TempDir(), "shadow")
	if err := os.WriteFile(key, []byte("root:anchor:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(key, filepath.Join(root, "log", "planted.log")); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestSupportBundleOfHalfInstalledNode(t *testing.T) {
	out := filepath.Join(t.TempDir(), "support.tar.gz")
	if err := os.MkdirAll(filepath.Join(filepath.Dir(out), ".support-bundle-123", "pods"), 0o700); err != nil { // of a killed run
		t.Fatal(err)
	}
	summary, err := support.Write(t.Context(), out, halfInstalled(t))
	if err != nil {
		t.Fatal(err)
	}
	files := unpack(t, out)
	for name, want := range map[string]string{
		"sealift/version.txt":                       "v1.2.3\n",
		"sealift/journal.json":                      `"step": "kubernetes/init"`,
		"sealift/addons.txt":                        "broken 1\nflannel 0.26.7\nlocal-path-provisioner 0.0.30\n",
		"sealift/preflight/20261120T120000Z.json":   "results",
		"sealift/logs/install-20261120T120000Z.log": "kubeadm join --token ***HIDDEN***\nthe end\n",
		"sealift/logs/long.log":                     "last line\n",
		"host/files/etc/os-release":                 "ID=debian\n",
		"host/files/etc/containerd/config.toml":     `password = "***HIDDEN***"`,
		"host/uname.txt":                            "Linux",
		"errors.txt":                                "this node has no sealift-preflight",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s has no %q:\n%.500s", name, want, files[name])
		}
	}
	for name, text := range files {
		if strings.Contains(text, "anchor") || strings.Contains(text, "CorrectHorse1") || strings.Contains(text, "made-up-by-hook") {
			t.Errorf("%s has a secret in it:\n%.500s", name, text)
		}
	}
	if _, there := files["host/files/etc/kubernetes/admin.conf"]; there {
		t.Error("the administrator's keys are in the bundle")
	}
	if !strings.Contains(files["sealift/journal.json"], "log in with ***HIDDEN*** or ***HIDDEN***") {
		t.Errorf("the journal is %s", files["sealift/journal.json"])
	}
	info, err := os.Stat(out)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != summary.Size || summary.Files != len(files) {
		t.Errorf("%v, %v, %+v for %d files", err, info.Mode(), summary, len(files))
	}
	if len(summary.Errors) != 2 || !strings.Contains(summary.Errors[0], "broken") {
		t.Errorf("errors %q", summary.Errors)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(out), ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestSupportBundleOfBareHost(t *testing.T) {
	nothing := t.TempDir()
	out := filepath.Join(t.TempDir(), "support.tar.gz")
	summary, err := support.Write(t.Context(), out, support.Options{Root: nothing, StateDir: nothing, LogDir: filepath.Join(nothing, "none"), Host: fstest.MapFS{}})
	if err != nil || len(summary.Errors) > 0 {
		t.Fatalf("%v, %+v", err, summary)
	}
	if files := unpack(t, out); files["sealift/journal.json"] != "[]\n" {
		t.Errorf("%q", files["sealift/journal.json"])
	}
}

// Explicitly requested data are collected, or the command fails.
func TestSupportBundleWithSpecs(t *testing.T) {
	program := filepath.Join(t.TempDir(), "sealift-preflight")
	if err := fixture.WriteProgram(program, "#!/bin/sh\nexit 1\n"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ program, text, want string }{
		{program, "kind: [", "application.yaml"},
		{program, "kind: Deployment\n", "application.yaml"},
		{program, "apiVersion: v1\nkind: Secret\nstringData: {support-bundle-spec: \"\"}\n---\nkind: Redactor\n", "lacks what application.yaml names"},
		{"", "kind: SupportBundle\nspec: {}\n", "this node has no sealift-preflight"},
		{program, "kind: SupportBundle\nspec: {}\n", "lacks what application.yaml names"},
	} {
		o := halfInstalled(t)
		o.Program, o.Specs = c.program, []support.Spec{{Name: "application.yaml", Text: []byte(c.text)}}
		_, err := support.Write(t.Context(), filepath.Join(t.TempDir(), "support.tar.gz"), o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

func TestUnwritableBundleIsReported(t *testing.T) {
	if _, err := support.Write(t.Context(), filepath.Join(t.TempDir(), "none", "support.tar.gz"), support.Options{}); err == nil || !strings.Contains(err.Error(), "make room beside") {
		t.Errorf("error %v", err)
	}
}
