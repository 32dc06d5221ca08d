//go:build grid

package airgap_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// inRegistry is an image that nodes push into the registry.
const inRegistry = "registry.registry.svc/busybox:"

// registryPassword sets the variable password in a script on a node.
const registryPassword = "password=$(KUBECONFIG=/var/tmp/admin.conf kubectl --namespace registry get secret registry-credentials -o jsonpath='{.data.password}' | base64 -d); "

// pushes tags an image of containerd and pushes it.
func (n node) pushes(tag string) {
	n.t.Helper()
	n.must(registryPassword + "ctr --namespace k8s.io images tag --force docker.io/library/busybox:1.35.0 " + inRegistry + tag + " && " +
		"ctr --namespace k8s.io images push --hosts-dir /etc/containerd/certs.d --user registry:$password " + inRegistry + tag + " && " +
		"ctr --namespace k8s.io images remove " + inRegistry + tag)
}

// pulls brings an image of the registry into containerd.
func (n node) pulls(tag string) {
	n.t.Helper()
	n.must(registryPassword + "ctr --namespace k8s.io images pull --hosts-dir /etc/containerd/certs.d --user registry:$password " + inRegistry + tag + " && " +
		"ctr --namespace k8s.io images remove " + inRegistry + tag)
}

// runsFromRegistry lets the kubelet of a node pull an image of the registry for a pod.
func (n node) runsFromRegistry(on node, tag string) {
	n.t.Helper()
	pod := "from-registry-" + on.Name()
	n.must(kubectl + "run " + pod + " --image " + inRegistry + tag + ` --image-pull-policy Always --overrides '{"spec":{"nodeName":"` + on.Name() +
		`","terminationGracePeriodSeconds":0,"imagePullSecrets":[{"name":"registry-pull"}]}}' --command -- sleep 600 && ` +
		kubectl + "wait pod/" + pod + " --for condition=Ready --timeout 180s && " + kubectl + "delete pod " + pod + " --now")
}

// keepsBundledImages starts pods without a secret on a node whose kubelet has pulled a copy of the bundle's busybox with one: the name that the
// bundle has works in each spelling, and the copy does not.
func (n node) keepsBundledImages(on node, tag string) {
	n.t.Helper()
	started := func(pod, image string) string {
		return kubectl + "run " + pod + " --image " + image + ` --image-pull-policy IfNotPresent --overrides '{"spec":{"nodeName":"` + on.Name() +
			`","terminationGracePeriodSeconds":0}}' --command -- sleep 600 && `
	}
	for pod, image := range map[string]string{"bundled": "docker.io/library/busybox:1.35.0", "short": "busybox:1.35.0"} {
		n.must(started(pod, image) + kubectl + "wait pod/" + pod + " --for condition=Ready --timeout 60s && " + kubectl + "delete pod " + pod + " --now")
	}
	n.must(started("private", inRegistry+tag) + kubectl + "wait pod/private --for jsonpath='{.status.containerStatuses[0].state.waiting.reason}'=ErrImagePull --timeout 60s && " +
		kubectl + "delete pod private --now")
}

// refusesWrongPassword tries to push and to pull with another password, and without the CA.
func (n node) refusesWrongPassword(tag string) {
	n.t.Helper()
	n.must("ctr --namespace k8s.io images tag --force docker.io/library/busybox:1.35.0 " + inRegistry + "wrong")
	n.refuses("ctr --namespace k8s.io images push --hosts-dir /etc/containerd/certs.d --user registry:wrong "+inRegistry+"wrong 2>&1", 1, "401")
	n.refuses("ctr --namespace k8s.io images pull --hosts-dir /etc/containerd/certs.d --user registry:wrong "+inRegistry+tag+" 2>&1", 1, "401")
	address := strings.TrimSpace(n.must("sed -n 's/^server = \"https:..\\(.*\\)\"/\\1/p' /etc/containerd/certs.d/registry.registry.svc/hosts.toml"))
	n.refuses(registryPassword+"ctr --namespace k8s.io images pull --user registry:$password "+address+"/busybox:"+tag+" 2>&1", 1, "certificate signed by unknown authority")
	n.must("ctr --namespace k8s.io images remove " + inRegistry + "wrong")
}

// TestRegistryServesEveryNode pushes and pulls on both nodes of a cluster, and collects the garbage of a deleted image. The page of the add-on
// is followed after an upgrade of it, to its removal.
func TestRegistryServesEveryNode(t *testing.T) {
	for where, more := range map[string][]string{"volume": nil, "object store": {"object-store"}} {
		t.Run(where, func(t *testing.T) { servesEveryNode(t, more) })
	}
}

