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
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/internal/child"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/tail"
	"github.com/sealift/sealift/kube/kubeadmpatch"
	"github.com/sealift/sealift/kube/render"
)

// APIPort is where kubeadm's API servers listen.
const APIPort = "6443"

// HostOf cuts the port off an address, if it has one.
func HostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.Trim(address, "[]")
}

// Kubeadm is a host that kubeadm is to make a node of.
type Kubeadm struct {
	// Base has the kustomizations of kubeadm's configuration, init and join, from the Kubernetes add-on.
	Base string
	// Work is where the configuration is put together: patches are taken from its init-patches and join-patches folders.
	Work string
	// Variables replace ${NAME} in the rendered configuration.
	Variables map[string]string
	// APIServers are the host:port of the control planes of the cluster that the host joins.
	APIServers []string
	// Seed writes keys and etcd's data of an earlier cluster, which Init keeps; nil for a new cluster.
	Seed func(context.Context) error
	// Output receives what kubeadm prints.
	Output io.Writer
}

// Init makes the host the first control plane of a cluster. A control plane that an interrupted run has started is finished; other
// leftovers of a cluster that never came to be are removed first.
func (k Kubeadm) Init(ctx context.Context) error {
	if err := k.checkAdmission(); err != nil {
		return err
	}
	objects, err := k.render("init", nil)
	if err != nil {
		return fmt.Errorf("kubeadm configuration: %w", err)
	}
	name := filepath.Join(k.Work, "kubeadm.yaml")
	resumed, err := k.resume(ctx, name, objects)
	if err != nil {
		return err
	}
	if resumed {
		return secureFiles()
	}
	if err := writeDocuments(name, objects); err != nil {
		return err
	}
	traces, err := anyThere(kubeadm.AdminKubeconfig, kubeadm.KubeletKubeconfig, kubeadm.APIServerManifest)
	if err == nil && !traces {
		traces, err = hollow(kubeadm.PKI)
	}
	if err == nil && traces { // kubeadm would accept the existing files
		err = run(ctx, k.Output, "kubeadm", "reset", "--force")
	}
	if err != nil {
		return err
	}
	if err := removeUnpaired(kubeadm.PKI); err != nil {
		return err
	}
	args := []string{"init", "--config", name, "--skip-token-print"}
	if ignored := k.Variables["KUBERNETES_INIT_IGNORE_PREFLIGHT_ERRORS"]; ignored != "" {
		args = append(args, "--ignore-preflight-errors="+ignored)
	}
	if k.Seed != nil {
		if err := k.Seed(ctx); err != nil {
			return err
		}
		args = append(args, "--ignore-preflight-errors=DirAvailable--var-lib-etcd")
	}
	if err := k.runNoted(ctx, args...); err != nil {
		return err
	}
	return secureFiles()
}

// removeUnpaired removes keys from a folder whose certificate or public key kubeadm had not yet written when it was killed: it would
// take the key for a given one, and want the other file to be there.
func removeUnpaired(folder string) error {
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		pair, isKey := strings.CutSuffix(name, ".key")
		if err != nil || !isKey || !entry.Type().IsRegular() {
			return err
		}
		if paired, err := anyThere(pair+".crt", pair+".pub"); err != nil || paired {
			return err
		}
		return files.Remove(name)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// hollow reports whether a folder has a file without content: those that kubeadm was writing when the power was lost.
func hollow(folder string) (found bool, err error) {
	err = filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		found = found || err == nil && info.Size() == 0
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return found, err
}

// outputDelay is how long a program's output is waited for once it has ended: another that it started may hold it.
const outputDelay = 5 * time.Second

func run(ctx context.Context, output io.Writer, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	var said tail.Buffer
	cmd.Stdout = output
	cmd.Stderr = io.MultiWriter(output, &said)
	cmd.Env = environment()
	cmd.WaitDelay = outputDelay
	if err := child.Run(cmd); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		unit := "" // kubeadm says that the kubelet does not answer, and not why
		if program == "kubeadm" && (args[0] == "init" || args[0] == "join") {
			unit = command.UnitSays(ctx, "kubelet")
		}
		return fmt.Errorf("%s %s: %w\n%s%s", program, args[0], err, said.String(), unit)
	}
	return nil
}

