package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBundledKubeletOverridesPackage runs the function of the Kubernetes add-on that writes the unit of the kubelet,
// on hosts with drop-ins of host packages.
func TestBundledKubeletOverridesPackage(t *testing.T) {
	t.Parallel()
	addOn, err := filepath.Abs("../../addons/kubernetes/template")
	if err != nil {
		t.Fatal(err)
	}
	var script []byte
	for _, file := range []string{"../hooks/hook/prelude/wait.sh", "../hooks/hook/prelude/packages.sh", filepath.Join(addOn, "install.sh")} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		script = append(append(script, text...), '\n')
	}
	const starts = "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet $KUBELET_CONFIG_ARGS\n"
	const own = "kubelet.service.d/99-sealift.conf"
	for name, row := range map[string]struct {
		files map[string]string
		wants bool // a drop-in of ours
	}{
		"no drop-in":                         {nil, false},
		"one that starts another kubelet":    {map[string]string{"etc/systemd/system/kubelet.service.d/10-kubeadm.conf": starts}, true},
		"that of a package":                  {map[string]string{"usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf": starts}, true},
		"one with other settings":            {map[string]string{"etc/systemd/system/kubelet.service.d/20-limits.conf": "[Service]\nLimitNOFILE=1\n"}, false},
		"ours, and no longer that of others": {map[string]string{"etc/systemd/system/" + own: starts}, false},
		"ours, and that of others":           {map[string]string{"etc/systemd/system/" + own: "old", "etc/systemd/system/kubelet.service.d/10-kubeadm.conf": starts}, true},
	} {
		root := t.TempDir()
		for file, text := range row.files {
			path := filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(filepath.Join(root, "etc/systemd/system"), 0o755); err != nil {
			t.Fatal(err)
		}
		here := strings.NewReplacer("/etc/systemd", root+"/etc/systemd", " /usr/lib/systemd", " "+root+"/usr/lib/systemd", " /lib/systemd/system/kubelet", " "+root+"/usr/lib/systemd/system/kubelet").Replace(string(script))
		cmd := exec.CommandContext(t.Context(), "bash", "-c", "set -euo pipefail\n"+here+"\nkubernetes_kubelet_unit "+addOn)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
			continue
		}
		if unit, err := os.ReadFile(filepath.Join(root, "etc/systemd/system/kubelet.service")); err != nil || !strings.Contains(string(unit), "ExecStart=/usr/local/bin/kubelet") {
			t.Errorf("%s: %v\n%s", name, err, unit)
		}
		text, err := os.ReadFile(filepath.Join(root, "etc/systemd/system", own))
		if row.wants != (err == nil) {
			t.Errorf("%s: the drop-in of ours: %v", name, err)
		}
		begins, ends := "[Service]\nExecStart=\nExecStart=/usr/local/bin/kubelet \\\n", "$KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS\n"
		if row.wants && (!strings.HasPrefix(string(text), begins) || !strings.HasSuffix(string(text), ends) || strings.Contains(string(text), "Restart")) {
			t.Errorf("%s: the drop-in is\n%s", name, text)
		}
	}
}
