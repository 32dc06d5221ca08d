package install

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/preflight"
)

// standard are the add-ons of a node, each of another kind.
func standard(t *testing.T) []addOn {
	t.Helper()
	containerd := with(t, "containerd", "apt socat\n", "containerd_install", "containerd_pre_init")
	containerd.texts = [][]byte{[]byte("$CONTAINERD_OPTION")}
	flannel := with(t, "flannel", "", "flannel", "flannel_pre_init", "flannel_join")
	flannel.texts = [][]byte{[]byte("$FLANNEL_OPTION")}
	addOns := []addOn{containerd, with(t, "kubernetes", "", "kubernetes_pre_init", "kubernetes_host", "kubernetes"), flannel, with(t, "sysctl", "", "sysctl_pre_init")}
	for n := range addOns {
		addOns[n].options = "options of before"
	}
	return addOns
}

// finish records the steps of an install as finished, up to the step that fails; "" for none. An earlier sealift recorded no
// operation and no options.
func (i *Install) finish(t *testing.T, failing string, earlier bool) {
	t.Helper()
	plan := slices.Clone(i.plan)
	for n, step := range plan {
		plan[n].Beside, plan[n].After, plan[n].Restore, plan[n].Timeout = false, nil, nil, time.Minute
		if earlier {
			plan[n].Options = ""
		}
		plan[n].Run = func(context.Context) (lifecycle.State, error) {
			if step.ID == failing {
				return nil, errors.New("failed as the test wants")
			}
			if step.ID == node.ReadyStep && !i.Joins() {
				return lifecycle.State{hooklessState: i.describeHookless()}, nil
			}
			name, what, _ := strings.Cut(step.ID, "/")
			for _, a := range i.addOns {
				if what == filesStep && name == a.name() {
					return lifecycle.State{addOnVersion: a.info.Version}, nil
				}
			}
			return nil, nil
		}
	}
	operation := lifecycle.Installing
	if earlier {
		operation = ""
	}
	if _, err := lifecycle.Run(t.Context(), operation, plan, i.Journal, func(lifecycle.Event) {}); (err == nil) != (failing == "") {
		t.Fatal(err)
	}
}

