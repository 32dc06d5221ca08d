package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
)

// kubeconfigFor runs a control plane and writes the file that reaches it.
func kubeconfigFor(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(path, controlplane.ForTest(t)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestApplyCommand(t *testing.T) {
	kubeconfig := kubeconfigFor(t)
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("kustomization.yaml", "namespace: default\nresources: [a.yaml]\n")
	write("a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: '1'}\n")
	other := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {k: '2'}\n"
	steps := []struct {
		name string
		args []string
		in   string
		code int
		out  string
		err  string
	}{
		{"dry run changes nothing", []string{"-k", dir, "--set", "s", "--dry-run"}, "", app.ExitDone, "ConfigMap/default/a created\n1 created\n", ""},
		{"applies and waits", []string{"-k", dir, "--set", "s", "--wait", "1m"}, "", app.ExitDone, "ConfigMap/default/a created\n1 created\n", "ConfigMap/default/a is ready"},
		{"applies again", []string{"-k", dir, "--set", "s"}, "", app.ExitDone, "ConfigMap/default/a unchanged\n1 unchanged\n", ""},
		{"reads standard input and prunes", []string{"-f", "-", "--set", "s"}, other, app.ExitDone,
			"ConfigMap/default/b created\nConfigMap/default/a pruned\n1 created, 1 pruned\n", ""},
		{"shows fields that would change", []string{"-f", "-", "--set", "s", "--dry-run"}, strings.Replace(other, "'2'", "'3'", 1), app.ExitDone,
			"ConfigMap/default/b configured\n  .data.k: \"2\" -> \"3\"\n1 configured\n", ""},
		{"needs objects", []string{"--set", "s"}, "", app.ExitUsage, "", "either -k DIR or -f FILE"},
		{"takes one source of objects", []string{"--set", "s", "-k", dir, "-f", "-"}, "", app.ExitUsage, "", "either -k DIR or -f FILE"},
		{"needs a set", []string{"-k", dir}, "", app.ExitUsage, "", "--set is required"},
		{"does not prune all for an empty pipe", []string{"-f", "-", "--set", "s"}, "---\n", app.ExitFailed, "", "no objects to apply"},
		{"names the document that is wrong", []string{"-f", "-", "--set", "s"}, "---\nkind: X\n", app.ExitFailed, "", "standard input: document 1"},
		{"names the object that failed", []string{"-f", "-", "--set", "s"}, strings.Replace(other, "name: b", "name: B!", 1), app.ExitFailed,
			"ConfigMap/default/B! failed", "apply set sealift/s: ConfigMap/default/B!:"},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			args := append([]string{"apply", "--kubeconfig", kubeconfig}, step.args...)
			code := run(t.Context(), args, strings.NewReader(step.in), &out, &errOut)
			if code != step.code || !strings.HasPrefix(out.String(), step.out) || !strings.Contains(errOut.String(), step.err) {
				t.Errorf("exit code %d\nstdout: %s\nstderr: %s", code, &out, &errOut)
			}
		})
	}
	t.Run("speaks JSON", func(t *testing.T) {
		var out, errOut bytes.Buffer
		if code := run(t.Context(), []string{"apply", "--kubeconfig", kubeconfig, "-f", "-", "--set", "s", "-o", "json"}, strings.NewReader(other), &out, &errOut); code != app.ExitDone {
			t.Fatalf("exit code %d: %s", code, &errOut)
		}
		var result kube.Result
		if err := json.Unmarshal(out.Bytes(), &result); err != nil {
			t.Fatalf("%v in %s", err, &out)
		}
		if len(result.Entries) != 1 || result.Entries[0].Action != kube.Unchanged || result.Set.Name != "s" {
			t.Errorf("%+v", result)
		}
	})
}
