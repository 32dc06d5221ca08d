package assemble_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/assemble"
	"github.com/sealift/sealift/internal/testing/short"
)

func TestScriptsOfBundleWorkOffline(t *testing.T) {
	short.AsRoot(t, "scripts that change a host")
	data := assembled(t, request(t, both))
	packed, unpacked := unpack(t, data, "install.sh", "join.sh", "upgrade.sh", "tasks.sh"), unpack(t, data)
	for name, row := range map[string]struct {
		script string
		args   []string
		env    string
		want   string // "BUNDLE" stands for the bundle's name
		code   int
	}{
		"join":                       {"join.sh", []string{"airgap", "kubernetes-master-address=10.0.0.1:6443", "kubeadm-token-ca-hash=sha256:00"}, "", "sealift got: join kubernetes-master-address=10.0.0.1:6443 kubeadm-token-ca-hash=sha256:00\n", 0},
		"join, no secret told":       {"join.sh", []string{"kubeadm-token=abcdef.0123456789abcdef", "cert-key=0123456789abcdef", "ha"}, "", "sealift got: join ha\n", 0},
		"upgrade":                    {"upgrade.sh", []string{"airgap"}, "", "upgrade.sh: the sealift that goes with this script has no command upgrade; nothing was changed", 1},
		"images":                     {"tasks.sh", []string{"load-images"}, "", "sealift got: images load BUNDLE\n", 0},
		"images, with an underscore": {"tasks.sh", []string{"load_images", "kurl-install-directory=/x"}, "", "sealift got: images load BUNDLE\n", 0},
		"a token":                    {"tasks.sh", []string{"join-token", "ha", "airgap"}, "", "sealift got: token create --control-plane\n", 0},
		"reset":                      {"tasks.sh", []string{"reset", "--yes"}, "", "sealift got: reset --yes\n", 0},
		"reset as kURL forces it":    {"tasks.sh", []string{"reset", "kurl-install-directory=/x"}, "FORCE_RESET=1", "sealift got: reset --yes --force\n", 0},
		"an administrator":           {"tasks.sh", []string{"generate-admin-user"}, "", "needs a control plane", 1},
		"the registry":               {"tasks.sh", []string{"print-registry-login"}, "", "needs a control plane", 1},
		"the console's certificate":  {"tasks.sh", []string{"kotsadm-accept-tls-uploads"}, "", "needs a control plane", 1},
		"it, with underscores":       {"tasks.sh", []string{"kotsadm_accept_tls_uploads"}, "", "needs a control plane", 1},
		"taints":                     {"tasks.sh", []string{"taint_primaries"}, "", "needs a control plane", 1},
		"a load balancer":            {"tasks.sh", []string{"set-kubeconfig-server", "10.0.0.9"}, "", "this host is not a node", 1},
		"a host that is none":        {"tasks.sh", []string{"set-kubeconfig-server", "x|y"}, "", "say which host", 2},
		"a task of kURL's alone":     {"tasks.sh", []string{"migrate-rgw-to-minio"}, "", "sealift does not have; nothing was changed", 1},
		"no task":                    {"tasks.sh", nil, "", "set-kubeconfig-server", 2},
	} {
		for dir, bundle := range map[string]string{packed: "cluster.tar.gz", unpacked: "."} {
			if row.env != "" {
				key, value, _ := strings.Cut(row.env, "=")
				t.Setenv(key, value)
			}
			out, err := scriptNamed(t, dir, row.script, row.args...)
			if row.env != "" {
				key, _, _ := strings.Cut(row.env, "=")
				_ = os.Unsetenv(key)
			}
			code := 0
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				code = exit.ExitCode()
			}
			if want := strings.ReplaceAll(row.want, "BUNDLE", bundle); code != row.code || !strings.Contains(out, want) || strings.Contains(out, "0123456789abcdef") {
				t.Errorf("%s, %s: exit %d, want %d and %q: %s", name, bundle, code, row.code, want, out)
			}
		}
	}
}