func TestRunningAddOnKeepsVersion(t *testing.T) {
	change := func(name string, do func(*addOn)) func([]addOn) []addOn {
		return func(addOns []addOn) []addOn {
			for n := range addOns {
				if addOns[n].name() == name {
					do(&addOns[n])
				}
			}
			return addOns
		}
	}
	version := func(name, version string) func([]addOn) []addOn {
		return change(name, func(a *addOn) { a.info.Version, a.info.Index = version, "another" })
	}
	rebuilt := func(name string) func([]addOn) []addOn {
		return change(name, func(a *addOn) { a.info.Index = "another" })
	}
	options := func(name string) func([]addOn) []addOn {
		return change(name, func(a *addOn) { a.options = "other options" })
	}
	const way = "nothing was changed; upgrade the cluster with 'sealift upgrade', or use a bundle with the versions that run: containerd 1, kubernetes 1, flannel 1, sysctl 1"
	for name, row := range map[string]struct {
		failing string // step of the first install
		earlier bool   // sealift made the first install
		joins   bool
		change  func([]addOn) []addOn
		set     string // a variable that changed
		option  func(*Options)
		want    []string // of the refusal; none for no refusal
		again   []string // steps that run again
		not     []string // steps that do not
	}{
		"a newer container runtime":              {change: version("containerd", "2"), want: []string{"containerd: this node runs version 1, the bundle has 2", way}},
		"a newer Kubernetes":                     {change: version("kubernetes", "2"), want: []string{"kubernetes: this node runs version 1, the bundle has 2", way}},
		"a newer pod network":                    {change: version("flannel", "2"), want: []string{"flannel: this node runs version 1, the bundle has 2", way}},
		"a newer one of hooks on the host alone": {change: version("sysctl", "2"), want: []string{"sysctl: this node runs version 1, the bundle has 2", way}},
		"an older one, as asked for": {change: version("containerd", "0.9"), option: func(o *Options) { o.AllowDowngrade = true },
			want: []string{"containerd: this node runs version 1, the bundle has 0.9", way}},
		"two newer ones": {change: func(all []addOn) []addOn { return version("flannel", "2")(version("containerd", "2")(all)) },
			want: []string{"containerd: this node runs version 1, the bundle has 2", "flannel: this node runs version 1, the bundle has 2", way}},
		"on a node that has joined":       {joins: true, change: version("containerd", "2"), want: []string{"containerd: this node runs version 1, the bundle has 2"}},
		"on a node of an earlier sealift": {earlier: true, change: version("containerd", "2"), want: []string{"containerd: this node runs version 1, the bundle has 2", way}},
		"looked at before an upgrade":     {change: version("containerd", "2"), option: func(o *Options) { o.Upgrade = &Upgrade{Leads: true} }, again: []string{"containerd/install"}},

		"an add-on that is new": {change: func(all []addOn) []addOn {
			return append(all, with(t, "registry", "apt kmod\n", "registry", "registry_pre_init"))
		},
			again: []string{"registry/files", "registry/pre-init", "registry/install", "node/packages"}, not: []string{"containerd/install", "flannel/install"}},
		"a container runtime that was built again": {change: rebuilt("containerd"),
			again: []string{"containerd/files"}, not: []string{"containerd/install", "containerd/pre-init", "node/packages"}},
		"on a node that has joined, built again":      {joins: true, change: rebuilt("containerd"), again: []string{"containerd/files"}, not: []string{"containerd/install"}},
		"of an earlier sealift, built again":          {earlier: true, change: rebuilt("containerd"), not: []string{"containerd/install", "containerd/pre-init"}},
		"a Kubernetes that was built again":           {change: rebuilt("kubernetes"), again: []string{"kubernetes/install"}, not: []string{"kubernetes/pre-init", node.InitStep}},
		"a pod network that was built again":          {change: rebuilt("flannel"), again: []string{"flannel/install"}, not: []string{"flannel/pre-init"}},
		"options of a container runtime":              {change: options("containerd"), set: "CONTAINERD_OPTION", want: []string{"containerd: version 1 runs here with other options"}},
		"options of Kubernetes":                       {change: options("kubernetes"), want: []string{"kubernetes: version 1 runs here with other options"}},
		"another's options that a runtime reads":      {set: "CONTAINERD_OPTION", not: []string{"containerd/install"}},
		"options of an add-on":                        {change: options("flannel"), set: "FLANNEL_OPTION", again: []string{"flannel/pre-init", "flannel/install"}},
		"options of a runtime, of an earlier sealift": {earlier: true, change: options("containerd"), set: "CONTAINERD_OPTION", not: []string{"containerd/install"}},

		"a newer runtime before there is a cluster":       {failing: node.InitStep, change: version("containerd", "2"), again: []string{"containerd/files", "containerd/pre-init", "containerd/install"}},
		"a runtime built again before there is a cluster": {failing: node.InitStep, change: rebuilt("containerd"), again: []string{"containerd/install"}},
		"a newer add-on in place of one that failed":      {failing: "flannel/install", change: version("flannel", "2"), again: []string{"flannel/pre-init", "flannel/install"}},
		"a newer runtime after an add-on that failed": {failing: "flannel/install", change: version("containerd", "2"),
			want: []string{"containerd: this node runs version 1, the bundle has 2", "the versions that run: containerd 1, kubernetes 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			first := made(t, standard(t)...)
			if row.joins {
				first.options.Join = &Join{Cluster: share.Cluster{Endpoint: balancer.Endpoint}}
				first.plan = first.makePlan()
			}
			first.finish(t, row.failing, row.earlier)
			addOns := standard(t)
			if row.change != nil {
				addOns = row.change(addOns)
			}
			next := made(t, addOns...)
			next.Journal, next.past, next.options.Join = first.Journal, first.past, first.options.Join
			if row.option != nil {
				row.option(&next.options)
			}
			if row.set != "" {
				next.hooks.variables[row.set] = "another value"
			}
			next.plan = next.makePlan()
			wantRefusal(t, next.checkRunning(), row.want)
			pending := ids(next.Pending())
			for _, id := range row.again {
				if !slices.Contains(pending, id) {
					t.Errorf("%s does not run again, only %v", id, pending)
				}
			}
			for _, id := range row.not {
				if slices.Contains(pending, id) {
					t.Errorf("%s runs again", id)
				}
			}
			if row.want != nil {
				return
			}
			next.finish(t, "", false)
			next.plan = next.makePlan()
			if left := ids(next.Pending()); len(left) > 0 && next.options.Upgrade == nil {
				t.Errorf("a second run has something to do: %v", left)
			}
		})
	}
}