func servesEveryNode(t *testing.T, more []string) {
	section := "  registry:\n    version: VERSION\n"
	if len(more) > 0 {
		section += "  objectStore:\n    version: latest\n"
	}
	older, newer := addOnDeliveries(t, "registry", "3.1.0", section, more...)
	without := build(t, current, "debian-12")
	first := node{lab.Host(t, host.Spec{USB: []string{older.usb, without.usb, newer.usb}}), t}
	worker := node{lab.Host(t, host.Spec{}), t}
	begin := install
	if len(more) == 0 { // the registry comes later: the agent of each node tells containerd of it
		begin = strings.Replace(install, "/media/usb", "/media/usb2", 1)
	}
	worker.must(workerCommand(t, first.must(begin)))
	first.must(kubectl + "wait --for=condition=Ready nodes --all --timeout=180s")
	if len(more) == 0 {
		first.must("sealift upgrade --bundle /media/usb/cluster.tar.gz --yes 2>&1")
		first.must(kubectl + "--namespace registry rollout status deployment/registry --timeout 180s")
		worker.within(180, "grep https /etc/containerd/certs.d/registry.registry.svc/hosts.toml")
	}
	admin := first.must("cat /etc/kubernetes/admin.conf")
	for _, n := range []node{first, worker} {
		n.must("umask 077; cat >/var/tmp/admin.conf <<'END'\n" + admin + "END")
		n.pushes(n.Name())
	}
	for _, n := range []node{first, worker} {
		for _, pushed := range []node{first, worker} {
			n.pulls(pushed.Name())
		}
		first.runsFromRegistry(n, first.Name())
		first.keepsBundledImages(n, first.Name())
		n.must("systemctl restart kubelet")
		first.keepsBundledImages(n, first.Name())
		n.refusesWrongPassword(first.Name())
	}
	first.collectsGarbage()

	t.Logf("the upgrade:\n%s", first.must("sealift upgrade --bundle /media/usb3/cluster.tar.gz --yes 2>&1"))
	first.must(kubectl + "--namespace registry rollout status deployment/registry --timeout 180s")
	for _, n := range []node{first, worker} {
		n.pulls(worker.Name())
	}
	first.must(kubectl + "get pods -A --no-headers")
	first.followsAddOn("addons/registry.md", "")
	for _, n := range []node{first, worker} {
		n.within(180, "! grep -rl /etc/kubernetes/pki/ca.crt /etc/containerd/certs.d")
		n.must("test ! -e /etc/containerd/certs.d/registry.registry.svc")
	}
	first.lacks("registry\\.registry", "secret/registry", "deployment.apps/registry", "configmap/registry", "service/registry")
}

// collectsGarbage pushes an image, and deletes it. Its layer is gone after the registry has restarted, and those of other images are there.
func (n node) collectsGarbage() {
	n.t.Helper()
	address := strings.TrimSpace(n.must(kubectl + "--namespace registry get service registry -o jsonpath={.spec.clusterIP}"))
	password := n.must("set -e; " + registryPassword + "printf %s $password")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(n.must("cat /etc/kubernetes/pki/ca.crt")))
	options := []remote.Option{
		remote.WithContext(n.t.Context()), remote.WithAuth(&authn.Basic{Username: "registry", Password: password}),
		remote.WithTransport(&http.Transport{
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return n.Dial(ctx, network, net.JoinHostPort(address, "443"))
			},
			TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true,
		}),
	}
	image, err := random.Image(1<<16, 1)
	if err != nil {
		n.t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil {
		n.t.Fatal(err)
	}
	layer, err := layers[0].Digest()
	if err != nil {
		n.t.Fatal(err)
	}
	ref, err := name.NewTag("registry.registry.svc/garbage:1")
	if err != nil {
		n.t.Fatal(err)
	}
	if err := remote.Write(ref, image, options...); err != nil {
		n.t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		n.t.Fatal(err)
	}
	has := func() error {
		l, err := remote.Layer(ref.Context().Digest(layer.String()), options...)
		if err == nil {
			_, err = l.Size()
		}
		return err
	}
	if err := has(); err != nil {
		n.t.Errorf("before: %v", err)
	}
	if err := remote.Delete(ref.Context().Digest(digest.String()), options...); err != nil {
		n.t.Fatal(err)
	}
	n.must(kubectl + "--namespace registry rollout restart deployment/registry && " + kubectl + "--namespace registry rollout status deployment/registry --timeout 180s")
	err = has()
	for end := time.Now().Add(time.Minute); err != nil && !strings.Contains(err.Error(), "404") && time.Now().Before(end); err = has() {
		time.Sleep(time.Second) // kube-proxy may not know the new pod yet
	}
	if err == nil || !strings.Contains(err.Error(), "404") {
		n.t.Errorf("the layer of a deleted image is still there: %v", err)
	}
	n.t.Logf("garbage: %s", n.must(kubectl+"--namespace registry logs deployment/registry --container garbage --tail 4"))
}
