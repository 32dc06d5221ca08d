//go:build grid

package upstreamfiles

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// onlyFriends lets pods with the label app=friend reach those with app=web.
const onlyFriends = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: default}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress: [{from: [{podSelector: {matchLabels: {app: friend}}}]}]
`

// policed is a node that is a network namespace of this machine. Its pods are namespaces behind it.
type policed struct {
	running
	prefix  string // of the names of namespaces
	program string
	script  string // of the add-on's container
	args    []string
}

// TestNetworkPoliciesAreEnforced runs the program of the add-on as its DaemonSet does, with the add-on's rights in the API. Nothing is refused
// without policies, and no rule stays when the kubelet ends the program.
func TestNetworkPoliciesAreEnforced(t *testing.T) {
	n := startsPolicedNode(t)
	for address, app := range map[string]string{"10.244.0.2": "web", "10.244.0.3": "friend", "10.244.0.4": "stranger"} {
		n.addPod(app, address)
	}
	n.serves("web", "10.244.0.2:8080")

	program := n.startsProgram()
	n.within("the table is made", func() bool { return strings.Contains(n.tables(), "kube-network-policies") })
	for _, pod := range []string{"friend", "stranger", "node"} {
		if !n.reaches(pod) {
			t.Errorf("%s does not reach the pod, and there is no policy", pod)
		}
	}
	n.changesPolicy(onlyFriends)
	n.within("the policy refuses the stranger", func() bool { return !n.reaches("stranger") })
	if !n.reaches("friend") || !n.reaches("node") {
		t.Error("the friend or the kubelet does not reach the pod, and the policy allows both")
	}
	n.changesPolicy("")
	n.within("the stranger reaches the pod without the policy", func() bool { return n.reaches("stranger") })

	n.changesPolicy(onlyFriends)
	n.within("the policy refuses the stranger again", func() bool { return !n.reaches("stranger") })
	_ = program.Process.Signal(syscall.SIGTERM)
	if err := program.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
	if left := n.tables(); left != "" {
		t.Errorf("left in the kernel: %s", left)
	}
	if !n.reaches("stranger") {
		t.Error("the stranger does not reach the pod, and no program is there")
	}

	program = n.startsProgram()
	n.within("the policy refuses the stranger once more", func() bool { return !n.reaches("stranger") })
	_ = syscall.Kill(-program.Process.Pid, syscall.SIGKILL)
	_ = program.Wait()
	if !strings.Contains(n.tables(), "kube-network-policies") || !n.reaches("stranger") {
		t.Error("after a kill the table is gone, or it refuses connections")
	}
}

// startsPolicedNode has an API server with the objects of the add-on, and the namespace of the node, in which the API server is reached.
func startsPolicedNode(t *testing.T) policed {
	t.Helper()
	const name = "kube-network-policies"
	n := policed{running: serves(t, row{}, controlplane.Options{}), prefix: fmt.Sprintf("policed-%d-", os.Getpid())}
	n.program = n.running.program(upstream.FileOf{Component: name + "-v" + releases.Newest(name).Version, Name: "netpol"})
	objects := builtByHooks(t, hooksRun{name: name})
	n.applies(name, objects)
	for _, o := range objects {
		if o.GetKind() == "DaemonSet" {
			containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			command, _, _ := unstructured.NestedStringSlice(containers[0].(map[string]any), "command")
			n.script = strings.ReplaceAll(command[2], "/bin/netpol", n.program)
			n.args, _, _ = unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
		}
	}
	n.namespace("node")
	n.ip("netns exec NSnode sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'")
	return n
}

// ip runs the command ip, in which NS stands for the prefix of namespaces.
func (n policed) ip(args string) {
	n.Helper()
	if out, err := exec.CommandContext(n.Context(), "sh", "-c", "ip "+strings.ReplaceAll(args, "NS", n.prefix)).CombinedOutput(); err != nil {
		n.Fatalf("ip %s: %v: %s", args, err, out)
	}
}

func (n policed) namespace(name string) {
	n.Helper()
	n.ip("netns add NS" + name)
	n.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", n.prefix+name).Run() })
	n.ip("-n NS" + name + " link set lo up")
}

// addPod makes a pod, in the API and as a namespace.
func (n policed) addPod(app, address string) {
	n.Helper()
	n.namespace(app)
	n.ip("-n NSnode link add " + app + " type veth peer name eth0 netns NS" + app)
	n.ip("-n NSnode address add 169.254.1.1/32 dev " + app)
	n.ip("-n NSnode link set " + app + " up")
	n.ip("-n NSnode route add " + address + "/32 dev " + app)
	n.ip("-n NS" + app + " address add " + address + "/32 dev eth0")
	n.ip("-n NS" + app + " link set eth0 up")
	n.ip("-n NS" + app + " route add 169.254.1.1 dev eth0")
	n.ip("-n NS" + app + " route add default via 169.254.1.1")
	controlplane.Apply(n.T, n.cluster, fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: default, labels: {app: %[1]s}}\nspec: {nodeName: node-1, containers: [{name: a, image: a}]}\n", app))
	status := fmt.Sprintf(`{"status": {"phase": "Running", "podIP": %q, "podIPs": [{"ip": %[1]q}]}}`, address)
	pods := n.cluster.Dynamic().Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace("default")
	if _, err := pods.Patch(n.Context(), app, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		n.Fatal(err)
	}
}

// in calls do in a namespace. Sockets that it opens stay there.
func (n policed) in(namespace string, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		f, err := os.Open(filepath.Join("/run/netns", n.prefix+namespace))
		if err == nil {
			err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
			f.Close()
		}
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}

// listens serves connections of a namespace until the test ends.
func (n policed) listens(namespace, address string, serve func(net.Conn)) net.Addr {
	n.Helper()
	var l net.Listener
	if err := n.in(namespace, func() (err error) { l, err = net.Listen("tcp", address); return err }); err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l.Addr()
}

// serves answers connections of a pod.
func (n policed) serves(namespace, address string) {
	n.Helper()
	n.listens(namespace, address, func(c net.Conn) { _, _ = io.WriteString(c, "reached"); _ = c.Close() })
}

// reaches reports whether the pod answers from a namespace.
func (n policed) reaches(from string) bool {
	err := n.in(from, func() error {
		c, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(n.Context(), "tcp4", "10.244.0.2:8080")
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(2 * time.Second))
		_, err = io.ReadAll(c)
		return err
	})
	return err == nil
}

// startsProgram runs what the container of the DaemonSet runs, with the token of its account.
func (n policed) startsProgram() *exec.Cmd {
	n.Helper()
	cfg, client := n.cluster.Config()
	api, err := url.Parse(cfg.Host)
	if err != nil {
		n.Fatal(err)
	}
	relay := n.listens("node", "127.0.0.1:0", func(c net.Conn) {
		defer c.Close()
		to, err := net.Dial("tcp", api.Host)
		if err != nil {
			return
		}
		defer to.Close()
		go func() { _, _ = io.Copy(to, c); _ = to.Close() }()
		_, _ = io.Copy(c, to)
	})
	set, err := kubernetes.NewForConfigAndClient(cfg, client)
	if err != nil {
		n.Fatal(err)
	}
	token, err := set.CoreV1().ServiceAccounts("kube-system").CreateToken(n.Context(), "kube-network-policies", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		n.Fatal(err)
	}
	account := n.TempDir()
	for name, content := range map[string][]byte{"token": []byte(token.Status.Token), "ca.crt": cfg.CAData} {
		if err := os.WriteFile(filepath.Join(account, name), content, 0o600); err != nil {
			n.Fatal(err)
		}
	}
	_, port, _ := net.SplitHostPort(relay.String())
	const inPod = `set -e; mount -t tmpfs none /run; mkdir -p /run/secrets/kubernetes.io; cp -r "$1" /run/secrets/kubernetes.io/serviceaccount; script=$2; shift 2; exec sh -c "$script" netpol "$@"`
	args := append([]string{"netns", "exec", n.prefix + "node", "sh", "-c", inPod, "sh", account, n.script}, n.args...)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "$(NODE_NAME)", "node-1")
	}
	cmd := exec.CommandContext(n.Context(), "ip", args...)
	cmd.Env = append(os.Environ(), "KUBERNETES_SERVICE_HOST=127.0.0.1", "KUBERNETES_SERVICE_PORT="+port)
	cmd.Stdout, cmd.Stderr = n.Output(), n.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	return cmd
}

// tables lists those of nftables in the node.
func (n policed) tables() string {
	n.Helper()
	out, err := exec.CommandContext(n.Context(), "ip", "netns", "exec", n.prefix+"node", "nft", "list", "tables").CombinedOutput()
	if err != nil {
		n.Fatalf("nft list tables: %v: %s", err, out)
	}
	return string(out)
}

// changesPolicy makes a policy, or deletes that of the test.
func (n policed) changesPolicy(text string) {
	n.Helper()
	if text != "" {
		controlplane.Apply(n.T, n.cluster, text)
		return
	}
	policies := n.cluster.Dynamic().Resource(schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}).Namespace("default")
	if err := policies.Delete(n.Context(), "web", metav1.DeleteOptions{}); err != nil {
		n.Fatal(err)
	}
}

func (n policed) within(what string, is func() bool) {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Context(), 2*time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		if is() {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	n.Fatalf("not within two minutes: %s", what)
}
