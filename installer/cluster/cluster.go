// Package cluster makes a node part of a Kubernetes cluster with kubeadm, configured by kustomize patches that add-ons
// drop into the install root.
//
// The package knows kubeadm and the nodes' readiness. Add-ons and images are not its business.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/tail"
)

// AdminKubeconfig is where kubeadm leaves the administrator's credentials.
const AdminKubeconfig = "/etc/kubernetes/admin.conf"

// apiServerManifest is there from the moment when kubeadm has changed the node for good.
const apiServerManifest = "/etc/kubernetes/manifests/kube-apiserver.yaml"

// Init is a first control-plane node to be made.
type Init struct {
	// Base is the kustomization of kubeadm's configuration, from the Kubernetes add-on.
	Base string
	// Work is where the configuration is put together: patches are taken from its init-patches folder.
	Work string
	// Variables replace ${NAME} in the rendered configuration.
	Variables map[string]string
	// Output receives what kubeadm prints.
	Output io.Writer
}

// Run makes the node a cluster. What an interrupted run left of a cluster that never came to be is removed first.
func (i Init) Run(ctx context.Context) error {
	config, err := i.config()
	if err != nil {
		return fmt.Errorf("kubeadm configuration: %w", err)
	}
	name := filepath.Join(i.Work, "kubeadm.yaml")
	if err := os.WriteFile(name, config, 0o600); err != nil {
		return err
	}
	if _, err := os.Stat(apiServerManifest); err == nil {
		if err := kubeadm(ctx, i.Output, "reset", "--force"); err != nil {
			return err
		}
	}
	return kubeadm(ctx, i.Output, "init", "--config", name, "--skip-token-print")
}

func kubeadm(ctx context.Context, output io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, "kubeadm", args...)
	var said tail.Buffer
	cmd.Stdout = output
	cmd.Stderr = io.MultiWriter(output, &said)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // or the next install would meet it at work
	runtime.LockOSThread()                                             // the signal comes when this thread ends
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubeadm %s: %w\n%s", args[0], err, said.String())
	}
	return nil
}

// config renders base and patches to the documents that kubeadm reads.
func (i Init) config() ([]byte, error) {
	dir := filepath.Join(i.Work, "init")
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.CopyFS(filepath.Join(dir, "base"), os.DirFS(i.Base)); err != nil {
		return nil, err
	}
	patches, err := copyPatches(filepath.Join(i.Work, "init-patches"), filepath.Join(dir, "patches"))
	if err != nil {
		return nil, err
	}
	top := map[string]any{"resources": []string{"base"}, "patches": patches}
	data, err := yaml.Marshal(top)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), data, 0o600); err != nil {
		return nil, err
	}
	objects, err := kube.Build(dir)
	if err != nil {
		return nil, err
	}
	return i.documents(objects)
}

// copyPatches copies the patch files beside the kustomization, which may read nothing outside its folder.
func copyPatches(from, to string) ([]map[string]string, error) {
	names, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	if err := os.MkdirAll(to, 0o700); err != nil {
		return nil, err
	}
	patches := []map[string]string{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(name)), data, 0o600); err != nil {
			return nil, err
		}
		patches = append(patches, map[string]string{"path": "patches/" + filepath.Base(name)})
	}
	return patches, nil
}

var variable = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

// documents puts variables in, value by value so that none can add structure, and drops the metadata by which kustomize
// told the documents apart: kubeadm has no such field.
func (i Init) documents(objects []*unstructured.Unstructured) ([]byte, error) {
	var out []byte
	var missing []string
	put := func(s string) string {
		return variable.ReplaceAllStringFunc(s, func(ref string) string {
			value, ok := i.Variables[ref[2:len(ref)-1]]
			if !ok {
				missing = append(missing, ref)
			}
			return value
		})
	}
	for _, object := range objects {
		delete(object.Object, "metadata")
		data, err := yaml.Marshal(mapStrings(object.Object, put))
		if err != nil {
			return nil, err
		}
		out = append(append(out, "---\n"...), data...)
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("no value for %s", strings.Join(missing, ", "))
	}
	return out, nil
}

func mapStrings(v any, f func(string) string) any {
	switch v := v.(type) {
	case string:
		return f(v)
	case []any:
		for i := range v {
			v[i] = mapStrings(v[i], f)
		}
	case map[string]any:
		for k := range v {
			v[k] = mapStrings(v[k], f)
		}
	}
	return v
}

// WaitReady waits until every node is Ready and what kubeadm itself deploys is rolled out.
func WaitReady(ctx context.Context, output io.Writer) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		return errors.New("waiting for the cluster needs a bound")
	}
	timeout := "--timeout=" + time.Until(deadline).Round(time.Second).String()
	for _, args := range [][]string{
		{"wait", "--for=condition=Ready", "nodes", "--all", timeout},
		{"--namespace=kube-system", "rollout", "status", "daemonset/kube-proxy", timeout},
		{"--namespace=kube-system", "rollout", "status", "deployment/coredns", timeout},
	} {
		cmd := exec.CommandContext(ctx, "kubectl", append([]string{"--kubeconfig=" + AdminKubeconfig}, args...)...)
		var said tail.Buffer
		cmd.Stdout, cmd.Stderr = output, io.MultiWriter(output, &said)
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, said.String())
		}
	}
	return nil
}
