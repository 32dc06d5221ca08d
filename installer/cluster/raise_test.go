package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// validate lets the real kubeadm read a configuration.
func validate(t *testing.T, name string) {
	t.Helper()
	w := lab.Workshop(t)
	program, err := w.File(t.Context(), upstream.Program("kubeadm"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), program, "config", "validate", "--config", name).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestKurlPatchesAreConverted converts the patches of kURL's flannel and containerd, named as their hooks copy them.
func TestKurlPatchesAreConverted(t *testing.T) {
	addOns := filepath.Join(upstreamcases.KurlAddOns(t), "addons")
	patches := map[string]string{}
	for name, file := range map[string]string{
		"init-patches/flannel.yaml":                                "flannel/0.28.7/kubeadm.yaml",
		"init-patches/containerd-kubeadm-init-config-v1beta2.yml":  "containerd/2.2.6/kubeadm-init-config-v1beta2.yaml",
		"join-patches/containerd-kubeadm-join-config-v1beta2.yml":  "containerd/2.2.6/kubeadm-join-config-v1beta2.yaml",
		"join-patches/another-that-says-something-of-kubelets.yml": "",
	} {
		text := []byte("apiVersion: kubeadm.k8s.io/v1beta3\nkind: JoinConfiguration\nmetadata: {name: kubeadm-join-configuration}\nnodeRegistration: {kubeletExtraArgs: {node-labels: 'a=$UNKNOWN'}}\n")
		if file != "" {
			var err error
			if text, err = os.ReadFile(filepath.Join(addOns, file)); err != nil {
				t.Fatal(err)
			}
		}
		patches[name] = string(text)
	}
	k := work(t, patches)
	var said strings.Builder
	k.Output = &said
	first, err := k.initConfig()
	if err != nil {
		t.Fatal(err)
	}
	joinName := filepath.Join(k.Work, "kubeadm-join.yaml")
	if err := k.writeJoinConfig(joinName); err != nil {
		t.Fatal(err)
	}
	joined, err := os.ReadFile(joinName)
	if err != nil {
		t.Fatal(err)
	}
	endpoint := "- name: container-runtime-endpoint\n    value: unix:///run/containerd/containerd.sock\n"
	for what, row := range map[string]struct{ got, want string }{
		"$POD_CIDR":                        {first, "podSubnet: 10.32.0.0/20"},
		"a .yml file":                      {first, endpoint},
		"arguments that the base has":      {first, "- name: node-ip\n    value: 10.0.0.1\n"},
		"a host that joins":                {string(joined), endpoint},
		"arguments of two patches":         {string(joined), "- name: node-labels\n    value: a=$UNKNOWN\n"},
		"arguments of the base, joining":   {string(joined), "- name: node-ip\n    value: 10.0.0.1\n"},
		"a note of a flag that is no more": {said.String(), "nodeRegistration.kubeletExtraArgs.container-runtime of InitConfiguration"},
	} {
		if !strings.Contains(row.got, row.want) {
			t.Errorf("%s: no %q in\n%s", what, row.want, row.got)
		}
	}
	if strings.Contains(first+string(joined), "container-runtime\n") || strings.Contains(first+string(joined), "v1beta2") {
		t.Errorf("not raised:\n%s%s", first, joined)
	}
	validate(t, filepath.Join(k.Work, "kubeadm.yaml"))
	validate(t, joinName)
}
