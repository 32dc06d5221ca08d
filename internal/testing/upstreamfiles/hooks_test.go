package upstreamfiles

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/hooks/hook"
	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/spec"
)

// hooksRun runs the hooks of an add-on of the catalogue without a node: kubectl and others are scripts of the test.
type hooksRun struct {
	name    string
	version string            // default: the newest
	files   map[string]string // texts below the install root, such as bin/kubectl
	options hook.Variables
	beside  []string // other add-ons that the bundle has
	instead string   // a function to call instead of the hook, and its arguments
}

// call runs the checks and the hook of the add-on, and returns the folder that it applies, and what it said.
func (r hooksRun) call(t *testing.T) (dir, said string, err error) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	release := r.release()
	work, log := t.TempDir(), new(strings.Builder)
	carry(t, root, work, release)
	for name, text := range r.files {
		path := filepath.Join(work, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	variables := hook.Variables{"DIR": work, "SEALIFT_BIN": filepath.Join(work, "bin/sealift"), spec.VariableName(r.name, "version"): release.Version}
	variables.Add(r.defaults(t, root, release.Folder()))
	for _, name := range r.beside {
		other := releases.Newest(name)
		carry(t, root, work, other)
		variables[spec.VariableName(name, "version")] = other.Version
	}
	variables.Add(r.options)
	s, err := hook.Start(hook.Options{Dir: work, Env: []string{"PATH=" + filepath.Join(work, "bin") + ":" + os.Getenv("PATH")}, Log: log, Verbs: map[string]hook.Verb{
		"certificate": writesCertificate,
		"apply":       func(_ context.Context, args []string, _ io.Writer) error { dir = args[1]; return nil },
	}})
	if err != nil {
		t.Fatal(err)
	}
	err = r.hooks(t, s, variables, filepath.Join(work, release.Folder(), "install.sh"))
	_ = s.Close() // the log is complete then
	return dir, log.String(), err
}

// carry copies an add-on to the install root, with the files that its links lead to.
func carry(t *testing.T, root, work string, r releases.Release) {
	t.Helper()
	to := filepath.Join(work, r.Folder())
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "cp", "-rL", filepath.Join(root, r.Folder()), to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// hooks calls the checks, if the add-on has some, and the hook.
func (r hooksRun) hooks(t *testing.T, s *hook.Shell, variables hook.Variables, path string) error {
	t.Helper()
	script, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := s.Restore(t.Context(), variables); err != nil {
		return err
	}
	if err := s.Source(t.Context(), path); err != nil {
		return err
	}
	if checks := r.name + "_preflights"; strings.Contains(string(script), checks+"()") {
		if err := s.Call(t.Context(), checks); err != nil {
			return err
		}
	}
	words := strings.Fields(cmp.Or(r.instead, r.name))
	return s.Call(t.Context(), words[0], words[1:]...)
}

// release is the line of the add-on's version in the table of releases.
func (r hooksRun) release() releases.Release {
	all := releases.All()
	if at := slices.IndexFunc(all, func(one releases.Release) bool { return one.Name == r.name && one.Version == r.version }); at >= 0 {
		return all[at]
	}
	return releases.Newest(r.name)
}

// defaults are the variables of options that an Installer does not set.
func (r hooksRun) defaults(t *testing.T, root, folder string) hook.Variables {
	t.Helper()
	all, err := catalog.Scan(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(all, func(m catalog.Meta) bool { return m.Dir() == folder })
	defaults := hook.Variables{}
	for option, value := range all[at].WithDefaults(nil) {
		text := ""
		switch value := value.(type) {
		case []any:
		case bool: // hooks get 1 for true
			text = map[bool]string{true: "1"}[value]
		default:
			text = fmt.Sprint(value)
		}
		defaults[spec.VariableName(r.name, option)] = text
	}
	return defaults
}

func writesCertificate(_ context.Context, args []string, _ io.Writer) error {
	text := fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s}\ntype: Opaque\nstringData: {names: %q}\n", args[1], args[0], strings.Join(args[3:], " "))
	return os.WriteFile(args[2], []byte(text), 0o600)
}

// podsAreAdmitted asks an API server for pods of all templates, which it checks as the labels of their namespaces require.
func podsAreAdmitted(t *testing.T, objects []*unstructured.Unstructured, templates int) {
	t.Helper()
	cluster, err := kube.Connect(shared.Config(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	k, set := kube.New(cluster, kube.Options{}), kube.Set{Name: "pods"}
	if _, err := k.Apply(t.Context(), set, objects, kube.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := k.Delete(t.Context(), set, kube.DeleteOptions{Protected: true}); err != nil {
			t.Error(err)
		}
	}()
	pods := cluster.Dynamic().Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"})
	asked := 0
	for _, o := range objects {
		template, _, _ := unstructured.NestedMap(o.Object, "spec", "template")
		if _, found, _ := unstructured.NestedSlice(template, "spec", "containers"); !found {
			continue
		}
		asked++
		pod := &unstructured.Unstructured{Object: template}
		pod.SetAPIVersion("v1")
		pod.SetKind("Pod")
		pod.SetName(o.GetName())
		if _, err := pods.Namespace(o.GetNamespace()).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Errorf("the pod of %s: %v", o.GetName(), err)
		}
	}
	if asked != templates {
		t.Errorf("%d templates, want %d", asked, templates)
	}
}