// TestAddOnWithoutHooksRunsWhenClusterIsReady compares bundles with a node that has a module without hooks.
func TestAddOnWithoutHooksRunsWhenClusterIsReady(t *testing.T) {
	bundle := func(change func(*addOn), hooks ...string) *Install {
		town := with(t, "town", "", hooks...)
		town.meta.Module, town.options = true, "options of before"
		change(&town)
		return made(t, append(standard(t), town)...)
	}
	same := func(*addOn) {}
	newer := func(a *addOn) { a.info.Version, a.info.Index = "2", "another" }
	for name, row := range map[string]struct {
		failing string // step of the first install
		hooks   []string
		then    *Install // installed in between
		late    string   // its step that fails
		next    *Install
		want    string
	}{
		"nothing changes":                       {next: bundle(same)},
		"a newer version":                       {next: bundle(newer), want: "town 1 -> 2"},
		"other options":                         {next: bundle(func(a *addOn) { a.options = "other" }), want: "town 1 gets other options"},
		"it is gone":                            {next: made(t, standard(t)...), want: "town 1 is no longer in the Installer"},
		"the install did not end":               {failing: node.ReadyStep, next: bundle(same), want: "sysctl 1 is new, town 1 is new"},
		"a newer version ran":                   {then: bundle(newer), next: bundle(newer)},
		"a newer version came, and did not run": {then: bundle(newer), late: node.ReadyStep, next: bundle(newer), want: "town 1 -> 2"},
		"it had a hook before":                  {hooks: []string{"town"}, then: bundle(newer), next: bundle(newer)},
	} {
		t.Run(name, func(t *testing.T) {
			first := bundle(same, row.hooks...)
			first.finish(t, row.failing, false)
			if row.then != nil {
				row.then.Journal, row.then.past = first.Journal, first.past
				row.then.finish(t, row.late, false)
			}
			row.next.Journal, row.next.past = first.Journal, first.past
			var got []string
			for _, change := range row.next.Changes() {
				got = append(got, change.String())
			}
			if strings.Join(got, ", ") != row.want {
				t.Errorf("changes are %q, want %q", got, row.want)
			}
		})
	}
}

func wantRefusal(t *testing.T, err error, want []string) {
	t.Helper()
	var refused *preflight.RefusedError
	if errors.As(err, &refused) != (len(want) > 0) || err != nil && len(want) == 0 {
		t.Fatalf("got %v, want %q", err, want)
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("got %v\nwant %q", err, text)
		}
	}
}

// TestRenamedRuntimeKeepsVersion recognizes a container runtime by its capability.
func TestRenamedRuntimeKeepsVersion(t *testing.T) {
	runtime := with(t, "crio", "", "crio_install")
	runtime.meta.Provides = []string{catalog.ContainerRuntime}
	first := made(t, runtime, with(t, "kubernetes", "", "kubernetes_pre_init"))
	first.finish(t, "", false)
	runtime.info.Index = "another"
	next := made(t, runtime, with(t, "kubernetes", "", "kubernetes_pre_init"))
	next.Journal, next.past = first.Journal, first.past
	if next.plan = next.makePlan(); slices.Contains(ids(next.Pending()), "crio/install") {
		t.Error("a container runtime that was built again is installed below what runs")
	}
}

func TestOptionsThatBindRunningAddOn(t *testing.T) {
	login := map[string]any{"issuers": []any{}}
	for _, row := range []struct {
		name    string
		was, is map[string]any
		equal   bool
	}{
		{"kubernetes", nil, map[string]any{}, true},
		{"kubernetes", nil, map[string]any{"a": 1}, false},
		{"kubernetes", map[string]any{"a": 1}, map[string]any{"a": 1, "oidc": login}, true},
		{"kubernetes", nil, map[string]any{"oidc": login}, true},
		{"another", nil, map[string]any{"oidc": login}, false},
	} {
		if got := optionsDigest(row.name, row.was) == optionsDigest(row.name, row.is); got != row.equal {
			t.Errorf("%s with %v, then %v: equal %t", row.name, row.was, row.is, got)
		}
	}
}
