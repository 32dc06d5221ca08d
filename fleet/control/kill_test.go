package control_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/control"
	"github.com/sealift/sealift/fleet/hub"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/values"
	"github.com/sealift/sealift/helm/engine"
	"github.com/sealift/sealift/helm/source"
	"github.com/sealift/sealift/internal/child"
	"github.com/sealift/sealift/internal/sandbox"
	"github.com/sealift/sealift/internal/testing/controlplane"
)

// hubVariable names the kubeconfig of a process that is a hub.
const hubVariable = "SEALIFT_TEST_HUB"

// TestMain lets this binary be a hub, or the command of a carried cluster, that can be killed.
func TestMain(m *testing.M) {
	sandbox.Main(slices.Concat(engine.Tasks(), values.Tasks(), source.Tasks())...)
	if os.Getenv(carriedVariable) != "" {
		os.Exit(applyParcel())
	}
	file := os.Getenv(hubVariable)
	if file == "" {
		os.Exit(m.Run())
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", file)
	if err == nil {
		o := hub.Options{Config: cfg, Webhook: hub.Webhook{Listen: "127.0.0.1:0"}, LeaseDuration: 4 * time.Second, Controllers: []hub.Controller{control.New(control.Options{})}}
		if name := os.Getenv(diaryVariable); name != "" {
			o.LeaseDuration, err = time.ParseDuration(os.Getenv(leaseVariable))
			o.Controllers = append(o.Controllers, workLog(name))
		}
		if err == nil {
			err = hub.Run(context.Background(), o)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	time.Sleep(100 * time.Millisecond)
	// On a busy machine it may lose its Lease, and ends then. A kubelet would start it again.
	fmt.Fprintln(os.Stderr, syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
	os.Exit(1)
}

// killable starts a hub in its own process, with more variables.
func (g *grid) killable(kubeconfig string, variables ...string) (pid int, kill func()) {
	g.Helper()
	self, err := os.Executable()
	g.must(err)
	cmd := exec.CommandContext(g.Context(), self)
	cmd.Env = append(append(os.Environ(), hubVariable+"="+kubeconfig), variables...)
	cmd.Stderr = testLog{g.T}
	wait, err := child.Start(cmd)
	g.must(err)
	return cmd.Process.Pid, func() {
		_ = cmd.Process.Kill()
		_ = wait()
	}
}

// fleetSize is how many clusters there are, and atOnce how many may roll out at once.
const fleetSize, atOnce = 12, 2

// TestKilledHubResumes kills the hub at random moments of progressive rollouts. Agents are simulated: they report a work as
// applied some time after it arrived.
func TestKilledHubResumes(t *testing.T) {
	t.Parallel()
	killHub(t, 3)
}

// killHub kills the hub n times.
func killHub(t *testing.T, kills int) {
	g := &grid{T: t, stops: make(map[string]func())}
	g.cfg = controlplane.ForTest(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	g.must(controlplane.WriteKubeconfig(kubeconfig, g.cfg))
	_, kill := g.killable(kubeconfig)
	defer func() { kill() }()
	names := g.rolledOut()

	most := make(chan int, 1)
	g.start("watcher", func(ctx context.Context) error {
		most <- g.watch(ctx)
		return nil
	})
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	version := 1
	g.apply(fmt.Sprintf(config, strconv.Itoa(version)))
	for range kills {
		time.Sleep(time.Duration(random.IntN(2500)) * time.Millisecond)
		kill()
		_, kill = g.killable(kubeconfig)
		if g.all(names) == "" { // that rollout is over: start the next one
			version++
			g.apply(fmt.Sprintf(config, strconv.Itoa(version)))
		}
	}
	g.eventually("all have the last version", func() string { return g.all(names) })
	g.stops["watcher"]()
	seen := <-most
	t.Logf("%d kills, %d rollouts over %d clusters, at most %d of %d at work at once (seed %d)", kills, version, fleetSize, seen, atOnce, seed)
	if seen > atOnce || seen == 0 {
		t.Errorf("%d clusters were at work at once, at most %d may be", seen, atOnce)
	}
}

// rolledOut makes a fleet that has the first version of the add-on.
func (g *grid) rolledOut() (names []string) {
	g.client = g.newClient()
	names = g.fleet()
	g.start("agents", func(ctx context.Context) error { return g.simulate(ctx, names) })
	g.apply(fmt.Sprintf(config, "0"))
	g.eventually("all have the first version", func() string { return g.all(names) })
	return names
}

// fleet makes the clusters of a fleet, and the add-on simple.
func (g *grid) fleet() []string {
	g.Helper()
	names := make([]string, fleetSize)
	var objects strings.Builder
	for i := range names {
		names[i] = fmt.Sprintf("c%02d", i)
		fmt.Fprintf(&objects, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n---\napiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata: {name: %[1]s}\nspec: {hubAcceptsClient: true}\n---\n", names[i])
	}
	g.apply(objects.String() + simple)
	return names
}

// simple is hello with one object that is available at once.
var simple = strings.ReplaceAll(hello[:strings.Index(hello, "      - apiVersion: apps/v1")], "decisionGroups: [{groupName: canary, groupClusterSelector: {labelSelector: {matchLabels: {name: rome}}}}]", "clustersPerDecisionGroup: 100%") + `      - apiVersion: v1
        kind: ConfigMap
        metadata: {name: stays, namespace: default}
        data: {version: "{{VERSION}}"}
---` + strings.ReplaceAll(addOn, "{maxConcurrency: 1, mandatoryDecisionGroups: [{groupName: canary}]}", fmt.Sprintf("{maxConcurrency: %d}", atOnce))

// all returns a cluster that does not have the present configuration.
func (g *grid) all(names []string) string {
	var addOn ocm.ClusterManagementAddOn
	if err := g.client.Get(g.Context(), types.NamespacedName{Name: "hello"}, &addOn); err != nil {
		return err.Error()
	}
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(ocm.AddOnVersion.String())
	object.SetKind("AddOnDeploymentConfig")
	if err := g.client.Get(g.Context(), types.NamespacedName{Namespace: "default", Name: "hello"}, object); err != nil {
		return err.Error()
	}
	variables, _, _ := unstructured.NestedSlice(object.Object, "spec", "customizedVariables")
	want := fmt.Sprint(variables[0].(map[string]any)["value"])
	for _, name := range names {
		if why := g.has(name, "hello", "Progressing", "False/Completed"); why != "" {
			return why
		}
		var work ocm.ManifestWork
		if err := g.client.Get(g.Context(), types.NamespacedName{Namespace: name, Name: "addon-hello-deploy-0"}, &work); err != nil {
			return err.Error()
		}
		if got := fmt.Sprint(work.Spec.Workload.Manifests[0]["data"]); got != fmt.Sprint(map[string]any{"version": want}) {
			return name + " has " + got + ", and not " + want
		}
	}
	return ""
}

// simulate plays the agents until ctx ends.
func (g *grid) simulate(ctx context.Context, names []string) error {
	for _, name := range names {
		var c ocm.ManagedCluster
		if err := g.client.Get(ctx, types.NamespacedName{Name: name}, &c); err != nil {
			return err
		}
		after := c.DeepCopyObject().(*ocm.ManagedCluster)
		meta.SetStatusCondition(&after.Status.Conditions, metav1.Condition{Type: "ManagedClusterConditionAvailable", Status: "True", Reason: "Test"})
		if err := g.client.Status().Patch(ctx, after, client.MergeFrom(&c)); err != nil {
			return err
		}
	}
	came := make(map[string]time.Time)
	for ctx.Err() == nil {
		var works ocm.List[ocm.ManifestWork]
		if err := g.client.List(ctx, &works); err != nil {
			continue
		}
		for i := range works.Items {
			w := &works.Items[i]
			c := meta.FindStatusCondition(w.Status.Conditions, "Applied")
			if c != nil && c.ObservedGeneration == w.Generation {
				continue
			}
			key := fmt.Sprint(w.Namespace, w.Generation)
			if came[key].IsZero() {
				came[key] = time.Now()
			}
			if time.Since(came[key]) < 100*time.Millisecond {
				continue
			}
			after := w.DeepCopyObject().(*ocm.ManifestWork)
			for _, kind := range []string{"Applied", "Available"} {
				meta.SetStatusCondition(&after.Status.Conditions, metav1.Condition{Type: kind, Status: "True", Reason: "Test", ObservedGeneration: w.Generation})
			}
			_ = g.client.Status().Patch(ctx, after, client.MergeFrom(w))
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// watch returns the maximum number of clusters that rolled out at once: those whose work is not applied, or whose add-on is not
// done.
func (g *grid) watch(ctx context.Context) int {
	most := 0
	for ctx.Err() == nil {
		var addOns ocm.List[ocm.ManagedClusterAddOn]
		if err := g.client.List(ctx, &addOns); err != nil {
			continue
		}
		busy := 0
		for _, a := range addOns.Items {
			for _, ref := range a.Status.ConfigReferences {
				if ref.LastAppliedConfig == nil || *ref.LastAppliedConfig != *ref.DesiredConfig {
					busy++
					break
				}
			}
		}
		most = max(most, busy)
	}
	return most
}
