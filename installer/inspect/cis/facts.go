package cis

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/regularfile"
)

// The static pods.
const (
	server     = "kube-apiserver"
	controller = "kube-controller-manager"
	scheduler  = "kube-scheduler"
	etcdServer = "etcd"
)

// facts are the inputs of the checks.
type facts struct {
	Host
	flags   map[string]flags // of static pods, by their names
	kubelet map[string]any   // its configuration
	own     flags            // the kubelet's own arguments
	objects *objects         // of the API, read on first use
}

// flags are the arguments of a program, by their names without dashes.
type flags map[string]string

func (h Host) path(name string) string { return files.Host{Rootfs: h.Rootfs}.Path(name) }

func (f *facts) controlPlane() bool { return f.flags[server] != nil }

func read(h Host) (*facts, error) {
	f := &facts{Host: h, flags: map[string]flags{}}
	for _, component := range []string{server, controller, scheduler, etcdServer} {
		text, err := regularfile.ReadFile(h.path(manifest(component)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		pod, err := kubeadm.ParsePod(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", manifest(component), err)
		}
		f.flags[component] = maps.Collect(pod.Args().All())
	}
	text, err := regularfile.ReadFile(h.path(kubeadm.KubeletConfig))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("this host is not a node of a cluster: it has no %s; run the command on a node", kubeadm.KubeletConfig)
	}
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(text, &f.kubelet); err != nil {
		return nil, fmt.Errorf("%s: %w", kubeadm.KubeletConfig, err)
	}
	return f, f.readArguments()
}

// readArguments reads the arguments that the unit of the kubelet takes from files.
func (f *facts) readArguments() error {
	f.own = flags{}
	for _, name := range kubeadm.KubeletArgsFiles() {
		text, err := regularfile.ReadFile(f.path(name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		maps.Insert(f.own, kubeadm.KubeletArgs(text).All())
	}
	return nil
}

// setting is a value of the kubelet's configuration, as text; "" if it is not set.
func (f *facts) setting(path string) string {
	value, found, err := unstructured.NestedFieldNoCopy(f.kubelet, strings.Split(path, ".")...)
	if err != nil || !found || value == nil {
		return ""
	}
	if number, ok := value.(float64); ok { // as YAML has it: Sprint makes 1e+06 of a million
		return strconv.FormatFloat(number, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}
