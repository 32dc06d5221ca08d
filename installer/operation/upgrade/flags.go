package upgrade

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/preflight"
)

// planned are settings of the cluster that a program of the new version reads when it starts.
type planned struct {
	program string   // that reads them
	owner   string   // whose settings they are, for people
	flags   []string // of its command line, with dashes
	config  []byte   // its configuration, or kubeadm's; nil for none
}

// flags tries the programs of the new version on the flags and feature gates of the cluster. A program that does not know one of them
// would not start, and kubeadm would find out when it has replaced the old one.
func (c *Cluster) flags(ctx context.Context, in *install.Install, r *preflight.Reporter) {
	if in.Version() == "" { // the check of versions refuses it
		return
	}
	all, err := c.planned(ctx, in.KubeadmBase)
	if err != nil {
		r.Refusef("run the command again", "%v", err)
		return
	}
	if len(all) == 0 { // and no folder is made
		tryAll(ctx, nil, "", in.Program, r)
		return
	}
	dir, err := in.TemporaryDir()
	if err != nil {
		r.Warnf("see why", "cannot tell whether the new programs know the flags of the cluster: %v", err)
		return
	}
	tryAll(ctx, all, dir, in.Program, r)
	if err := files.RemoveAll(dir); err != nil {
		r.Warnf("remove it", "%v", err)
	}
}

// tryAll tries programs on settings. fetch writes a program of the new version into a folder.
func tryAll(ctx context.Context, all []planned, dir string, fetch func(ctx context.Context, name, dir string) (string, error), r *preflight.Reporter) {
	fetched := map[string]string{}
	good := true
	for _, p := range all {
		program, have := fetched[p.program]
		if !have {
			var err error
			if program, err = fetch(ctx, p.program, dir); err != nil {
				r.Warnf("see why", "cannot tell whether the new %s knows the flags of the cluster: %v", p.program, err)
				good = false
				continue
			}
			fetched[p.program] = program
		}
		switch refusal, err := p.try(ctx, program, dir); {
		case err != nil:
			r.Warnf("see why", "cannot tell whether the new %s knows the flags of the cluster: %v", p.program, err)
			good = false
		case refusal != "":
			r.Refusef(p.hint(), "the new %s refuses the settings of %s: %s", p.program, p.owner, refusal)
			good = false
		}
	}
	switch {
	case len(all) == 0:
		r.Passf("the cluster has none of its own")
	case good:
		r.Passf("the new programs know all of them")
	}
}

func (p planned) hint() string {
	const again = ", and from what sets it: a patch of an add-on, or the Installer"
	switch p.owner {
	case "the kubelet":
		return "take it out with 'kubectl edit --namespace kube-system configmap kubelet-config', and on each node from /etc/default/kubelet" + again
	case "kube-proxy":
		return "take it out with 'kubectl edit --namespace kube-system configmap kube-proxy'" + again
	}
	return "take it out with 'kubectl edit --namespace kube-system configmap kubeadm-config'" + again
}

// tryTime bounds a program that only reads its settings.
const tryTime = time.Minute

// wrongPort is a setting that no kubelet accepts. It is found after all flags and feature gates are read, and before anything is done.
const wrongPort = 70000

// try runs a program so that it ends when it has read its settings. It returns why the program refuses them, "" if it does not.
func (p planned) try(ctx context.Context, program, dir string) (refusal string, err error) {
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(tryTime))
	defer cancel()
	args := append(slices.Clone(p.flags), "--version") // flags are read before
	if p.config != nil {
		name := filepath.Join(dir, p.program+".yaml")
		if err := files.WriteMode(name, 0o600, p.config); err != nil {
			return "", err
		}
		args = append(slices.Clone(p.flags), "--config", name)
		if p.program == "kubeadm" {
			args = []string{"config", "validate", "--config", name}
		}
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG=/dev/null")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case ctx.Err() != nil || !errors.As(err, &exit):
		return "", fmt.Errorf("%s: %w", program, err)
	case p.program == "kubelet" && !refuses.Match(out) && bytes.Contains(out, []byte(strconv.Itoa(wrongPort))):
		return "", nil
	}
	return cmp.Or(reason(string(out)), err.Error()), nil
}

// refuses matches the messages of Kubernetes' programs, and etcd, about an unknown flag or feature gate.
var refuses = regexp.MustCompile(`(?:unrecognized feature gate|cannot set feature gate|unknown flag|unknown shorthand flag|flag provided but not defined|invalid argument)[^"\n]*`)

// reason returns a program's message about its settings, or else its last line.
func reason(out string) string {
	if found := refuses.FindAllString(out, -1); len(found) > 0 {
		slices.Sort(found)
		return strings.Join(slices.Compact(found), "; ")
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1]
}

