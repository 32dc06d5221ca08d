//go:build grid

package airgap_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/lab/mirror"
	"github.com/sealift/sealift/testgrid/scenario"
)

// withConsole makes the demo's bundle with sealift-console.
func withConsole(t *testing.T) delivery {
	t.Helper()
	return deliveries.once(t, "console", func(r delivery) {
		r.mirrored(t, mirror.Options{}, func() {
			args := []string{"build", "--out", r.packages, "--target", "debian-12", "--config", r.config, "--cache", r.cache}
			for _, a := range addOns(current) {
				args = append(args, "addons/"+a)
			}
			r.run(t, args...)
		})
		compile(t, r.dir(), "./cmd/sealift-console")
		t.Setenv("SEALIFT_KEY_PASSPHRASE", keyPassphrase)
		r.run(t, "key", "generate", "--out", filepath.Join(r.dir(), "release"))
		r.consoleBundle(t, "testgrid/demo/installer.yaml", r.usb)
	})
}

const keyPassphrase = "of the lab"

// consoleBundle makes the signed bundle of an Installer with sealift-console, and puts it into a folder with its public key.
func (r delivery) consoleBundle(t *testing.T, installer, folder string) {
	t.Helper()
	t.Setenv("SEALIFT_KEY_PASSPHRASE", keyPassphrase)
	r.run(t, "bundle", "-f", installer, "--store", r.packages, "--out", filepath.Join(folder, "cluster.tar.gz"), "--key", filepath.Join(r.dir(), "release.key"), "--sealift-console", filepath.Join(r.dir(), "sealift-console"))
	shell(t, folder, "cp "+filepath.Join(r.dir(), "release.pub")+" . && tar xzf cluster.tar.gz --occurrence=1 install.sh")
}

// visitor is a person at the console of a node: curl of this machine, in the network of the host.
type visitor struct {
	node
	dir string // with the CA of the cluster and the cookies
}

// request sends a request to the console, and returns the head and body of the answer.
func (v visitor) request(path string, form ...string) string {
	v.t.Helper()
	args := []string{"curl", "-sS", "-i", "--max-time", "120", "--cacert", filepath.Join(v.dir, "ca.crt"), "-b", filepath.Join(v.dir, "cookies"), "-c", filepath.Join(v.dir, "cookies"),
		"-w", "\ntook %{time_total}\n"}
	for _, field := range form {
		args = append(args, "--data-urlencode", field)
	}
	var out, errOut bytes.Buffer
	if err := v.Exec(v.t.Context(), host.Command{Args: append(args, "https://localhost:6446"+path), Stdout: &out, Stderr: &errOut, NetworkOnly: true}); err != nil {
		v.t.Fatalf("%s: %v: %s", path, err, errOut.String())
	}
	return out.String()
}

var formOfPage = regexp.MustCompile(`name="form" value="([^"]+)"`)

// form returns the token of the forms of a page.
func (v visitor) form(path string) string {
	v.t.Helper()
	page := v.request(path)
	found := formOfPage.FindStringSubmatch(page)
	if found == nil {
		v.t.Fatalf("%s has no form: %s", path, page)
	}
	return "form=" + found[1]
}

// act starts an action, and returns the page with its end.
func (v visitor) act(name string, fields ...string) string {
	v.t.Helper()
	answer := v.request("/actions/"+name, append(fields, v.form("/"))...)
	_, location, started := strings.Cut(strings.ToLower(answer), "location: ")
	if !started {
		v.t.Fatalf("%s was not started: %s", name, answer)
	}
	path, _, _ := strings.Cut(answer[len(answer)-len(location):], "\r\n")
	for end := time.Now().Add(10 * time.Minute); ; time.Sleep(2 * time.Second) {
		if page := v.request(path); !strings.Contains(page, "It is running") {
			return page
		} else if time.Now().After(end) {
			v.t.Fatalf("%s does not end: %s", name, page)
		}
	}
}

