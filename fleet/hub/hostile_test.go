package hub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/fleet/control"
	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/join"
	"github.com/sealift/sealift/fleet/proxy"
	"github.com/sealift/sealift/fleet/registration"
	"github.com/sealift/sealift/fleet/values"
	"github.com/sealift/sealift/helm/engine"
	"github.com/sealift/sealift/helm/source"
	"github.com/sealift/sealift/internal/child"
	"github.com/sealift/sealift/internal/sandbox"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/hubsetup"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/render"
)

// hubVariable names the kubeconfig of a process that is a hub, and userVariable who it is. On SIGUSR1 it writes the size of its
// heap to the file that heapVariable names.
const hubVariable, userVariable, heapVariable = "SEALIFT_TEST_HUB", "SEALIFT_TEST_USER", "SEALIFT_TEST_HEAP"

func TestMain(m *testing.M) {
	sandbox.Main(slices.Concat(engine.Tasks(), values.Tasks(), source.Tasks())...)
	file := os.Getenv(hubVariable)
	if file == "" {
		os.Exit(m.Run())
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		for range asked {
			runtime.GC()
			var s runtime.MemStats
			runtime.ReadMemStats(&s)
			_ = os.WriteFile(os.Getenv(heapVariable), fmt.Appendln(nil, s.HeapAlloc), 0o600)
		}
	}()
	cfg, err := clientcmd.BuildConfigFromFlags("", file)
	if err == nil {
		cfg.QPS, cfg.Impersonate = -1, rest.ImpersonationConfig{UserName: os.Getenv(userVariable), Groups: []string{"system:serviceaccounts", "system:authenticated"}}
		err = hub.Run(context.Background(), hub.Options{Config: cfg, Webhook: hub.Webhook{Listen: "127.0.0.1:0"}, Controllers: []hub.Controller{
			control.New(control.Options{}), proxy.New(proxy.Options{Retry: 300 * time.Millisecond, Resync: 2 * time.Second}),
		}})
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// hostileFixture is a hub in a separate process, two clusters without agents, and an agent's credentials.
type hostileFixture struct {
	*testing.T
	admin dynamic.Interface
	kube  *kube.Cluster
	agent dynamic.Interface
	hub   *exec.Cmd
	heap  string
}

func newBattlefield(t *testing.T) (*hostileFixture, string) {
	t.Helper()
	cfg := controlplane.ForTest(t)
	b := &hostileFixture{T: t, heap: filepath.Join(t.TempDir(), "heap")}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	rights := hubsetup.Rights(t, cfg, registration.Hub{Namespace: hub.DefaultNamespace, SecretNamespaces: []string{"charts"}, Signers: []string{"example.com/*"}})
	self, err := os.Executable()
	b.must(err)
	b.must(controlplane.WriteKubeconfig(file, cfg))
	b.admin, err = dynamic.NewForConfig(cfg)
	b.must(err)
	b.kube, err = kube.Connect(cfg, nil)
	b.must(err)
	b.hub = exec.CommandContext(t.Context(), self)
	b.hub.Env = append(os.Environ(), hubVariable+"="+file, userVariable+"="+rights.Impersonate.UserName, heapVariable+"="+b.heap)
	b.hub.Stderr = os.Stderr
	wait, err := child.Start(b.hub)
	b.must(err)
	t.Cleanup(func() {
		_ = b.hub.Process.Kill()
		_ = wait()
	})
	b.eventually("the hub serves its kinds", func() string {
		for _, name := range []string{"oslo", "rome"} {
			text, err := join.Hub(t.Context(), b.kube, join.Cluster{Name: name})
			if err != nil {
				return err.Error()
			}
			if name == "oslo" {
				agent, err := clientcmd.RESTConfigFromKubeConfig(text)
				b.must(err)
				agent.QPS = -1
				b.agent, err = dynamic.NewForConfig(agent)
				b.must(err)
			}
		}
		return ""
	})
	text, err := os.ReadFile(file)
	b.must(err)
	b.must(b.apply(fixture.ClusterDefinition))
	return b, string(text)
}

func (b *hostileFixture) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *hostileFixture) eventually(what string, holds func() string) {
	b.Helper()
	why := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if why = holds(); why == "" {
			return
		}
	}
	b.Errorf("after a minute: %s:\n%s", what, why)
}

// apply applies objects as the administrator does.
func (b *hostileFixture) apply(text string) error {
	b.Helper()
	objects, err := render.Decode(strings.NewReader(text))
	b.must(err)
	for _, o := range objects {
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			on, err := b.kube.Objects(b.Context(), kube.RefOf(o))
			if err == nil {
				_, err = on.Apply(b.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "user", Force: true})
			}
			if err == nil {
				break
			}
			if !kube.Awaits(err) || time.Now().After(deadline) {
				return err
			}
		}
	}
	return nil
}

var groups = map[string]schema.GroupVersion{
	"managedclusteraddons": {Group: "addon.open-cluster-management.io", Version: "v1alpha1"}, "clustermanagementaddons": {Group: "addon.open-cluster-management.io", Version: "v1alpha1"},
	"placements": {Group: "cluster.open-cluster-management.io", Version: "v1beta1"}, "helmchartproxies": {Group: "addons.cluster.x-k8s.io", Version: "v1alpha1"},
	"helmreleaseproxies": {Group: "addons.cluster.x-k8s.io", Version: "v1alpha1"}, "certificatesigningrequests": certificatesv1.SchemeGroupVersion,
}

