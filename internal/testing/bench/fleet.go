package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/testgrid/lab/daemon"
)

// fleetAddOns is how many add-ons each cluster has. fleetAtOnce is how many concurrent writes the reference, the fake agents and a
// hub make.
const fleetAddOns, fleetAtOnce = 3, 24

// fleetQuiet is how long no write happens before a fleet counts as idle, and fleetIdle how long its requests are then counted.
const fleetQuiet, fleetIdle = 10 * time.Second, 30 * time.Second

var (
	fleetWorks    = schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1", Resource: "manifestworks"}
	fleetClusters = schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"}
	fleetConfigs  = schema.GroupVersionResource{Group: "addon.open-cluster-management.io", Version: "v1alpha1", Resource: "addondeploymentconfigs"}

	fleetTemplates     = fleetConfigs.GroupVersion().WithResource("addontemplates")
	fleetClusterAddOns = fleetConfigs.GroupVersion().WithResource("managedclusteraddons")
	fleetAddOnKind     = fleetConfigs.GroupVersion().WithResource("clustermanagementaddons")
	fleetPlacements    = schema.GroupVersionResource{Group: fleetClusters.Group, Version: "v1beta1", Resource: "placements"}
	fleetBindings      = schema.GroupVersionResource{Group: fleetClusters.Group, Version: "v1beta2", Resource: "managedclustersetbindings"}
)

// fleetBench is a hub, and a fleet without agents: this program reports works as applied.
type fleetBench struct {
	sealift, dir string
	clusters     int
	plane        *controlplane.ControlPlane
	client       dynamic.Interface // straight to the API server
	counted      *counter
	hub          *daemon.Daemon
	most         int64  // bytes of memory that it has had
	webhooks     string // where the hub listens; a new address for each start would change the definitions
}

