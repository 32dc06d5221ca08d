package upgrade

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// newPrograms finds the real programs of a version.
func newPrograms(t *testing.T) func(context.Context, string, string) (string, error) {
	t.Helper()
	w := lab.Workshop(t)
	return func(ctx context.Context, name, _ string) (string, error) {
		return w.File(ctx, upstream.Program(name))
	}
}

const newBase = "apiServer: {extraArgs: [{name: profiling, value: \"false\"}]}\n"

// TestNewProgramsRefuseUnknownFlags runs the real programs of the new version.
func TestNewProgramsRefuseUnknownFlags(t *testing.T) {
	fetch := newPrograms(t)
	const kubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	for name, row := range map[string]struct {
		cluster, kubelet, flags string
		want                    string // the refusals, one a line
	}{
		"what the new version sets itself": {newBase, kubelet, "", "the cluster has none of its own"},
		"known ones":                       {"apiServer: {extraArgs: [{name: feature-gates, value: \"AllAlpha=false\"}]}\nscheduler: {extraArgs: {v: \"2\"}}\n", kubelet + "featureGates: {AllAlpha: false}\n", "--v=2", "the new programs know all of them"},
		"a gate of the API server":         {"apiServer: {extraArgs: [{name: feature-gates, value: \"RemovedLongAgo=true\"}]}\n", kubelet, "", "the new kube-apiserver refuses the settings of kube-apiserver: unrecognized feature gate: RemovedLongAgo"},
		"a flag of the API server":         {"apiServer: {extraArgs: [{name: insecure-port, value: \"0\"}]}\n", kubelet, "", "the new kube-apiserver refuses the settings of kube-apiserver: unknown flag: --insecure-port"},
		"a value that is no longer good":   {"apiServer: {extraArgs: [{name: profiling, value: sometimes}]}\n", kubelet, "", "the new kube-apiserver refuses the settings of kube-apiserver: invalid argument"},
		"flags of others, as until v1beta3": {"controllerManager: {extraArgs: {port: \"0\"}}\nscheduler: {extraArgs: {feature-gates: Gone=true}}\n", kubelet, "",
			"the new kube-controller-manager refuses the settings of kube-controller-manager: unknown flag: --port\nthe new kube-scheduler refuses the settings of kube-scheduler: unrecognized feature gate: Gone"},
		"a gate that is locked":      {"apiServer: {extraArgs: [{name: feature-gates, value: \"DRAPartitionableDevices=true,ServiceAccountTokenNodeBinding=false\"}]}\n", kubelet, "", "the new kube-apiserver refuses the settings of kube-apiserver: cannot set feature gate ServiceAccountTokenNodeBinding"},
		"a gate of the kubelets":     {newBase, kubelet + "featureGates: {Gone: true}\n", "", "the new kubelet refuses the settings of the kubelet: unrecognized feature gate: Gone"},
		"a flag of the host's":       {newBase, kubelet, "--network-plugin=cni", "the new kubelet refuses the settings of the kubelet: unknown flag: --network-plugin"},
		"a gate in the host's flags": {newBase, kubelet, "--feature-gates=Gone=true", "the new kubelet refuses the settings of the kubelet: unrecognized feature gate: Gone"},
		"a gate of kubeadm":          {"apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.35.4\nfeatureGates: {UpgradeAddonsBeforeControlPlane: true}\n", kubelet, "", "the new kubeadm refuses the settings of kubeadm: "},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := kubeadm.ParseConfig([]byte(row.cluster))
			if err != nil {
				t.Fatal(err)
			}
			all, err := controlPlaneFlags(config, []byte(newBase))
			if err != nil {
				t.Fatal(err)
			}
			one, err := plannedKubelet([]byte(row.kubelet), strings.Fields(row.flags))
			if err != nil {
				t.Fatal(err)
			}
			if one != nil {
				all = append(all, *one)
			}
			dir := t.TempDir()
			var lines []string
			for _, r := range results(t, preflight.Check{Name: "flags", Probe: func(ctx context.Context, r *preflight.Reporter) { tryAll(ctx, all, dir, fetch, r) }}) {
				if r.Final != (r.Status == preflight.Fail) || r.Final && !strings.Contains(r.Hint, "kubectl edit") {
					t.Errorf("%+v", r)
				}
				lines = append(lines, r.Message)
			}
			got, want := strings.Join(lines, "\n"), strings.Split(row.want, "\n")
			if len(lines) != len(want) || !strings.HasPrefix(got, want[0]) || !strings.Contains(got, want[len(want)-1]) {
				t.Errorf("got %s\nwant %s", got, row.want)
			}
		})
	}
}

func TestUntestableProgramsAreReported(t *testing.T) {
	all := []planned{{program: "etcd", owner: "etcd", flags: []string{"--experimental-x=1"}}, {program: "lost", owner: "lost"}}
	fetch := func(_ context.Context, name, _ string) (string, error) {
		if name == "lost" {
			return "", errors.New("no such image")
		}
		return "/bin/false", nil
	}
	got := results(t, preflight.Check{Name: "flags", Probe: func(ctx context.Context, r *preflight.Reporter) { tryAll(ctx, all, t.TempDir(), fetch, r) }})
	if len(got) != 2 || got[0].Status != preflight.Fail || got[1].Status != preflight.Warn || !strings.Contains(got[1].Message, "no such image") {
		t.Errorf("%+v", got)
	}
	if got := reason("flag provided but not defined: -experimental-x\nUsage:\n  etcd [flags]\n"); got != "flag provided but not defined: -experimental-x" {
		t.Errorf("of etcd: %s", got)
	}
}

func TestSettingsOfClusterAreRead(t *testing.T) {
	c, client := opened(t)
	base := func(string) ([]byte, error) { return []byte(newBase), nil }
	if all, err := c.planned(t.Context(), base); err != nil || len(all) > 0 {
		t.Errorf("of a cluster without settings: %v, %v", all, err)
	}
	for name, data := range map[string]map[string]string{
		"kubeadm-config": {"ClusterConfiguration": newBase + "etcd: {local: {extraArgs: [{name: quota-backend-bytes, value: \"1\"}]}}\n"},
		"kubelet-config": {"kubelet": "featureGates: {A: true}\n"},
		"kube-proxy":     {"config.conf": "featureGates: {B: true, A: false}\n"},
	} {
		if _, err := client.CoreV1().ConfigMaps("kube-system").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := c.planned(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range all {
		got = append(got, p.program+" "+p.owner+" "+strings.Join(p.flags, " "))
	}
	got[1] = strings.TrimSpace(got[1]) // this host may have a kubelet with flags
	if want := []string{"etcd etcd --quota-backend-bytes=1", "kubelet the kubelet", "kube-apiserver kube-proxy --feature-gates=A=false,B=true"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHostKubeletFlagsAreRead(t *testing.T) {
	text := "# KUBELET_EXTRA_ARGS=--old\nKUBELET_KUBEADM_ARGS=\"--node-ip=10.0.0.1 --pod-infra-container-image=pause:3.10 --feature-gates=A=true\"\nKUBELET_EXTRA_ARGS='--node-labels a=b --v 2'\n"
	if got := strings.Join(flagsIn([]byte(text)), " "); got != "--feature-gates=A=true --v 2" {
		t.Errorf("got %q", got)
	}
}