// status returns the status of an object, as "resource namespace name". A HelmReleaseProxy is named by its cluster.
func (b *hostileFixture) status(at string) string {
	part := strings.Fields(at)
	on := b.admin.Resource(groups[part[0]].WithResource(part[0])).Namespace(strings.Trim(part[1], "-"))
	list, err := on.List(b.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for _, o := range list.Items {
		cluster, _, _ := unstructured.NestedString(o.Object, "spec", "clusterRef", "name")
		if o.GetName() == part[2] || cluster == part[2] {
			var text bytes.Buffer
			enc := json.NewEncoder(&text)
			enc.SetEscapeHTML(false)
			b.must(enc.Encode(o.Object["status"]))
			return text.String()
		}
	}
	return at + " does not exist"
}

// commit makes a mistake, and returns how to see whether it is named.
func (b *hostileFixture) commit(m mistake, round int) (named func() string) {
	var err error
	if m.do != nil {
		err = m.do(b.agent)
	} else {
		err = b.apply(strings.ReplaceAll(m.objects, "annotations: {", fmt.Sprintf(`annotations: {round: "%d", `, round)))
	}
	switch {
	case err != nil:
		answer := err.Error()
		return func() string {
			if strings.Contains(answer, m.want) {
				return ""
			}
			return answer
		}
	case m.at == "":
		return func() string { return "it was done" }
	}
	return func() string {
		if answer := b.status(m.at); !strings.Contains(answer, m.want) {
			return answer
		}
		return ""
	}
}

// heapOf returns the size of the hub's heap after a garbage collection, in bytes.
func (b *hostileFixture) heapOf() (size int) {
	b.Helper()
	_ = os.Remove(b.heap)
	b.must(b.hub.Process.Signal(syscall.SIGUSR1))
	b.eventually("the hub tells the size of its heap", func() string {
		text, err := os.ReadFile(b.heap)
		if err == nil {
			size, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
	return size
}

// rounds is how often all mistakes are made.
const rounds = 3

// TestHubRefusesHostileResourcesAndAgents makes all mistakes at once, repeatedly. Each is refused with its reason. Beside them a good
// add-on is deployed, and the hub neither ends nor grows.
func TestHubRefusesHostileResourcesAndAgents(t *testing.T) {
	t.Parallel()
	b, own := newBattlefield(t)
	registered := ", registration: [{type: KubeClient, kubeClient: {}}, {type: CustomSigner, customSigner: {signerName: example.com/x, signingCA: {name: missing}}}]"
	b.must(b.apply(addOnOf("good", configMap("good", ""), "", "", "") + "---" + addOnOf("registered", configMap("registered", ""), registered, "", "") + "---" +
		"\napiVersion: addon.open-cluster-management.io/v1alpha1\nkind: ManagedClusterAddOn\nmetadata: {name: registered, namespace: rome}\nspec: {}\n"))
	b.eventually("the good add-on is deployed", func() string {
		_, err := b.admin.Resource(schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1", Resource: "manifestworks"}).Namespace("oslo").Get(t.Context(), "addon-good-deploy-0", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		return ""
	})
	var heaps []int
	count := 0
	for round := range rounds {
		mistakes := append(append(addOnMistakes(), chartMistakes(own)...), agentMistakes(round)...)
		named := make([]func() string, len(mistakes))
		for i, m := range mistakes {
			named[i] = b.commit(m, round)
		}
		b.eventually("all mistakes are named", func() string {
			var missing []string
			for i, m := range mistakes {
				if why := named[i](); why != "" {
					missing = append(missing, fmt.Sprintf("%s wants %q: %.600s", m.name, m.want, why))
				}
			}
			return strings.Join(missing, "\n")
		})
		count = len(mistakes)
		if t.Failed() {
			return
		}
		heaps = append(heaps, b.heapOf())
	}
	t.Logf("%d mistakes, each refused and named in %d rounds; the heap of the hub after each: %d KiB", count, rounds, kibibytes(heaps))
	for n := 0; n < 20 && heaps[rounds-1] > heaps[0]+8<<20; n++ { // a large rendering may be under way
		time.Sleep(time.Second)
		heaps[rounds-1] = b.heapOf()
	}
	if last, first := heaps[rounds-1], heaps[0]; count < 40 || last > first+8<<20 {
		t.Errorf("the heap grew from %d to %d bytes", first, last)
	}
	b.collects()
	if err := b.hub.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the hub has ended: %v", err)
	}
	client, err := kubernetes.NewForConfigAndClient(b.kube.Config())
	b.must(err)
	for _, subject := range []string{"view", "cluster-admin"} {
		list, err := client.RbacV1().RoleBindings("").List(t.Context(), metav1.ListOptions{LabelSelector: "open-cluster-management.io/addon-name"})
		b.must(err)
		for _, binding := range list.Items {
			if binding.RoleRef.Name == subject {
				t.Errorf("somebody got role %s in %s", subject, binding.Namespace)
			}
		}
	}
}

// collects changes the owner of a work as the garbage collector does when it makes an orphan.
func (b *hostileFixture) collects() {
	b.Helper()
	cfg, _ := b.kube.Config()
	cfg = rest.CopyConfig(cfg)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:generic-garbage-collector", Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	collector, err := dynamic.NewForConfig(cfg)
	b.must(err)
	work := schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1", Resource: "manifestworks"}
	for _, owners := range []string{`[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]`, "null"} {
		_, err = collector.Resource(work).Namespace("oslo").Patch(b.Context(), "addon-good-deploy-0", types.MergePatchType, []byte(`{"metadata":{"ownerReferences":`+owners+`}}`), metav1.PatchOptions{})
		if err != nil {
			b.Errorf("the garbage collector is refused: %v", err)
		}
	}
}

func kibibytes(sizes []int) (list []int) {
	for _, s := range sizes {
		list = append(list, s>>10)
	}
	return list
}
