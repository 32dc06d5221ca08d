//go:build grid

package airgap_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/sealift/sealift/internal/testing/browser"
	"github.com/sealift/sealift/internal/testing/issuer/op"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/lab/mirror"
)

// loginClient is the client ID of the console and of kubectl at the issuer.
const loginClient = "cluster"

// The people at the issuer. The Installer of the upgrade does not name rita's group any more.
var (
	ada  = op.User{Name: "ada", Password: "of-platform", Groups: []string{"platform"}}
	anna = op.User{Name: "anna", Password: "of-staff", Groups: []string{"staff"}}
	rita = op.User{Name: "rita", Password: "of-leavers", Groups: []string{"leavers"}}
)

// consoleCluster is a cluster of three control planes. The first one has the console, which a browser of this machine visits.
type consoleCluster struct {
	t       *testing.T
	nodes   []node
	issuer  op.Issuer
	issuers []*tunnel // from each node to the issuer
	console *tunnel   // from this machine to the console
	bundle  string    // of the upgrade
	url     string    // of the console
	browser context.Context
}

// newConsoleCluster installs the previous Kubernetes with a login at an issuer of this machine, and switches the console on.
func newConsoleCluster(t *testing.T) *consoleCluster {
	t.Helper()
	r := withConsole(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &consoleCluster{t: t, url: strings.Replace("https://"+l.Addr().String(), "127.0.0.1", "localhost", 1)}
	c.issuer = op.Start(t, loginClient, c.url+"/login/oidc/callback", ada, anna, rita)
	older, newer := r.withLogin(t, "older", previous, c.login("staff", "leavers")), r.withLogin(t, "newer", current, c.login("staff"))
	c.bundle = filepath.Join(newer, "newer.tar.gz")
	if err := os.Rename(filepath.Join(newer, "cluster.tar.gz"), c.bundle); err != nil {
		t.Fatal(err)
	}
	c.boot(host.Spec{USB: []string{older}}).must(install)
	first := c.nodes[0]
	for range 2 {
		c.boot(host.Spec{}).must(first.joinCommand(controlPlane))
	}
	first.hasNodes(3)
	first.hasMembers(3)
	t.Log(first.must("/var/lib/sealift/bin/sealift-console on --bundle-key /media/usb/release.pub --oidc-client-id " + loginClient + " --oidc-url " + c.url))
	c.console = serveTunnel(t, l, func(ctx context.Context) (net.Conn, error) { return first.Dial(ctx, "tcp", "127.0.0.1:6446") })
	c.browser = browser.Within(t, time.Hour, chromedp.Flag("ignore-certificate-errors", true))
	return c
}

// login is kubernetes.oidc of the Installer, with the groups of viewers.
func (c *consoleCluster) login(viewers ...string) string {
	return fmt.Sprintf("    oidc:\n      issuers:\n      - {url: %q, audiences: [%s], caCertificate: %q, claims: {username: sub, groups: groups}}\n      admins: [\"oidc:platform\"]\n      viewers: [\"oidc:%s\"]\n",
		c.issuer.URL, loginClient, c.issuer.CA, strings.Join(viewers, `", "oidc:`))
}

// withLogin makes the bundle of the demo's Installer with a release of Kubernetes and more options of it, and returns its folder.
func (r delivery) withLogin(t *testing.T, name, kubernetes, options string) string {
	t.Helper()
	return r.part(t, name, func(dir string) {
		r.mirrored(t, mirror.Options{}, func() {
			r.run(t, "build", "addons/kubernetes/"+kubernetes, "--out", r.packages, "--target", "debian-12", "--config", r.config, "--cache", r.cache)
		})
		demo, err := os.ReadFile(filepath.Join(repository, "testgrid/demo/installer.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		const option = "    maxPodsPerNode: 60\n"
		installer := filepath.Join(dir, "installer.yaml")
		place(t, installer, []byte(strings.NewReplacer(current, kubernetes, option, option+options).Replace(string(demo))))
		r.consoleBundle(t, installer, dir)
	})
}

// boot boots a host whose programs reach the issuer.
func (c *consoleCluster) boot(s host.Spec) node {
	c.t.Helper()
	n := node{lab.Host(c.t, s), c.t}
	address := strings.TrimPrefix(c.issuer.URL, "https://")
	l, err := n.Listen(c.t.Context(), "tcp", address)
	if err != nil {
		c.t.Fatal(err)
	}
	c.issuers = append(c.issuers, serveTunnel(c.t, l, func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", address) }))
	c.nodes = append(c.nodes, n)
	return n
}

// ownAPI are the flags for the API server of the node itself. Its certificate names no loopback address.
const ownAPI = "--server https://localhost:6443 --tls-server-name kubernetes "

// asks lists pods as a user of the issuer until the answer is the wanted one.
func (c *consoleCluster) asks(u op.User, answer string) {
	c.t.Helper()
	token := c.issuer.Token(c.t, u)
	const list = "kubectl --kubeconfig /dev/null " + ownAPI + "--certificate-authority /etc/kubernetes/pki/ca.crt get pods --namespace kube-system --token "
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(2 * time.Second) {
		out, _ := c.nodes[0].run(list + token + " 2>&1")
		if strings.Contains(out, answer) {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("%s gets\n%s\nwant %q", u.Name, out, answer)
		}
	}
}

// The answers of the API to people.
const (
	pods         = "kube-apiserver-"
	forbidden    = "pods is forbidden: User \"oidc:"
	unauthorized = "Unauthorized"
)

// TestConsoleUpgradesThreeControlPlanes uses nothing but a browser: it uploads a bundle over two kills, upgrades the cluster while a node
// is lost, and undoes that. People log in to the console and to the API at an issuer, also when the issuer is away, and then nobody else is
// kept out.
func TestConsoleUpgradesThreeControlPlanes(t *testing.T) {
	c := newConsoleCluster(t)
	first := c.nodes[0]
	c.asks(anna, pods)
	c.asks(rita, pods)
	c.uploadOverKills()
	c.logInAtIssuer(ada)
	c.plan("upgrade-plan", "Kubernetes "+previous+" to "+current, c.nodes[0].Name(), c.nodes[1].Name(), c.nodes[2].Name())
	c.upgradeWithLostNode()
	first.runs("v"+current, 3)
	first.hasMembers(3)
	c.asks(anna, pods)
	c.asks(rita, forbidden)

	c.plan("undo-plan", "Back to Kubernetes "+previous)
	c.start("undo-start")
	if problem := c.ended(); problem != "" {
		t.Fatalf("undo: %s", problem)
	}
	first.hasNodes(3)
	first.runs("v"+previous, 3)
	first.hasMembers(3)
	c.asks(anna, pods)
	c.asks(rita, pods)

	c.withoutAPIAndIssuer()
	t.Log(first.must("sealift-console audit"))
}

// withoutAPIAndIssuer takes the API servers of all nodes away, and the issuer. The console says so, and a token logs in. The API servers
// start without the issuer.
func (c *consoleCluster) withoutAPIAndIssuer() {
	c.t.Helper()
	for _, x := range c.issuers {
		x.cut()
	}
	for _, n := range c.nodes {
		n.must("mv /etc/kubernetes/manifests/kube-apiserver.yaml /root/")
	}
	for _, n := range c.nodes {
		n.must("for i in $(seq 120); do " + kubectl + ownAPI + "--request-timeout=2s get --raw /readyz || exit 0; sleep 1; done; exit 1")
	}
	time.Sleep(16 * time.Second) // the page may be so old
	c.open("/")
	c.awaitText(".problems", "Now: The Kubernetes API does not answer", time.Minute)
	c.awaitText(".problems", "journalctl --no-pager -n 50 -u kubelet", time.Minute)
	c.run(browser.Screenshot("console-down.png"))
	browser.Accessible(c.browser, c.t)
	c.run(chromedp.Click(".who button", chromedp.ByQuery), chromedp.WaitVisible(issuerButton, chromedp.ByQuery), chromedp.Click(issuerButton, chromedp.ByQuery))
	c.awaitText(".problem", "Log in with a token until then", time.Minute)
	c.logInByToken("viewer")
	for _, n := range c.nodes {
		n.must("mv /root/kube-apiserver.yaml /etc/kubernetes/manifests/")
	}
	for _, n := range c.nodes {
		n.must("for i in $(seq 300); do " + kubectl + ownAPI + "--request-timeout=2s get --raw /readyz && exit 0; sleep 1; done; exit 1")
	}
	c.nodes[0].hasNodes(3)
	c.asks(anna, unauthorized)
	for _, x := range c.issuers {
		x.mend()
	}
	c.asks(anna, pods)
}