// render merges the base and the patches of init or join, and replaces variables.
func (k Kubeadm) render(kind string, more map[string]string) ([]*unstructured.Unstructured, error) {
	dir := filepath.Join(k.Work, kind)
	if err := files.RemoveAll(dir); err != nil {
		return nil, err
	}
	if _, err := k.copyDocuments(filepath.Join(k.Base, kind), filepath.Join(dir, "base")); err != nil {
		return nil, err
	}
	names, err := k.copyDocuments(filepath.Join(k.Work, kind+"-patches"), filepath.Join(dir, "patches"))
	if err != nil {
		return nil, err
	}
	options, err := k.writeOptions(kind, filepath.Join(dir, "patches"))
	if err != nil {
		return nil, err
	}
	if options != "" {
		names = slices.Insert(names, 0, options)
	}
	patches := []map[string]string{}
	for _, name := range names {
		patches = append(patches, map[string]string{"path": "patches/" + name})
	}
	top := map[string]any{"resources": []string{"base"}, "patches": patches}
	data, err := yaml.Marshal(top)
	if err != nil {
		return nil, err
	}
	if err := files.WriteMode(filepath.Join(dir, "kustomization.yaml"), 0o600, data); err != nil {
		return nil, err
	}
	objects, err := render.Build(dir)
	if err != nil {
		return nil, err
	}
	return objects, k.substitute(objects, more)
}

// copyDocuments copies YAML files beside the kustomization, which may read nothing outside its folder, and names them in order.
// Those of kubeadm are written as they are merged; what that drops is reported.
func (k Kubeadm) copyDocuments(from, to string) (names []string, err error) {
	if err := files.MkdirAll(to, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(from)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasPrefix(name, ".") || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(name)) {
			continue
		}
		data, err := regularfile.ReadFile(filepath.Join(from, name))
		if err != nil {
			return nil, err
		}
		if err := k.writeMergeable(filepath.Join(to, name), data); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(from, name), err)
		}
		names = append(names, name)
	}
	return names, nil
}

func (k Kubeadm) writeMergeable(name string, data []byte) error {
	merged, notes, err := kubeadmpatch.Mergeable(data)
	if err != nil {
		return err
	}
	for _, note := range notes {
		fmt.Fprintf(k.Output, "note: kubeadm patch %s: %s\n", filepath.Base(name), note)
	}
	return files.WriteMode(name, 0o600, merged)
}

var variable = regexp.MustCompile(`\$(?:\{[A-Za-z_][A-Za-z0-9_]*\}|[A-Za-z_][A-Za-z0-9_]*)`)

// substitute puts variables in, value by value so that none can add structure, and drops the metadata by which kustomize
// told the documents apart: kubeadm has no such field. A ${NAME} must be declared; a $NAME that is not may be any text.
func (k Kubeadm) substitute(objects []*unstructured.Unstructured, more map[string]string) error {
	var missing []string
	fitting := speed.Now()
	put := func(s string) string {
		return variable.ReplaceAllStringFunc(s, func(ref string) string {
			name := strings.Trim(ref, "${}")
			value, ok := more[name]
			if !ok {
				value, ok = k.Variables[name]
			}
			if !ok && !strings.HasPrefix(ref, "${") {
				return ref
			}
			if !ok {
				missing = append(missing, ref)
			}
			return value
		})
	}
	for _, object := range objects {
		delete(object.Object, "metadata")
		mapStrings(object.Object, put)
		if err := kubeadmpatch.Finish(object.Object); err != nil {
			return err
		}
		setTimeouts(object, fitting)
	}
	if len(missing) > 0 {
		return fmt.Errorf("no value for %s", strings.Join(missing, ", "))
	}
	return nil
}

// documentStart is the line before each document of a file with several.
const documentStart = "---\n"

func encodeDocuments(objects []*unstructured.Unstructured) (all []byte, err error) {
	for _, object := range objects {
		data, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, err
		}
		all = append(append(all, documentStart...), data...)
	}
	return all, nil
}

// writeDocuments writes what kubeadm reads, which may have secrets in it.
func writeDocuments(name string, objects []*unstructured.Unstructured) error {
	documents, err := encodeDocuments(objects)
	if err != nil {
		return err
	}
	return files.WriteMode(name, 0o600, documents)
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
