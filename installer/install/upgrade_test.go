package install

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/journal/lifecycle"
)

// newer are the add-ons of a node with a newer Kubernetes and a newer pod network, one that is new, and without sysctl.
func newer(t *testing.T) []addOn {
	t.Helper()
	addOns := standard(t)[:3]
	for n, name := range []string{"containerd", "kubernetes", "flannel"} {
		if name != "containerd" {
			addOns[n].info.Version, addOns[n].info.Index = "2", name+"-2"
		}
	}
	lights := with(t, "lights", "", "lights", "lights_join")
	lights.options = "options of before"
	return append(addOns, lights)
}

// upgraded is a node that runs the standard add-ons, and is to get the newer ones.
func upgraded(t *testing.T, joined bool, how Upgrade) *Install {
	t.Helper()
	first := made(t, standard(t)...)
	if joined {
		first.options.Join = &Join{Cluster: share.Cluster{Endpoint: balancer.Endpoint}}
		first.plan = first.makePlan()
	}
	first.finish(t, "", false)
	next := made(t, newer(t)...)
	next.Journal, next.past, next.options.Join, next.options.Upgrade = first.Journal, first.past, first.options.Join, &how
	next.plan = next.makePlan()
	return next
}

// pending are the steps of each phase that would run.
func pendingIn(i *Install, phase lifecycle.Phase) string {
	return strings.Join(ids(i.plan.In(phase).Pending(i.Journal)), " ")
}

func TestUpgradeRunsPhasesInOrder(t *testing.T) {
	for name, row := range map[string]struct {
		joined bool
		how    Upgrade
		want   map[lifecycle.Phase]string
	}{
		"the node that leads": {false, Upgrade{From: "1", Leads: true}, map[lifecycle.Phase]string{
			lifecycle.Prepare: "kubernetes/files flannel/files lights/files",
			lifecycle.Upgrade: "kubernetes/upgrade kubernetes/approval",
			lifecycle.Kubelet: "kubernetes/pre-init flannel/pre-init containerd/install kubernetes/host kubernetes/kubelet",
			lifecycle.Install: "kubernetes/install flannel/install lights/install cluster/ready sysctl/remove",
		}},
		"a stop on the way": {false, Upgrade{From: "1", Leads: true, Stop: "2"}, map[lifecycle.Phase]string{
			lifecycle.Upgrade: "kubernetes/upgrade kubernetes/approval", lifecycle.Install: "",
		}},
		"a worker": {true, Upgrade{From: "1"}, map[lifecycle.Phase]string{
			lifecycle.Prepare: "kubernetes/files flannel/files lights/files",
			lifecycle.Upgrade: "kubernetes/upgrade",
			lifecycle.Kubelet: "kubernetes/pre-init containerd/install flannel/join lights/join kubernetes/host kubernetes/kubelet",
			lifecycle.Install: "",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			i := upgraded(t, row.joined, row.how)
			for phase, want := range row.want {
				if got := pendingIn(i, phase); got != want {
					t.Errorf("%s: %s\nwant %s", phase, got, want)
				}
			}
			i.finish(t, "", false)
			i.plan = i.makePlan()
			if left := ids(i.Pending()); len(left) > 0 {
				t.Errorf("an upgrade that is finished has something to do: %v", left)
			}
		})
	}
}

func TestUpgradeChangesAreReported(t *testing.T) {
	i := upgraded(t, false, Upgrade{From: "1", Leads: true})
	var lines []string
	for _, c := range i.Changes() {
		lines = append(lines, c.String())
	}
	want := []string{"flannel 1 -> 2", "kubernetes 1 -> 2", "lights 1 is new", "sysctl 1 is no longer in the Installer"}
	if !slices.Equal(lines, want) {
		t.Errorf("got %q, want %q", lines, want)
	}
	if !i.Replaces() {
		t.Error("a newer Kubernetes leaves the pods where they are")
	}
	i.finish(t, "", false)
	if left := i.Changes(); len(left) > 0 {
		t.Errorf("after the upgrade: %v", left)
	}
	other := newer(t)
	other[2].options = "other options"
	again := made(t, other...)
	again.Journal, again.past, again.options.Upgrade = i.Journal, i.past, i.options.Upgrade
	if got := fmt.Sprint(again.Changes()); got != "[flannel 2 gets other options]" {
		t.Errorf("with other options: %s", got)
	}
	if again.Replaces() {
		t.Error("other options of a pod network make pods leave their nodes")
	}
}

// TestHooksSeeUpgrade passes kURL's variables to hooks, and keeps them out of the inputs of steps.
func TestHooksSeeUpgrade(t *testing.T) {
	addOns := standard(t)
	addOns[1].info.Version = "1.36.3"
	for name, row := range map[string]struct {
		how  *Upgrade
		want string
	}{
		"an install":           {nil, "map[]"},
		"a newer version":      {&Upgrade{From: "1.35.4"}, "map[CURRENT_KUBERNETES_VERSION:1.35.4 KUBERNETES_UPGRADE:1]"},
		"the same version":     {&Upgrade{From: "1.36.3"}, "map[CURRENT_KUBERNETES_VERSION:1.36.3 KUBERNETES_UPGRADE:]"},
		"a version of no node": {&Upgrade{}, "map[CURRENT_KUBERNETES_VERSION:1.36.3 KUBERNETES_UPGRADE:]"},
	} {
		i := made(t, addOns...)
		i.options.Upgrade = row.how
		if got := fmt.Sprint(i.upgradeVariables()); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}