// planned reads the cluster's own settings of its programs, without kubeadm's. base reads the configurations that the new version brings,
// whose flags its programs know.
func (c *Cluster) planned(ctx context.Context, base func(name string) ([]byte, error)) (all []planned, err error) {
	configs := c.admin.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	text := func(name, key string) ([]byte, error) {
		config, err := configs.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) { // kubeadm reports what is missing
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the settings of the cluster: %w", err)
		}
		return []byte(config.Data[key]), nil
	}
	config, err := kubeadm.ReadConfig(ctx, c.admin.Client)
	if err != nil && !apierrors.IsNotFound(err) { // kubeadm reports what is missing
		return nil, err
	}
	own, err := base("cluster.yaml")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the Kubernetes of others may have none
		return nil, err
	}
	if all, err = controlPlaneFlags(config, own); err != nil {
		return nil, err
	}
	if kubelet, err := text("kubelet-config", "kubelet"); err != nil {
		return nil, err
	} else if one, err := plannedKubelet(kubelet, kubeletFlags()); err != nil {
		return nil, err
	} else if one != nil {
		all = append(all, *one)
	}
	proxy, err := text("kube-proxy", "config.conf")
	if err != nil {
		return nil, err
	}
	var gates struct{ FeatureGates map[string]bool }
	if err := yaml.Unmarshal(proxy, &gates); err != nil {
		return nil, fmt.Errorf("the settings of kube-proxy: %w", err)
	}
	if len(gates.FeatureGates) > 0 { // all programs of Kubernetes know the same ones, and this one ends before it does anything
		all = append(all, planned{program: "kube-apiserver", owner: "kube-proxy", flags: []string{"--feature-gates=" + listGates(gates.FeatureGates)}})
	}
	return all, nil
}

// controlPlaneFlags returns the flags of a ClusterConfiguration that the base of the new version does not have, and kubeadm's own gates.
func controlPlaneFlags(config kubeadm.Config, base []byte) (all []planned, err error) {
	known, err := kubeadm.ParseConfig(base)
	if err != nil {
		return nil, err
	}
	before := parts(known)
	for n, part := range parts(config) {
		flags := slices.DeleteFunc(part.args, func(flag string) bool { return slices.Contains(before[n].args, flag) })
		if len(flags) > 0 {
			all = append(all, planned{program: part.program, owner: part.program, flags: flags})
		}
	}
	if len(config.FeatureGates) > 0 {
		all = append(all, planned{program: "kubeadm", owner: "kubeadm", config: []byte(config.Text)})
	}
	return all, nil
}

// part is a program of the control plane, and its flags from the cluster's configuration.
type part struct {
	program string
	args    kubeadm.Args
}

func parts(c kubeadm.Config) []part {
	return []part{{"kube-apiserver", c.APIServer.ExtraArgs.Args()}, {"kube-controller-manager", c.ControllerManager.ExtraArgs.Args()},
		{"kube-scheduler", c.Scheduler.ExtraArgs.Args()}, {"etcd", c.Etcd.Local.ExtraArgs.Args()}}
}

// plannedKubelet returns the settings of kubelets; nil if they have neither feature gates nor their own flags.
func plannedKubelet(config []byte, flags []string) (*planned, error) {
	values := map[string]any{}
	if err := yaml.Unmarshal(config, &values); err != nil {
		return nil, fmt.Errorf("the settings of the kubelets: %w", err)
	}
	if gates, _ := values["featureGates"].(map[string]any); len(gates) == 0 && len(flags) == 0 {
		return nil, nil
	}
	values["healthzPort"] = wrongPort
	text, err := yaml.Marshal(values)
	return &planned{program: "kubelet", owner: "the kubelet", flags: flags, config: text}, err
}

// kubeadmsFlags are those that kubeadm gives kubelets, and removes when a version lacks them.
var kubeadmsFlags = []string{"container-runtime-endpoint", "hostname-override", "node-ip", "node-labels", "pod-infra-container-image", "register-with-taints"}

// kubeletFlags are this host's own flags of its kubelet, in addition to kubeadm's.
func kubeletFlags() (flags []string) {
	for _, name := range kubeadm.KubeletArgsFiles() {
		if text, err := regularfile.ReadFile(name); err == nil {
			flags = append(flags, flagsIn(text)...)
		}
	}
	return flags
}

// flagsIn returns the flags of a kubelet other than kubeadm's.
func flagsIn(text []byte) []string {
	return kubeadm.KubeletArgs(text).Only(func(name string) bool { return !slices.Contains(kubeadmsFlags, name) })
}

func listGates(gates map[string]bool) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		list = append(list, fmt.Sprintf("%s=%t", name, gates[name]))
	}
	return strings.Join(list, ",")
}
