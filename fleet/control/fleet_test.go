package control_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/fleet/agent"
	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/control"
	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/join"
	"github.com/sealift/sealift/fleet/ledger"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/registration"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/hubsetup"
	_ "github.com/sealift/sealift/internal/testing/immutable"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/render"
)

// grid is a hub with clusters, each with its own API server.
type grid struct {
	*testing.T
	cfg      *rest.Config
	client   client.Client
	kube     *kube.Cluster
	clusters map[string]dynamic.Interface
	configs  map[string]*rest.Config
	agents   map[string]*rest.Config
	keys     []signature.PublicKey // of the hub
	stops    map[string]func()
	options  control.Options // of the hub
}

func newGrid(t *testing.T, clusters ...string) *grid {
	t.Helper()
	short.Skip(t, "kube-apiservers")
	g := &grid{T: t, clusters: make(map[string]dynamic.Interface), configs: make(map[string]*rest.Config), agents: make(map[string]*rest.Config), stops: make(map[string]func())}
	var wait sync.WaitGroup
	var mu sync.Mutex
	for _, name := range append([]string{""}, clusters...) {
		wait.Go(func() {
			var controllers []string
			if name == "" {
				controllers = []string{controlplane.SigningController, "clusterrole-aggregation-controller", "garbage-collector-controller"}
			}
			cfg := controlplane.ForTest(t, controllers...)
			mu.Lock()
			defer mu.Unlock()
			g.configs[name] = cfg
		})
	}
	wait.Wait()
	if t.Failed() {
		t.FailNow()
	}
	g.cfg = g.configs[""]
	g.startHub()
	g.client = g.newClient()
	var err error
	g.kube, err = kube.Connect(g.cfg, nil)
	g.must(err)
	for _, name := range clusters {
		g.join(name)
	}
	for _, name := range clusters {
		g.eventually(name+" is available", func() string {
			var c ocm.ManagedCluster
			if err := g.client.Get(t.Context(), types.NamespacedName{Name: name}, &c); err != nil {
				return err.Error()
			}
			if len(c.Spec.Taints) > 0 || !meta.IsStatusConditionTrue(c.Status.Conditions, "ManagedClusterConditionAvailable") {
				return fmt.Sprintf("taints %v, conditions %v", c.Spec.Taints, c.Status.Conditions)
			}
			return ""
		})
	}
	return g
}

func (g *grid) newClient() client.Client {
	g.Helper()
	scheme := runtime.NewScheme()
	g.must(ocm.AddToScheme(scheme))
	g.must(caaph.AddToScheme(scheme))
	g.must(coordinationv1.AddToScheme(scheme))
	g.must(corev1.AddToScheme(scheme))
	c, err := client.New(g.cfg, client.Options{Scheme: scheme})
	g.must(err)
	return c
}

func (g *grid) must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

// start runs something until the test ends or stop is called.
func (g *grid) start(name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(g.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := run(ctx); err != nil && ctx.Err() == nil {
			g.Errorf("%s ended with %v", name, err)
		}
	}()
	g.stops[name] = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	g.Cleanup(g.stops[name])
}