// fleet measures a hub with a large fleet.
func (b *bench) fleet(ctx context.Context, clusters int) (err error) {
	f := &fleetBench{sealift: b.sealift, dir: b.dir.File("fleet"), clusters: clusters}
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return err
	}
	if f.plane, err = controlplane.Start(ctx, controlplane.Options{Arguments: []string{"--max-requests-inflight=0", "--max-mutating-requests-inflight=0", "--enable-priority-and-fairness=false"}}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.plane.Stop()) }()
	if f.client, err = dynamic.NewForConfig(f.plane.Config()); err != nil {
		return err
	}
	if f.counted, err = newCounter(f.plane.Config()); err != nil {
		return err
	}
	defer f.counted.server.Close()
	if f.webhooks, err = daemon.FreeAddress(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	if err := f.start(ctx); err != nil {
		return err
	}
	fmt.Printf("%d clusters with %d add-ons\n", clusters, fleetAddOns)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, step := range []func(context.Context) error{f.populate, f.rollOut, f.idle, f.restart} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// start starts the hub behind the counter, and waits until it serves its kinds.
func (f *fleetBench) start(ctx context.Context) error {
	kubeconfig := filepath.Join(f.dir, "kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, &rest.Config{Host: f.counted.server.URL}); err != nil {
		return err
	}
	var err error
	f.hub, err = daemon.Start(daemon.Command{
		Path: f.sealift, Args: []string{"fleet", "hub", "--kubeconfig", kubeconfig, "--listen", f.webhooks}, Log: filepath.Join(f.dir, "hub.log"),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return f.hub.WaitReady(ctx, f.served)
}

// served fails unless the API server serves all kinds of the fleet.
func (f *fleetBench) served(ctx context.Context) error {
	for _, kind := range []schema.GroupVersionResource{fleetWorks, fleetClusters, fleetConfigs, fleetBindings, fleetPlacements, fleetTemplates, fleetAddOnKind} {
		if _, err := f.client.Resource(kind).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			return err
		}
	}
	return nil
}

// stop ends the hub, and notes how much memory it had.
func (f *fleetBench) stop() error {
	if f.hub == nil {
		return nil
	}
	peak, err := daemon.PeakMemory(f.hub.PID())
	f.most = max(f.most, peak)
	f.hub.Stop()
	f.hub = nil
	return err
}

// object reads an object from JSON.
func object(format string, args ...any) (*unstructured.Unstructured, error) {
	o := new(unstructured.Unstructured)
	return o, o.UnmarshalJSON(fmt.Appendf(nil, format, args...))
}

// put applies an object, and its status if it has one.
func (f *fleetBench) put(ctx context.Context, r schema.GroupVersionResource, o *unstructured.Unstructured) error {
	options := metav1.ApplyOptions{FieldManager: "bench", Force: true}
	on := f.client.Resource(r).Namespace(o.GetNamespace())
	status := o.DeepCopy()
	_, err := on.Apply(ctx, o.GetName(), o, options)
	if err == nil && status.Object["status"] != nil {
		_, err = on.ApplyStatus(ctx, o.GetName(), status, options)
	}
	return err
}

// configure sets a version of all add-ons.
func (f *fleetBench) configure(ctx context.Context, version string) error {
	for n := range fleetAddOns {
		o, err := object(`{"apiVersion":"addon.open-cluster-management.io/v1alpha1","kind":"AddOnDeploymentConfig","metadata":{"name":"bench-%d","namespace":"default"},
			"spec":{"agentInstallNamespace":"","customizedVariables":[{"name":"VERSION","value":%q}]}}`, n, version)
		if err == nil {
			err = f.put(ctx, fleetConfigs, o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// populate makes the fleet, and waits until all add-ons are installed everywhere.
func (f *fleetBench) populate(ctx context.Context) error {
	go f.agents(ctx)
	group, making := errgroup.WithContext(ctx)
	group.SetLimit(fleetAtOnce)
	for n := range f.clusters {
		group.Go(func() error {
			ns, err := object(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"cluster-%04d"}}`, n)
			if err == nil {
				err = f.put(making, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, ns)
			}
			if err != nil {
				return err
			}
			now := time.Now().UTC().Format(time.RFC3339)
			c, err := object(`{"apiVersion":"cluster.open-cluster-management.io/v1","kind":"ManagedCluster","metadata":{"name":"cluster-%04d"},"spec":{"hubAcceptsClient":true,"leaseDurationSeconds":36000},
				"status":{"conditions":[{"type":"ManagedClusterConditionAvailable","status":"True","reason":"Bench","message":"","lastTransitionTime":%q}]}}`, n, now)
			if err != nil {
				return err
			}
			return f.put(making, fleetClusters, c)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := f.configure(ctx, "0"); err != nil {
		return err
	}
	placement, err := object(`{"apiVersion":"cluster.open-cluster-management.io/v1beta1","kind":"Placement","metadata":{"name":"all","namespace":"default"},"spec":{}}`)
	if err != nil {
		return err
	}
	binding, err := object(`{"apiVersion":"cluster.open-cluster-management.io/v1beta2","kind":"ManagedClusterSetBinding","metadata":{"name":"global","namespace":"default"},"spec":{"clusterSet":"global"}}`)
	if err != nil {
		return err
	}
	begin := time.Now()
	err = errors.Join(f.put(ctx, fleetBindings, binding),
		f.put(ctx, fleetPlacements, placement))
	for n := range fleetAddOns {
		err = errors.Join(err, f.addOn(ctx, n))
	}
	if err == nil {
		err = f.wait(ctx, "0")
	}
	if err != nil {
		return err
	}
	fmt.Printf("  installed everywhere after %s\n", time.Since(begin).Round(100*time.Millisecond))
	return f.counted.waitIdle(ctx)
}

func (f *fleetBench) addOn(ctx context.Context, n int) error {
	template, err := object(`{"apiVersion":"addon.open-cluster-management.io/v1alpha1","kind":"AddOnTemplate","metadata":{"name":"bench-%d"},"spec":{"addonName":"bench-%[1]d","agentSpec":{"workload":{"manifests":[
		{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bench-%[1]d","namespace":"default"},"data":{"version":"version-{{VERSION}}","cluster":"{{CLUSTER_NAME}}"}}]}}}}`, n)
	if err == nil {
		err = f.put(ctx, fleetTemplates, template)
	}
	if err != nil {
		return err
	}
	addOn, err := object(`{"apiVersion":"addon.open-cluster-management.io/v1alpha1","kind":"ClusterManagementAddOn","metadata":{"name":"bench-%d"},"spec":{"supportedConfigs":[
		{"group":"addon.open-cluster-management.io","resource":"addontemplates","defaultConfig":{"name":"bench-%[1]d"}},
		{"group":"addon.open-cluster-management.io","resource":"addondeploymentconfigs","defaultConfig":{"name":"bench-%[1]d","namespace":"default"}}],
		"installStrategy":{"type":"Placements","placements":[{"name":"all","namespace":"default"}]}}}`, n)
	if err != nil {
		return err
	}
	return f.put(ctx, fleetAddOnKind, addOn)
}

// rollOut changes the configuration of all add-ons, and compares that with the same patches of plain client-go.
func (f *fleetBench) rollOut(ctx context.Context) error {
	works := f.clusters * fleetAddOns
	f.counted.take()
	begin := time.Now()
	if err := errors.Join(f.configure(ctx, "1"), f.wait(ctx, "1")); err != nil {
		return err
	}
	// The answers to the last writes are compared. This program's watch is later than that on a busy machine.
	hub := f.counted.end("manifestworks").Sub(begin)
	if err := f.counted.waitIdle(ctx); err != nil {
		return err
	}
	kinds := f.counted.byKind()
	_, writes, _ := f.counted.take()
	if err := f.completed(ctx); err != nil {
		return err
	}
	// Nobody reverts the writes of the reference.
	if err := f.stop(); err != nil {
		return err
	}
	plain, err := f.reference(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("  from a change to the last work: %s; plain client-go writes the same patches in %s: %.2f times\n", hub.Round(10*time.Millisecond), plain.Round(10*time.Millisecond), hub.Seconds()/plain.Seconds())
	fmt.Printf("  writes for each cluster and rollout: %.2f; all: %s\n", float64(writes)/float64(works), kinds)
	if err := f.start(ctx); err != nil {
		return err
	}
	if err := f.wait(ctx, "1"); err != nil { // it has reverted foreign changes
		return err
	}
	return f.counted.waitIdle(ctx)
}

// reference has plain client-go write the patches that a cluster gets in a rollout until its work is written: the status of the add-on,
// which names the new configuration, and the work. They take the same path as those of the hub, through the counter.
func (f *fleetBench) reference(ctx context.Context) (took time.Duration, err error) {
	works, err := f.client.Resource(fleetWorks).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	addOns, err := f.client.Resource(fleetClusterAddOns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	status := make(map[string][]byte)
	for _, a := range addOns.Items {
		text, err := json.Marshal(map[string]any{"status": a.Object["status"]})
		if err != nil {
			return 0, err
		}
		status[a.GetNamespace()+"/"+a.GetName()] = bytes.ReplaceAll(text, []byte(`"specHash":"`), []byte(`"specHash":"reference-`))
	}
	client, err := dynamic.NewForConfig(&rest.Config{Host: f.counted.server.URL, QPS: -1})
	if err != nil {
		return 0, err
	}
	group, writing := errgroup.WithContext(ctx)
	group.SetLimit(fleetAtOnce)
	begin := time.Now()
	for i := range works.Items {
		w := &works.Items[i]
		group.Go(func() error {
			addOn := w.GetLabels()["open-cluster-management.io/addon-name"]
			_, err := client.Resource(fleetClusterAddOns).Namespace(w.GetNamespace()).Patch(writing, addOn, types.MergePatchType, status[w.GetNamespace()+"/"+addOn], metav1.PatchOptions{}, "status")
			if err != nil {
				return err
			}
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"bench":%q}},"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bench","namespace":"default"},"data":{"version":"version-2","cluster":%q}}]}}}`,
				w.GetAnnotations()["fleet.sealift.dev/signature"], w.GetNamespace())
			_, err = client.Resource(fleetWorks).Namespace(w.GetNamespace()).Patch(writing, w.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		})
	}
	err = group.Wait()
	return time.Since(begin), err
}

// idle counts the requests of a hub at rest.
func (f *fleetBench) idle(ctx context.Context) error {
	f.counted.take()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(fleetIdle):
	}
	requests, writes, leases := f.counted.take()
	fmt.Printf("  at rest: %.2f requests/s, %.2f of them for Leases; %d writes in %s\n", float64(requests)/fleetIdle.Seconds(), float64(leases)/fleetIdle.Seconds(), writes, fleetIdle)
	return nil
}

// restart ends the hub and starts it again.
func (f *fleetBench) restart(ctx context.Context) error {
	if err := f.stop(); err != nil {
		return err
	}
	fmt.Printf("  the hub had %d MiB at most\n", f.most>>20)
	f.counted.take()
	if err := f.start(ctx); err != nil {
		return err
	}
	time.Sleep(fleetIdle) // it has looked at everything
	_, writes, _ := f.counted.take()
	fmt.Printf("  writes after a restart: %d; the Event of its election is among them\n", writes)
	return nil
}