// uploadAndStart uploads the cluster's own bundle, plans an upgrade with it and starts that. It has nothing to change: what the test is about
// is the unit in which it runs.
func (v visitor) uploadAndStart() {
	v.t.Helper()
	out := v.must("cp /media/usb/cluster.tar.gz /root/again.tar.gz; SEALIFT_TOKEN=$(sealift-console token --role administrator --name jane 2>/dev/null) sealift-console upload /root/again.tar.gz --console https://localhost:6446 --ca-cert /etc/kubernetes/pki/ca.crt -o json 2>&1; rm /root/again.tar.gz")
	v.t.Log(out)
	if page := v.request("/bundles/uploaded/again.tar.gz"); !strings.Contains(page, "kubernetes") || !strings.Contains(page, current) {
		v.t.Errorf("the page of the bundle: %s", page)
	}
	if page := v.act("upgrade-plan", "bundle=uploaded/again.tar.gz"); !strings.Contains(page, "Done, in ") {
		v.t.Errorf("plan with the uploaded bundle: %s", page)
	}
	if answer := v.request("/actions/upgrade-start", "bundle=uploaded/again.tar.gz", v.form("/")); !strings.Contains(answer, " 403") {
		v.t.Errorf("an operator starts an upgrade: %s", answer)
	}
	token := strings.TrimSpace(v.must("sealift-console token --role administrator --name jane 2>/dev/null"))
	if answer := v.request("/login", "token="+token, v.loginForm()); !strings.Contains(answer, "303") {
		v.t.Fatalf("log in as an administrator: %s", answer)
	}
	v.runOutside("upgrade-start", "/upgrade", "nothing to do", "bundle=uploaded/again.tar.gz")
	if answer := v.request("/bundles/uploaded/again.tar.gz/delete", v.form("/")); !strings.Contains(answer, "303") {
		v.t.Errorf("delete the bundle: %s", answer)
	}
}

// runOutside starts an action that outlives the console, and waits until its page says that it is done, and something else.
func (v visitor) runOutside(name, path, says string, fields ...string) {
	v.t.Helper()
	if answer := v.request("/actions/"+name, append(fields, v.form("/"))...); !strings.Contains(answer, "ocation: "+path) {
		v.t.Fatalf("%s was not started: %s", name, answer)
	}
	for end := time.Now().Add(10 * time.Minute); ; time.Sleep(2 * time.Second) {
		if page := v.request(path); strings.Contains(page, "Done, in ") && strings.Contains(page, says) {
			return
		} else if time.Now().After(end) {
			v.t.Fatalf("%s does not end: %s", name, page)
		}
	}
}

// loginForm returns the token of the login form, for a browser that has no session any more.
func (v visitor) loginForm() string {
	v.t.Helper()
	v.request("/logout", v.form("/"))
	return v.form("/login")
}

// awaitConsole reads the overview once the console listens again.
func awaitConsole(v visitor) string {
	v.t.Helper()
	v.must("for i in $(seq 60); do (echo >/dev/tcp/127.0.0.1/6446) 2>/dev/null && exit 0; sleep 1; done; exit 1")
	return v.request("/")
}