// task runs a function of tasks.sh. Other functions replace programs that change the host.
func task(t *testing.T, lines string) (string, error) {
	t.Helper()
	text, err := os.ReadFile("tasks.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euc", "die() { echo \"$@\" >&2; exit 1; }\n"+string(text)+lines)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestServerOfKubeconfigIsChanged(t *testing.T) {
	dir := t.TempDir()
	const config = "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: eA==\n    server: https://127.0.0.1:6444\n  name: kubernetes\n"
	for _, name := range []string{"kubelet.conf", "admin.conf", "scheduler.conf"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for host, want := range map[string]string{"lb.example.com": "lb.example.com:6443", "10.0.0.9:7443": "10.0.0.9:7443", "[fd00::1]": "[fd00::1]:6443", "[fd00::1]:7443": "[fd00::1]:7443"} {
		out, err := task(t, "kubernetes='"+dir+"' HOME=/none\nsystemctl() { echo systemctl \"$@\"; }\nset_kubeconfig_server '"+host+"'\n")
		if err != nil || !strings.Contains(out, "systemctl restart kubelet") {
			t.Errorf("%s: %v: %s", host, err, out)
		}
		for name, server := range map[string]string{"kubelet.conf": want, "admin.conf": want, "scheduler.conf": "127.0.0.1:6444"} {
			got, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || string(got) != strings.Replace(config, "127.0.0.1:6444", server, 1) {
				t.Errorf("%s: %s is %v\n%s", host, name, err, got)
			}
		}
	}
}

func TestLoginOfRegistryIsPrinted(t *testing.T) {
	const secret = `{"auths":{"10.96.3.4":{"username":"kurl","password":"Xy z/1","auth":"a3VybA=="}}}`
	out, err := task(t, "on_control_plane() { :; }\nkubectl() { printf '%s' '"+secret+"' | base64; }\nprint_registry_login\n")
	if want := "registry: 10.96.3.4\nusername: kurl\npassword: Xy z/1\n"; err != nil || out != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
	if out, err := task(t, "on_control_plane() { :; }\nkubectl() { return 1; }\nprint_registry_login\n"); err == nil || !strings.Contains(out, "registry-creds") {
		t.Errorf("without a registry: %v: %s", err, out)
	}
}

func TestTLSUploadsAreAccepted(t *testing.T) {
	out, err := task(t, "on_control_plane() { :; }\nkubectl() { echo kubectl \"$@\"; }\nkotsadm_accept_tls_uploads\n")
	for _, want := range []string{`patch secret kotsadm-tls --patch {"metadata":{"annotations":{"acceptAnonymousUploads":"1"}},"stringData":{"acceptAnonymousUploads":"1"}}`, "delete pods --selector app=kurl-proxy-kotsadm", "/tls"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v: %q is not in %s", err, want, out)
		}
	}
	if out, err := task(t, "on_control_plane() { :; }\nkubectl() { return 1; }\nkotsadm_accept_tls_uploads\n"); err == nil || !strings.Contains(out, "the add-on kotsadm makes it") {
		t.Errorf("without kotsadm: %v: %s", err, out)
	}
}

// TestOtherShellsAreToldOfBash runs the scripts with dash, which is Debian's sh.
func TestOtherShellsAreToldOfBash(t *testing.T) {
	dash, err := exec.LookPath("dash")
	if err != nil {
		t.Skip("there is no dash")
	}
	r := request(t, both)
	for _, command := range assemble.ScriptNames() {
		s := assemble.Script{Programs: r.Programs, Command: command, Commands: []string{"install", "join", "upgrade"}}
		cmd := exec.CommandContext(t.Context(), dash)
		cmd.Stdin = strings.NewReader(string(s.Text()))
		out, err := cmd.CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 || string(out) != "this script needs bash: run it with bash in place of sh\n" {
			t.Errorf("%s.sh: %v: %s", command, err, out)
		}
	}
}

// TestScriptsOfNodesAreClean holds what goes to nodes against shellcheck, as a shell gets it.
func TestScriptsOfNodesAreClean(t *testing.T) {
	r := request(t, both)
	for _, command := range assemble.ScriptNames() {
		s := assemble.Script{Programs: r.Programs, Command: command, Commands: []string{"install", "join"}}
		cmd := exec.CommandContext(t.Context(), "shellcheck", "--severity=warning", "-")
		cmd.Stdin = strings.NewReader(string(s.Text()))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s.sh: %v\n%s", command, err, out)
		}
	}
}
