package install

import (
	"context"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
)

// adopted is a node with the standard add-ons that another installer made.
func adopted(t *testing.T, first bool) *Install {
	t.Helper()
	i := made(t, standard(t)...)
	if !first {
		i.options.Join = &Join{Cluster: share.Cluster{Endpoint: balancer.Endpoint}}
	}
	records := Adopted{First: first, Kubernetes: "1", Networks: node.ClusterNetworks{Pods: "10.1.0.0/20", Services: "10.2.0.0/22"},
		AddOns: []node.AddOn{{Name: "containerd", Version: "1"}, {Name: "flannel", Version: "0.9"}}}.Records()
	if _, err := lifecycle.Run(t.Context(), lifecycle.Adopting, records, i.Journal, func(lifecycle.Event) {}); err != nil {
		t.Fatal(err)
	}
	return i
}

func TestUpgradeReplacesForeignFiles(t *testing.T) {
	for first, want := range map[bool]string{
		true:  "containerd/install kubernetes/host kubernetes/kubelet",
		false: "containerd/install flannel/join kubernetes/host kubernetes/kubelet",
	} {
		i := adopted(t, first)
		i.options.Upgrade = &Upgrade{From: "1", Leads: first}
		i.plan = i.makePlan()
		if got := pendingIn(i, lifecycle.Kubelet); !strings.HasSuffix(got, want) {
			t.Errorf("first %t: the kubelet's phase has %s, want %s", first, got, want)
		}
		if !i.Replaces() {
			t.Error("pods would stay on a node whose kubelet and container runtime are replaced")
		}
		var changes []string
		for _, c := range i.Changes() {
			changes = append(changes, c.String())
		}
		got := strings.Join(changes, "; ")
		for _, want := range []string{"containerd 1 of another installer is replaced by that of the bundle", "flannel 0.9 -> 1", "kubernetes 1 of another installer", "sysctl 1 is new"} {
			if !strings.Contains(got, want) {
				t.Errorf("first %t: the changes are %s, want %s", first, got, want)
			}
		}
		if rec, made := i.networksOfCluster(); made != first || first && rec.State[node.PodNetwork] != "10.1.0.0/20" {
			t.Errorf("first %t: the networks are %v", first, rec.State)
		}
		for _, a := range i.addOns { // the upgrade finishes
			finish(t, i, lifecycle.Upgrading, a.name()+"/"+filesStep, lifecycle.State{addOnVersion: "1"})
			finish(t, i, lifecycle.Upgrading, a.name()+"/"+installStep, nil)
		}
		finish(t, i, lifecycle.Upgrading, node.KubeletStep, nil)
		for name, has := range i.runningAddOns() {
			if has.adopted || has.version != "1" {
				t.Errorf("first %t: after the upgrade %s is %+v", first, name, has)
			}
		}
	}
}

func finish(t *testing.T, i *Install, operation lifecycle.Operation, id string, state lifecycle.State) {
	t.Helper()
	addOn, _, _ := strings.Cut(id, "/")
	step := lifecycle.Step{ID: id, AddOn: addOn, Inputs: "of the upgrade", Timeout: shortTime, Run: func(context.Context) (lifecycle.State, error) { return state, nil }}
	if _, err := lifecycle.Run(t.Context(), operation, lifecycle.Plan{step}, i.Journal, func(lifecycle.Event) {}); err != nil {
		t.Fatal(err)
	}
}

func TestInstallChangesNoAdoptedNode(t *testing.T) {
	i := adopted(t, true)
	err := i.checkRunning()
	if err == nil {
		t.Fatal("an install would replace the kubelet of another installer below its pods")
	}
	for _, want := range []string{"containerd: version 1 on this node is the one of another installer", "kubernetes: version 1", "sealift upgrade"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the refusal lacks %q:\n%v", want, err)
		}
	}
}

func TestAdoptedAddOnIsNotDowngraded(t *testing.T) {
	i := adopted(t, true)
	i.options.Upgrade = &Upgrade{From: "1", Leads: true}
	for n := range i.addOns {
		if i.addOns[n].name() == "flannel" {
			i.addOns[n].info.Version = "0.8"
		}
	}
	if err := i.checkDowngrade(); err == nil || !strings.Contains(err.Error(), "this node has flannel 0.9, the bundle brings 0.8") {
		t.Error(err)
	}
}