func (g *grid) startHub() {
	ready := make(chan struct{})
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("FLEET_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	cfg := hubsetup.Rights(g, g.cfg, registration.Hub{Namespace: hub.DefaultNamespace, Signers: []string{"example.com/*"}})
	g.start("hub", func(ctx context.Context) error {
		return hub.Run(ctx, hub.Options{
			Config: cfg, Webhook: hub.Webhook{Listen: "127.0.0.1:0"}, Log: log,
			Controllers: []hub.Controller{control.New(g.options), func(context.Context, *hub.Hub) error {
				close(ready)
				return nil
			}},
		})
	})
	select {
	case <-ready:
	case <-time.After(2 * time.Minute):
		g.Fatal("the hub is not ready after two minutes")
	}
}

// join joins a cluster and runs its agent with the rights that it got.
func (g *grid) join(name string) {
	l, err := ledger.Open(g.kube, hub.DefaultNamespace)
	g.must(err)
	key, err := l.Key(g.Context())
	g.must(err)
	public, err := key.Public()
	g.must(err)
	text, err := join.Hub(g.Context(), g.kube, join.Cluster{Name: name, Labels: map[string]string{"name": name}, HubKey: &public})
	g.must(err)
	member, err := join.Read(text)
	g.must(err)
	cfg, err := clientcmd.RESTConfigFromKubeConfig(text)
	g.must(err)
	g.agents[name] = cfg
	g.clusters[name], err = dynamic.NewForConfig(g.configs[name])
	g.must(err)
	g.keys = member.HubKeys
	g.startAgent(name)
}

// startAgent runs the agent of a cluster until it is stopped.
func (g *grid) startAgent(name string) {
	g.start(name, func(ctx context.Context) error {
		return agent.Run(ctx, agent.Options{
			Hub: g.agents[name], Local: g.configs[name], Cluster: name, Keys: g.keys, Look: 200 * time.Millisecond, Heartbeat: time.Second,
			Log: slog.New(slog.NewTextHandler(testLog{g.T}, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
	})
}

type testLog struct{ *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	if os.Getenv("FLEET_LOG") != "" {
		fmt.Fprint(os.Stderr, string(p))
	}
	return len(p), nil
}

// apply creates objects, or changes them.
func (g *grid) apply(text string) {
	g.Helper()
	objects, err := render.Decode(strings.NewReader(text))
	g.must(err)
	for _, o := range objects {
		g.eventually("the API server has the kind "+o.GetKind(), func() string {
			err := g.client.Patch(g.Context(), o, client.Apply, client.ForceOwnership, client.FieldOwner("test")) //nolint:staticcheck // an object without a type
			if meta.IsNoMatchError(err) {
				return err.Error()
			}
			g.must(err)
			return ""
		})
	}
}

// eventually waits until a condition holds. why describes what is missing.
func (g *grid) eventually(what string, holds func() (why string)) {
	g.Helper()
	why := ""
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if why = holds(); why == "" {
			return
		}
	}
	g.Fatalf("after a minute: %s: %s\n%s", what, why, g.dump())
}

func (g *grid) dump() string {
	var out bytes.Buffer
	var addOns ocm.List[ocm.ManagedClusterAddOn]
	_ = g.client.List(context.Background(), &addOns)
	for _, a := range addOns.Items {
		fmt.Fprintf(&out, "%s/%s deleted %v finalizers %v\n", a.Namespace, a.Name, a.DeletionTimestamp, a.Finalizers)
		for _, c := range a.Status.Conditions {
			fmt.Fprintf(&out, "  %s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	var works ocm.List[ocm.ManifestWork]
	_ = g.client.List(context.Background(), &works)
	for _, w := range works.Items {
		fmt.Fprintf(&out, "%s/%s deleted %v\n", w.Namespace, w.Name, w.DeletionTimestamp)
		for _, c := range w.Status.Conditions {
			fmt.Fprintf(&out, "  %s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	var placements ocm.List[ocm.Placement]
	_ = g.client.List(context.Background(), &placements)
	for _, p := range placements.Items {
		fmt.Fprintf(&out, "placement %s %v\n", p.Name, p.Status)
	}
	var clusters ocm.List[ocm.ManagedCluster]
	_ = g.client.List(context.Background(), &clusters)
	for _, c := range clusters.Items {
		fmt.Fprintf(&out, "cluster %s %v %v\n", c.Name, c.Spec.Taints, c.Status.Conditions)
	}
	var all ocm.List[ocm.ClusterManagementAddOn]
	_ = g.client.List(context.Background(), &all)
	for _, a := range all.Items {
		fmt.Fprintf(&out, "addon %s %+v\n", a.Name, a.Status)
	}
	return out.String()
}

// has returns why an add-on on a cluster does not have a condition.
func (g *grid) has(cluster, addOn, kind, want string) string {
	var a ocm.ManagedClusterAddOn
	if err := g.client.Get(g.Context(), types.NamespacedName{Namespace: cluster, Name: addOn}, &a); err != nil {
		return err.Error()
	}
	c := meta.FindStatusCondition(a.Status.Conditions, kind)
	if c == nil {
		return cluster + " has no condition " + kind
	}
	if got := string(c.Status) + "/" + c.Reason; got != want {
		return fmt.Sprintf("%s: %s is %s: %s", cluster, kind, got, c.Message)
	}
	return ""
}

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// ready sets the status of a Deployment, since no controller runs on the clusters.
func (g *grid) ready(cluster, namespace, name string, replicas int64) string {
	client := g.clusters[cluster].Resource(deployments).Namespace(namespace)
	o, err := client.Get(g.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	status := map[string]any{"replicas": int64(1), "updatedReplicas": int64(1), "observedGeneration": o.GetGeneration()}
	if replicas > 0 {
		status["readyReplicas"], status["availableReplicas"] = replicas, replicas
		status["conditions"] = []any{
			map[string]any{"type": "Available", "status": "True"},
			map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
		}
	}
	o.Object["status"] = status
	if _, err := client.UpdateStatus(g.Context(), o, metav1.UpdateOptions{}); err != nil {
		return err.Error()
	}
	return ""
}

// exists returns an object of a cluster, or nil.
func (g *grid) exists(cluster string, resource schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	o, err := g.clusters[cluster].Resource(resource).Namespace(namespace).Get(g.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return o
}