// TestConsoleOfRealCluster switches the console on, reads its pages, starts its actions, takes the API away, and resets the host.
func TestConsoleOfRealCluster(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl")
	}
	r := withConsole(t)
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb}}), t}
	before := n.state()
	n.must(install)
	n.must("umask 077; sealift snapshot key --out /root/snapshots.key >/root/snapshots.pub")
	t.Log(n.must("time /var/lib/sealift/bin/sealift-console on --bundles /media/usb --snapshot-key /root/snapshots.pub --snapshot-identity /root/snapshots.key --bundle-key /media/usb/release.pub"))
	t.Log(n.must("systemctl show sealift-console -p ActiveState -p MemoryCurrent; systemd-analyze security --no-pager sealift-console | tail -1"))
	v := visitor{n, t.TempDir()}
	if err := os.WriteFile(filepath.Join(v.dir, "ca.crt"), []byte(n.must("cat /etc/kubernetes/pki/ca.crt")), 0o600); err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(n.must("sealift-console token --role operator --name jane 2>/dev/null"))
	if answer := v.request("/login", "token="+token, v.form("/login")); !strings.Contains(answer, "303") {
		t.Fatalf("log in: %s", answer)
	}
	for _, path := range []string{"/", "/nodes", "/add-ons", "/snapshots", "/bundles", "/join", "/certificates", "/operations", "/upgrade", "/support", "/jobs"} {
		v.request(path) // the first one runs commands
		page := v.request(path)
		_, took, _ := strings.Cut(page, "\ntook ")
		seconds, err := strconv.ParseFloat(strings.TrimSpace(took), 64)
		t.Logf("%s: %d bytes, %s s", path, len(page), strings.TrimSpace(took))
		if err != nil || !strings.Contains(page, " 200") || len(page) > 200_000 || strings.Contains(page, `class="problem urgent"`) || seconds > 60 {
			t.Errorf("%s: %s", path, page)
		}
	}
	if page := v.request("/nodes"); !strings.Contains(page, n.Name()) || !strings.Contains(page, "v"+current) {
		t.Errorf("the page of nodes: %s", page)
	}
	for name, fields := range map[string][]string{"snapshot-save": nil, "upgrade-plan": {"bundle=cluster.tar.gz"}} {
		if page := v.act(name, fields...); !strings.Contains(page, "Done, in ") {
			t.Errorf("%s: %s", name, page)
		}
	}
	v.uploadAndStart()
	if page := v.act("upgrade-pause"); !strings.Contains(page, "failed with exit code 1") || !strings.Contains(page, "no upgrade was begun in this cluster") {
		t.Errorf("pause an upgrade that does not exist: %s", page)
	}
	snapshot := regexp.MustCompile(`snapshot-[0-9a-f]{8}-[^ <"]+\.age`).FindString(v.request("/snapshots"))
	if page := v.act("snapshot-verify", "snapshot="+snapshot); !strings.Contains(page, "Done, in ") {
		t.Errorf("verify %s: %s", snapshot, page)
	}
	v.runOutside("snapshot-drill", "/snapshots", "0 differ", "snapshot="+snapshot)
	n.must("mv /etc/kubernetes/manifests/kube-apiserver.yaml /root/; for i in $(seq 120); do " + kubectl + "--request-timeout=2s get --raw /readyz || exit 0; sleep 1; done; exit 1")
	time.Sleep(16 * time.Second) // the page may be so old
	if page := v.request("/"); !strings.Contains(page, "Now: The Kubernetes API does not answer") || !strings.Contains(page, "journalctl --no-pager -n 50 -u kubelet") {
		t.Errorf("without an API: %s", page)
	}
	n.must("mv /root/kube-apiserver.yaml /etc/kubernetes/manifests/; for i in $(seq 300); do " + kubectl + "--request-timeout=2s get --raw /readyz && exit 0; sleep 1; done; exit 1")
	t.Log(n.must("sealift-console audit"))
	n.must("was=$(systemctl show -P MainPID sealift-console); cd /var/lib/sealift/bin && cp sealift-console other && mv other sealift-console; " +
		"for i in $(seq 300); do [ $(systemctl show -P MainPID sealift-console) = $was ] || { systemctl is-active sealift-console && exit 0; }; sleep 1; done; exit 1")
	if page := awaitConsole(v); !strings.Contains(page, " 200") {
		t.Errorf("after its program was replaced: %s", page)
	}
	n.must("sealift-console sessions revoke --all")
	if answer := v.request("/"); !strings.Contains(answer, "303") {
		t.Errorf("after the session was revoked: %s", answer)
	}
	n.must("cp /usr/local/bin/sealift /var/tmp/sealift")
	out := n.must(resetCommand + " 2>&1")
	n.must("rm -rf /var/backups/sealift /root/snapshots.*")
	for _, line := range scenario.Differences(before, n.state(), append(scenario.Kept(), " transient", "running systemd-timedated.service")...) {
		if strings.Contains(line, "console") {
			t.Errorf("after a reset: %s\n%s", line, out)
		}
	}
	n.refuses("test -e /etc/systemd/system/sealift-console.service || test -e /etc/systemd/system/sealift-console-work.service || test -e /usr/local/bin/sealift-console || test -e /var/lib/sealift", 1, "")
}
