package install

import (
	"context"
	"maps"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/manifest"
	"github.com/sealift/sealift/spec"
)

// made is an install of in-memory add-ons.
func made(t *testing.T, addOns ...addOn) *Install {
	t.Helper()
	s, err := spec.Parse("installer.yaml", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nspec:\n  kubernetes: {version: 1.36.3}\n  flannel: {version: '1', podCIDR: 10.99.0.0/16}\n"))
	if err != nil {
		t.Fatal(err)
	}
	i := &Install{job: job{options: Options{Scope: node.Scope{Root: "/root-of-install"}}, contents: contents{archive: &bundle.Archive{}, spec: s, addOns: addOns},
		hostFacts: hostFacts{facts: host.Facts{Distribution: "debian", Version: "12"}}}, Session: &node.Session{Log: node.NewLog(t.TempDir(), lifecycle.Installing, nil)}}
	if i.Journal, err = lifecycle.OpenJournal(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.Journal.Close() })
	i.past = i.Journal
	i.settings = i.newSettings()
	i.vars = i.variables()
	i.hooks = newHooks("/root-of-install", addOns, i.vars, i.Log)
	i.plan = i.makePlan()
	return i
}

func with(t *testing.T, name, text string, hooks ...string) addOn {
	t.Helper()
	m, err := manifest.Parse("Manifest", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return addOn{info: bundle.PackageInfo{Name: name, Version: "1", Index: name, Targets: []string{"debian-12"}}, meta: catalog.Meta{Name: name, Version: "1"},
		manifest: m, layout: &runtime.Layout{}, hooks: hooks}
}

func ids(p lifecycle.Plan) (ids []string) {
	for _, s := range p {
		ids = append(ids, s.ID)
	}
	return ids
}

func TestStepsFollowKurlOrder(t *testing.T) {
	i := made(t,
		with(t, "containerd", "", "containerd_install", "containerd_pre_init"),
		with(t, "kubernetes", "apt socat\nyum nothing-here\n", "kubernetes_pre_init", "kubernetes_host"),
		with(t, "flannel", "apt socat\napt kmod\n", "flannel", "flannel_pre_init", "flannel_host", "flannel_post_init", "flannel_outro", "flannel_join", "someone_else"),
	)
	want := []string{
		"node/packages", "node/sealift", "containerd/files", "kubernetes/files", "flannel/files", "node/network", "node/balancer",
		"containerd/pre-init", "kubernetes/pre-init", "flannel/pre-init", "containerd/install", "kubernetes/host", "kubernetes/init", "node/share", "node/agent", "flannel/install",
		"cluster/ready", "flannel/post-init", "flannel/outro",
	}
	if got := ids(i.plan); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if names := hostPackages(i.addOns, "debian-12"); !slices.Equal(names, []string{"socat", "kmod"}) {
		t.Errorf("host packages %v", names)
	}
}

// TestPlanIsAFunctionOfBundleAndHost plans without anything that could carry a step out.
func TestPlanIsAFunctionOfBundleAndHost(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"an install": func(*Options) {},
		"a join": func(o *Options) {
			o.Join = &Join{ControlPlane: true, Cluster: share.Cluster{Endpoint: balancer.Endpoint}}
		},
		"an upgrade": func(o *Options) { o.Upgrade = &Upgrade{From: "1", Leads: true} },
	} {
		t.Run(name, func(t *testing.T) {
			i := made(t, standard(t)...)
			change(&i.options)
			pure := i.job
			var got []string
			for _, s := range pure.planned() {
				if s.Run != nil || s.do == nil {
					t.Errorf("%s can be run by the plan: %t, by an install: %t", s.ID, s.Run != nil, s.do != nil)
				}
				got = append(got, s.ID)
			}
			if want := ids(i.makePlan()); !slices.Equal(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

func TestUnawaitedImagesLoadConcurrently(t *testing.T) {
	var addOns []addOn
	for _, name := range []string{"containerd", "kubernetes", "flannel", "registry"} {
		a := with(t, name, "", name, name+"_host", name+"_post_init")
		a.layout = &runtime.Layout{Images: make([]runtime.Image, 1)}
		addOns = append(addOns, a)
	}
	i := made(t, addOns...)
	type order struct {
		beside      bool
		after, part []string
	}
	want := map[string]order{
		"containerd/images": {beside: true}, "kubernetes/images": {beside: true, after: []string{"containerd/images"}},
		"flannel/images": {beside: true, after: []string{"kubernetes/images"}}, "registry/images": {beside: true, after: []string{"flannel/images"}},
		"kubernetes/host": {}, node.InitStep: {after: []string{"containerd/images"}, part: []string{"kubernetes/images"}}, "kubernetes/install": {after: []string{"kubernetes/images"}},
		"node/share": {beside: true}, "node/agent": {beside: true},
		"flannel/install": {after: []string{"flannel/images"}}, "registry/install": {after: []string{"registry/images"}},
		"cluster/ready": {after: []string{"containerd/images", "kubernetes/images", "flannel/images", "registry/images", "node/share", "node/agent"}},
	}
	got := map[string]order{}
	for _, s := range i.plan {
		if _, asked := want[s.ID]; asked {
			got[s.ID] = order{s.Beside, s.After, s.AfterPart}
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	i.cramped = true
	plan := i.makePlan()
	made := slices.IndexFunc(plan, func(s lifecycle.Step) bool { return s.ID == node.InitStep })
	for n, s := range plan {
		if strings.HasSuffix(s.ID, "/images") && (s.Beside || n > made) {
			t.Errorf("%s runs while the control plane starts on few slow processors", s.ID)
		}
	}
	i.cramped = false
	i.options.Join = &Join{ControlPlane: true, Cluster: share.Cluster{Endpoint: balancer.Endpoint}}
	plan = i.makePlan()
	for _, s := range plan { // the cluster starts pods on a node as soon as it joins
		if strings.HasSuffix(s.ID, "/images") && s.Beside {
			t.Errorf("%s is not waited for before the host joins", s.ID)
		}
	}
}

// TestHostPackagesComeBesideFiles finds the steps that wait for host packages: what first needs one of them, and the rest comes behind it.
func TestHostPackagesComeBesideFiles(t *testing.T) {
	addOns := []addOn{with(t, "containerd", "apt isal\n", "containerd_install"), with(t, "kubernetes", "apt socat\n", "kubernetes_pre_init", "kubernetes_host")}
	i := made(t, addOns...)
	waiting := func() (ids []string) {
		for _, s := range i.makePlan() {
			if slices.Contains(s.After, packagesStep) {
				ids = append(ids, s.ID)
			}
		}
		return ids
	}
	if s := i.plan[0]; s.ID != packagesStep || !s.Beside {
		t.Errorf("the plan begins with %s, beside others %t", s.ID, s.Beside)
	}
	if got := waiting(); !slices.Equal(got, []string{node.NetworkStep, "cluster/ready"}) {
		t.Errorf("%v wait for host packages", got)
	}
	i.options.Upgrade = &Upgrade{From: "1"}
	plan := i.makePlan()
	if at := slices.IndexFunc(plan, func(s lifecycle.Step) bool { return s.ID == packagesStep }); at < 3 || plan[at].Beside {
		t.Errorf("an upgrade installs host packages as step %d, beside others %t", at, plan[at].Beside)
	}
}

func TestJoinFollowsKurlOrder(t *testing.T) {
	addOns := []addOn{
		with(t, "containerd", "", "containerd_install", "containerd_pre_init"),
		with(t, "kubernetes", "", "kubernetes_pre_init", "kubernetes_host", "kubernetes"),
		with(t, "flannel", "", "flannel", "flannel_pre_init", "flannel_post_init", "flannel_outro", "flannel_join"),
	}
	i := made(t, addOns...)
	for controlPlane, want := range map[bool][]string{
		false: {"node/sealift", "containerd/files", "kubernetes/files", "flannel/files", "node/balancer", "kubernetes/pre-init", "containerd/install", "flannel/join", "kubernetes/host", node.JoinStep, "node/agent", "cluster/ready"},
		true:  {"node/sealift", "containerd/files", "kubernetes/files", "flannel/files", "node/balancer", "kubernetes/pre-init", "containerd/install", "flannel/join", "kubernetes/host", node.JoinStep, "node/share", "node/agent", "cluster/ready"},
	} {
		i.options.Join = &Join{ControlPlane: controlPlane, Cluster: share.Cluster{Endpoint: balancer.Endpoint}}
		if got := ids(i.makePlan()); !slices.Equal(got, want) {
			t.Errorf("control plane %t: got  %v\nwant %v", controlPlane, got, want)
		}
	}
}

func TestBundleWithoutKubernetesMakesNoCluster(t *testing.T) {
	want := []string{"node/sealift", "tool/files", "tool/install"}
	if got := ids(made(t, with(t, "tool", "", "tool")).plan); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestInputsFollowStepDependencies(t *testing.T) {
	inputs := func(i *Install) map[string]string {
		m := map[string]string{}
		for _, s := range i.plan {
			m[s.ID] = s.Inputs
		}
		return m
	}
	kubernetes := with(t, "kubernetes", "", "kubernetes_pre_init")
	before := inputs(made(t, kubernetes, with(t, "flannel", "", "flannel")))
	changed := with(t, "flannel", "", "flannel")
	changed.info.Index = "another package"
	after := inputs(made(t, kubernetes, changed))
	for id, same := range map[string]bool{
		"kubernetes/files": true, "kubernetes/pre-init": true, node.InitStep: true, "node/network": true,
		"flannel/files": false, "flannel/install": false, "cluster/ready": false,
	} {
		if (before[id] == after[id]) != same {
			t.Errorf("%s: inputs equal %t after flannel's package changed, want %t", id, before[id] == after[id], same)
		}
	}
}

func TestHooksDependOnVariablesTheyRead(t *testing.T) {
	a := with(t, "kubernetes", "")
	a.texts = [][]byte{[]byte("echo $POD_CIDR"), []byte("name: ${NODE_NAME}")}
	got := a.reads(map[string]string{"POD_CIDR": "1", "NODE_NAME": "2", "METRICS_SERVER_VERSION": "3"})
	if want := map[string]string{"POD_CIDR": "1", "NODE_NAME": "2"}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSpecDecidesNetworks(t *testing.T) {
	i := made(t, with(t, "kubernetes", ""))
	state, err := i.chooseNetworks(t.Context())
	if err != nil || state["POD_CIDR"] != "10.99.0.0/16" || state["SERVICE_CIDR"] != "10.96.0.0/22" {
		t.Errorf("%v, %v", state, err)
	}
	i.facts.Used = prefixes("10.90.0.0/16 10.128.0.0/9 10.131.7.0/24 10.132.0.1/32")
	i.facts.Attached = prefixes("10.90.0.0/16 10.200.0.0/24")
	for given, want := range map[string]string{
		"10.99.0.0/16": "", "everything": "not a network", "$(touch /tmp/x)": "not a network", "fd00::/48": "private IPv4", "0.0.0.0/0": "private IPv4",
		"10.32.0.0/30": "too small", "10.0.0.0/7": "too large", "100.64.0.0/16": "", "10.32.0.1/20": "write 10.32.0.0/20", "10.90.4.0/24": "overlaps 10.90.0.0/16",
		// the site routes 10.128.0.0/9 as a whole
		"10.130.0.0/16": "", "10.131.0.0/16": "overlaps 10.131.7.0/24", "10.132.0.0/20": "overlaps 10.132.0.1/32",
	} {
		i.settings.pods.network = given
		if err := i.checkNetworks(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", given, err, want)
		}
	}
}

func TestNetworksDoNotOverlap(t *testing.T) {
	i := made(t, with(t, "kubernetes", ""))
	for name, row := range map[string]networksRow{
		"beside each other":              {"", "", "", "", "10.32.0.0/20", "10.96.0.0/22", ""},
		"beside services that are given": {"", "10.32.0.0/22", "", "", "10.32.16.0/20", "10.32.0.0/22", ""},
		"beside pods that are given":     {"10.96.0.0/16", "", "", "", "10.96.0.0/16", "10.0.0.0/22", ""},
		"both given, one in the other":   {"10.96.0.0/16", "10.96.4.0/22", "", "", "", "", "overlaps 10.96.0.0/16"},
		"services for too many":          {"", "10.0.0.0/8", "", "", "", "", "too large; give it a length of at least /12"},
		"a size":                         {"", "", "/16", "", "10.32.0.0/16", "10.96.0.0/22", ""},
		"a size beyond the first range":  {"", "", "/14", "", "10.0.0.0/14", "10.96.0.0/22", ""},
		"too small a size":               {"", "", "/28", "", "", "", "not a size from /8 to /24"},
		"no size":                        {"", "", "large", "", "", "", "not a size from /8 to /24"},
		"a site routes all of 10/8":      {"", "", "", "10.0.0.0/8", "172.16.0.0/20", "172.16.16.0/22", ""},
		"and all of 172.16/12":           {"", "", "", "10.0.0.0/8 172.16.0.0/12", "192.168.0.0/20", "192.168.16.0/22", ""},
		"and all of 192.168/16":          {"", "", "", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16", "100.64.0.0/20", "100.64.16.0/22", ""},
		"one of them is insisted on":     {"10.200.0.0/16", "", "", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10", "", "", "name one as kubernetes.serviceCIDR in the Installer"},
		"both are insisted on":           {"10.200.0.0/16", "10.201.0.0/20", "", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10", "10.200.0.0/16", "10.201.0.0/20", ""},
		"nothing is free":                {"", "", "", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10", "", "", "name one as flannel.podCIDR in the Installer"},
	} {
		t.Run(name, func(t *testing.T) { row.settle(t, i) })
	}
}

// networksRow has the Installer's networks of a cluster, the host's networks, and the choice or refusal.
type networksRow struct{ pods, services, sizes, used, wantPods, wantServices, refused string }

func (row networksRow) settle(t *testing.T, i *Install) {
	t.Helper()
	i.settings.pods, i.settings.services = subnet{row.pods, row.sizes}, subnet{network: row.services}
	i.facts.Used = prefixes(row.used)
	if err := i.checkNetworks(); (err == nil) != (row.refused == "") || err != nil && !strings.Contains(err.Error(), row.refused) {
		t.Fatalf("got %v, want %q", err, row.refused)
	}
	if row.refused != "" {
		return
	}
	if got, err := i.settleNetworks(); err != nil || !maps.Equal(got, node.ClusterNetworks{Pods: row.wantPods, Services: row.wantServices}.State()) {
		t.Errorf("got %v, %v", got, err)
	}
}

func prefixes(list string) (found []netip.Prefix) {
	for text := range strings.FieldsSeq(list) {
		found = append(found, netip.MustParsePrefix(text))
	}
	return found
}

// TestInstallIgnoresItsOwnRoutes uses a host without a default route, on which a route to the services exists before the
// cluster.
func TestInstallIgnoresItsOwnRoutes(t *testing.T) {
	first := made(t, with(t, "kubernetes", ""))
	first.settings.services.network = "10.96.0.0/22"
	choose := lifecycle.Step{ID: node.NetworkStep, Timeout: time.Minute, Run: first.chooseNetworks}
	if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, lifecycle.Plan{choose}, first.Journal, func(lifecycle.Event) {}); err != nil {
		t.Fatal(err)
	}
	first.facts.Used = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/22")}
	if err := first.checkNetworks(); err != nil {
		t.Errorf("an install: %v", err)
	}

	worker := made(t, with(t, "kubernetes", ""))
	worker.options.Root = t.TempDir()
	worker.options.Join = &Join{Cluster: share.Cluster{KubernetesVersion: "1", PodCIDR: "10.32.0.0/20", ServiceCIDR: "10.96.0.0/22"}}
	worker.facts.Hostname = "node-1"
	worker.options.Join.Cluster.Ready = []string{"node-1"}
	if err := worker.checkJoin(); err == nil || !strings.Contains(err.Error(), "has a node node-1 already") {
		t.Errorf("a join under the name of another node: %v", err)
	}
	worker.options.Join.Cluster.Ready = []string{"node-2"}
	worker.options.Join.Cluster.NoControlPlane, worker.options.Join.CertificateKey, worker.options.Join.ControlPlane = "the cluster is being upgraded", "key", true
	if err := worker.checkJoin(); err == nil || !strings.Contains(err.Error(), "the cluster is being upgraded") {
		t.Errorf("a control plane that joins during an upgrade: %v", err)
	}
	worker.options.Join.ControlPlane = false // the rest is for workers, which may
	worker.facts.Used, worker.facts.Attached = first.facts.Used, first.facts.Used
	if err := worker.checkJoin(); err == nil || !strings.Contains(err.Error(), "overlaps 10.96.0.0/22") {
		t.Errorf("a join to a cluster with the network of this host: %v", err)
	}
	if err := os.MkdirAll(node.StateDir(worker.options.Root), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := worker.writeRun(); err != nil {
		t.Fatal(err)
	}
	if err := worker.checkJoin(); err != nil {
		t.Errorf("a join that began: %v", err)
	}
	worker.facts.Used = append(worker.facts.Used, netip.MustParsePrefix("10.32.0.0/12"))
	if err := worker.checkJoin(); err != nil {
		t.Errorf("beside a route to a larger network: %v", err)
	}
	worker.facts.Attached = append(worker.facts.Attached, netip.MustParsePrefix("10.32.0.0/12"))
	if err := worker.checkJoin(); err == nil || !strings.Contains(err.Error(), "overlaps 10.32.0.0/12") {
		t.Errorf("in a larger network: %v", err)
	}
}

func TestNetworksCountUntilClusterIsMade(t *testing.T) {
	i := made(t, with(t, "kubernetes", ""))
	before := i.networkInputs()
	i.settings.pods.network = "10.98.0.0/16"
	if i.networkInputs() == before {
		t.Error("a corrected network is ignored")
	}
	finished(t, i, lifecycle.Step{ID: node.NetworkStep, Inputs: "then"}, lifecycle.State{"POD_CIDR": "10.99.0.0/16"})
	finished(t, i, lifecycle.Step{ID: node.InitStep, Inputs: initInputs}, nil)
	if got := i.networkInputs(); got != "then" {
		t.Errorf("networks are chosen again: %s", got)
	}
	if err := i.checkNetworks(); err == nil || !strings.Contains(err.Error(), "keeps its networks") {
		t.Errorf("got %v", err)
	}
}

// finished records in the journal that a step succeeded.
func finished(t *testing.T, i *Install, s lifecycle.Step, state lifecycle.State) {
	t.Helper()
	s.Timeout, s.Run = time.Minute, func(context.Context) (lifecycle.State, error) { return state, nil }
	if _, err := lifecycle.Run(t.Context(), lifecycle.Installing, lifecycle.Plan{s}, i.Journal, func(lifecycle.Event) {}); err != nil {
		t.Fatal(err)
	}
}
