package proxy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/chartplan"
	"github.com/sealift/sealift/helm/release"
	"github.com/sealift/sealift/internal/testing/controlplane"
)

// TestProxies runs the controllers in a hub on a real API server, with charts from a real registry.
func TestProxies(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*room){
		"life":        testLife,
		"repository":  testRepository,
		"once":        testInstallOnce,
		"bereft":      testOnceWithoutChart,
		"foreign":     testForeign,
		"taken":       testTaken,
		"killed":      testKilled,
		"progressive": testProgressive,
		"unreachable": testUnreachable,
		"admission":   testAdmission,
		"greedy":      testGreedy,
		"hostile":     testHostile,
		"mirrors":     testMirrors,
		"moved":       testMoved,
		"page":        testPage,
		"requires":    testRequires,
		"carried":     testCarried,
	}
	w := newWorld(t, slices.Sorted(maps.Keys(tests))...)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(w.room(t, name)) })
	}
}

// testLife takes a chart of a registry through each action of C-8 to C-14.
func testLife(r *room) {
	r.cluster("one", "tier: gold")
	r.cluster("two", "tier: silver")
	r.proxy("web", "", "clusterSelector: {matchLabels: {tier: gold}}, repoURL: \""+r.registry+"\", version: 1.0.0, "+
		`valuesTemplate: "text: {{ join \",\" .Cluster.Spec.ClusterNetwork.Pods.CIDRBlocks }}-{{ .Cluster.metadata.name }}"`)
	hrp := r.want("one", "Ready", "True")
	name := hrp.Spec.ReleaseName
	if hrp.Annotations[caaph.GeneratedName] != "true" || hrp.Annotations[caaph.Installed] != "true" || !strings.HasPrefix(name, "web-") ||
		!strings.HasPrefix(hrp.Name, "web-one-") || hrp.Status.Status != "deployed" || hrp.Status.Revision != 1 {
		r.t.Errorf("installed: %+v", hrp)
	}
	if d := r.data(name); d["text"] != "10.1.0.0/16,10.2.0.0/16-one" || d["version"] != "1.0.0" {
		r.t.Errorf("the cluster has %v", d)
	}
	r.wantChart("web", "Ready", "True")
	if m := r.hcp("web").Status.MatchingClusters; len(m) != 1 || m[0].Name != "one" || m[0].Kind != "Cluster" {
		r.t.Errorf("matching clusters are %v", m)
	}

	r.change("web", `{"spec": {"version": null}}`) // the newest
	r.eventually("the newest version", func() (bool, string) { d := r.data(name); return d["version"] == "1.1.0", fmt.Sprint(d) })
	r.change("web", `{"spec": {"clusterSelector": {"matchLabels": {"tier": "silver"}}}}`)
	r.want("two", "Ready", "True")
	r.eventually("a cluster that is no longer selected", func() (bool, string) {
		d := r.data(name)
		return len(r.hrps()) == 1 && d == nil, fmt.Sprint(d)
	})

	r.change("web", `{"spec": {"releaseName": "chosen"}}`) // reinstalls
	r.eventually("the chosen name", func() (bool, string) { d := r.data("chosen"); return d != nil, fmt.Sprint(r.hrps()) })
	r.change("web", `{"spec": {"valuesTemplate": "{{ nonsense }}"}}`)
	r.wantChart("web", "HelmReleaseProxySpecsUpToDate", "ValueParsingFailed")
	if r.data("chosen")["text"] != "10.1.0.0/16,10.2.0.0/16-two" {
		r.t.Errorf("values that do not parse changed the release to %v", r.data("chosen"))
	}
	r.change("web", `{"spec": {"valuesTemplate": "text: {{ index .Cluster.metadata.labels \"tier\" }}"}}`)
	r.eventually("a label", func() (bool, string) { d := r.data("chosen"); return d["text"] == "silver", fmt.Sprint(d) })

	r.remove("web")
	list, err := r.helm().List(r.t.Context())
	if err != nil || len(list) != 0 || len(r.hrps()) != 0 || r.data("chosen") != nil {
		r.t.Errorf("left are %v, %v, %v", list, r.hrps(), err)
	}
}

// testGreedy has a template that takes too long on each of 30 clusters. Others continue, and the condition names the template and
// the limit.
func testGreedy(r *room) {
	for i := range 30 {
		r.cluster(fmt.Sprintf("c%d", i), "")
	}
	r.cluster("one", "tier: gold")
	spec := "releaseName: %s, repoURL: \"" + r.registry + "\", version: 1.0.0, "
	r.proxy("greedy", "", fmt.Sprintf(spec, "greedy")+"clusterSelector: {}, valuesTemplate: \"text: {{ uniq (until 40000) | len }}\"")
	r.proxy("web", "", fmt.Sprintf(spec, "web")+"clusterSelector: {matchLabels: {tier: gold}}, valuesTemplate: \"text: {{ .Cluster.kind }}\"")
	r.want("one", "Ready", "True")
	if text := r.data("web")["text"]; text != "Cluster" {
		r.t.Errorf("the other release has %q", text)
	}
	r.wantChart("greedy", "HelmReleaseProxySpecsUpToDate", "the valuesTemplate web-c0 exceeds its limit of 1s of processor time; make it simpler")
	if r.data("greedy") != nil {
		r.t.Error("the release is installed")
	}
}

// testRequires shows that a chart is installed on a cluster once the charts that it requires are ready there.
func testRequires(r *room) {
	r.cluster("one", "")
	spec := "clusterSelector: {}, releaseName: %s, repoURL: \"" + r.registry + "\", version: 1.0.0"
	r.proxy("app", "fleet.sealift.dev/requires: base", fmt.Sprintf(spec, "app"))
	r.wantChart("app", "HelmReleaseProxySpecsUpToDate", "WaitsForOthers HelmChartProxy app requires base, which does not exist")
	if len(r.hrps()) != 0 {
		r.t.Error("app did not wait")
	}
	r.proxy("base", "", fmt.Sprintf(spec, "base"))
	r.wantChart("app", "Ready", "True")
	if r.data("base") == nil || r.data("app") == nil {
		r.t.Error("a release is missing")
	}
}

// testRepository installs from a repository over https with a private authority and a password, and without either.
func testRepository(r *room) {
	r.cluster("one", "")
	r.proxy("web", "", "clusterSelector: {}, releaseName: web, repoURL: \""+r.repository+"\", version: ~1.0")
	r.want("one", "Ready", "True")
	if d := r.data("web"); d["version"] != "1.0.0" {
		r.t.Errorf("the cluster has %v", d)
	}
	r.change("web", `{"spec": {"tlsConfig": null, "version": "1.1.0"}}`)
	r.want("one", "HelmReleaseReady", "certificate")
	r.change("web", `{"spec": {"tlsConfig": {"caSecret": {"name": "authority"}}, "credentials": null}}`)
	r.want("one", "HelmReleaseReady", "401")
	r.change("web", `{"spec": {"credentials": {"secret": {"name": "none"}, "key": "config.json"}}}`)
	r.want("one", "ClusterAvailable", "GetCredentialsFailed")
	r.change("web", `{"spec": {"credentials": {"secret": {"name": "coredns", "namespace": "kube-system"}, "key": "config.json"}}}`)
	r.want("one", "ClusterAvailable", "the operator of the hub has not allowed")
	r.change("web", `{"spec": {"credentials": {"secret": {"name": "pull", "namespace": null}, "key": "config.json"}}}`)
	r.eventually("the change arrives", func() (bool, string) { d := r.data("web"); return d["version"] == "1.1.0", fmt.Sprint(d) })
}

// testInstallOnce leaves a release alone once it is installed (C-12).
func testInstallOnce(r *room) {
	r.cluster("one", "a: b")
	r.proxy("web", "", "clusterSelector: {matchLabels: {a: b}}, releaseName: web, reconcileStrategy: InstallOnce, repoURL: \""+r.registry+"\", version: 1.0.0")
	r.want("one", "Ready", "True")
	r.change("web", `{"spec": {"version": "1.1.0"}}`)
	r.change("web", `{"spec": {"clusterSelector": {"matchLabels": {"a": "c"}}}}`)
	r.eventually("the selector was looked at", func() (bool, string) {
		h := r.hcp("web")
		return h.Status.ObservedGeneration == h.Generation && len(h.Status.MatchingClusters) == 0, fmt.Sprint(h.Status)
	})
	r.remove("web")
	if d := r.data("web"); d["version"] != "1.0.0" {
		r.t.Errorf("the cluster has %v", d)
	}
}

func testForeign(r *room) {
	r.cluster("one", "")
	chart, err := release.ReadArchive(archive(r.t, "1.0.0"))
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.helm().Install(r.t.Context(), "web", chart, []byte("text: theirs\n"), release.Options{CreateNamespace: true}); err != nil {
		r.t.Fatal(err)
	}
	r.proxy("web", "", "clusterSelector: {}, releaseName: web, repoURL: \""+r.registry+"\", version: 1.1.0")
	r.want("one", "HelmReleaseReady", "False Conflict release web in namespace foreign-on-clusters of the cluster has another owner")
	r.remove("web")
	if d := r.data("web"); d["text"] != "theirs" || d["version"] != "1.0.0" {
		r.t.Errorf("the cluster has %v", d)
	}
	r.proxy("web", "", "clusterSelector: {}, releaseName: web, repoURL: \""+r.registry+"\", version: 1.1.0, options: {takeOwnership: true}")
	r.want("one", "Ready", "True")
	if d := r.data("web"); d["version"] != "1.1.0" {
		r.t.Errorf("taken over, the cluster has %v", d)
	}
}

// testKilled sends SIGKILL to a process that upgrades a release of ours, while the hub is paused.
func testKilled(r *room) {
	r.cluster("one", "")
	r.proxy("web", "", "clusterSelector: {}, releaseName: web, repoURL: \""+r.registry+"\", version: 1.0.0")
	hrp := r.want("one", "Ready", "True")
	pause := func(value string) {
		patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: %s}}}`, caaph.Paused, value)
		if err := r.Patch(r.t.Context(), &hrp, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			r.t.Fatal(err)
		}
	}
	pause(`"true"`)
	dir := r.t.TempDir()
	j := job{Kubeconfig: filepath.Join(dir, "kubeconfig"), Namespace: r.namespace + "-on-clusters", Chart: filepath.Join(dir, "web.tgz")}
	if err := controlplane.WriteKubeconfig(j.Kubeconfig, r.config); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(j.Chart, endless(r.t), 0o600); err != nil {
		r.t.Fatal(err)
	}
	text, err := json.Marshal(j)
	if err != nil {
		r.t.Fatal(err)
	}
	child := exec.CommandContext(r.t.Context(), os.Args[0])
	child.Env, child.Stderr = append(os.Environ(), upgradeJob+"="+string(text)), os.Stderr
	if err := child.Start(); err != nil {
		r.t.Fatal(err)
	}
	helm := r.helm()
	r.eventually("the upgrade began", func() (bool, string) {
		got, err := helm.Get(r.t.Context(), "web")
		return got.Status == "pending-upgrade", fmt.Sprint(got.Status, err)
	})
	if err := child.Process.Kill(); err != nil {
		r.t.Fatal(err)
	}
	_ = child.Wait()
	pause("null")
	r.change("web", `{"spec": {"version": "1.1.0"}}`)
	r.eventually("recovered", func() (bool, string) {
		got, err := helm.Get(r.t.Context(), "web")
		return err == nil && got.Status == "deployed" && got.Version == "1.1.0" && got.Revision >= 3, fmt.Sprint(got.Status, got.Version, err)
	})
}

// testProgressive rolls out over six clusters, two at a time after the canary. One fails, and it stops.
func testProgressive(r *room) {
	for _, c := range []string{"a", "b", "c", "d", "e"} {
		r.cluster(c, "")
	}
	r.cluster("z", "tier: canary")
	const strategy = `{rolloutStrategy: {type: Progressive, progressive: {mandatoryDecisionGroups: [{groupName: canary}], maxConcurrency: 2}},
		decisionGroups: [{groupName: canary, groupClusterSelector: {labelSelector: {matchLabels: {tier: canary}}}}]}`
	r.proxy("web", chartplan.RolloutAnnotation+": \""+strings.ReplaceAll(strategy, "\n\t\t", " ")+"\"",
		"clusterSelector: {}, repoURL: \""+r.registry+"\", version: 1.0.0, valuesTemplate: \"fail: {{ eq .Cluster.metadata.name \\\"c\\\" }}\"")
	var order []string
	r.eventually("the rollout stops", func() (bool, string) {
		for name := range r.hrps() {
			if !slices.Contains(order, name) {
				order = append(order, name)
			}
		}
		s := says(r.hcp("web").Status.Conditions, "HelmReleaseProxySpecsUpToDate")
		return strings.Contains(s, "RolloutStopped"), s
	})
	if order[0] != "z" {
		r.t.Errorf("the canary is not first of %v", order)
	}
	has := r.hrps()
	if _, started := has["e"]; started {
		r.t.Errorf("a cluster started after one had failed: %v", order)
	}
	r.want("c", "HelmReleaseReady", "it does not work here")
	for _, c := range []string{"z", "a", "b"} {
		if s := says(has[c].Status.Conditions, "HelmReleaseReady"); !strings.HasPrefix(s, "True") {
			r.t.Errorf("cluster %s: %s", c, s)
		}
	}
	r.change("web", `{"spec": {"valuesTemplate": ""}}`)
	r.eventually("the repaired rollout ends", func() (bool, string) {
		s := says(r.hcp("web").Status.Conditions, "Ready")
		return strings.HasPrefix(s, "True") && len(r.hrps()) == 6, s
	})
}

// testUnreachable rolls out one cluster at a time, and the first does not answer.
func testUnreachable(r *room) {
	r.clusterAt("a", "", "https://127.0.0.1:1")
	r.cluster("b", "")
	r.cluster("c", "")
	r.proxy("web", chartplan.RolloutAnnotation+`: "{rolloutStrategy: {type: Progressive, progressive: {maxConcurrency: 1}}}"`,
		"clusterSelector: {}, repoURL: \""+r.registry+"\", version: 1.0.0")
	r.want("a", "ClusterAvailable", "False")
	r.want("b", "Ready", "True")
	r.want("c", "Ready", "True")
	r.wantChart("web", "Ready", "False")
}

func testAdmission(r *room) {
	make := func(spec string) error {
		o := new(unstructured.Unstructured)
		o.Object = map[string]any{"apiVersion": caaph.APIVersion, "kind": "HelmChartProxy", "metadata": map[string]any{"generateName": "x-", "namespace": r.namespace},
			"spec": map[string]any{"clusterSelector": map[string]any{"matchLabels": map[string]any{"none": "none"}}, "chartName": "web", "repoURL": spec}}
		return r.Create(r.t.Context(), o)
	}
	for url, refused := range map[string]bool{"https://a.example": false, "oci://a.example/b": false, "http://a.example": true, "file:///a": true, "OCI://a": true} {
		if err := make(url); (err != nil) != refused || err != nil && !strings.Contains(err.Error(), "the scheme must be https or oci") {
			r.t.Errorf("%s: %v", url, err)
		}
	}
	r.create(r.t, "apiVersion: addons.cluster.x-k8s.io/v1alpha1\nkind: HelmChartProxy\nmetadata: {name: web, namespace: "+r.namespace+"}\n"+
		"spec: {clusterSelector: {matchLabels: {none: none}}, chartName: web, repoURL: \"https://a.example\", options: {atomic: true}}\n")
	hcp := r.hcp("web")
	if s := hcp.Spec; s.ReleaseNamespace != "default" || !s.Options.Wait || s.Options.Timeout == nil || s.Options.Timeout.Minutes() != 10 {
		r.t.Errorf("defaults are %+v", s)
	}
	once := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"reconcileStrategy": "InstallOnce"}}`))
	if err := r.Patch(r.t.Context(), hcp, once); err == nil || !strings.Contains(err.Error(), "field is immutable") {
		r.t.Errorf("a strategy that changes: %v", err)
	}
}

// testHostile has kubeconfigs and templates that harm the hub, beside a working cluster.
func testHostile(r *room) {
	r.cluster("good", "")
	for name, part := range map[string]string{
		"exec":     "exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, args: [-c, touch /tmp/owned], interactiveMode: Never}",
		"provider": "auth-provider: {name: oidc}",
		"file":     "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token",
		"none":     "",
	} {
		text := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: \"https://127.0.0.1:1\"}}]\nusers: [{name: u, user: {" + part + "}}]\n"
		if part == "" {
			text = "{}"
		}
		r.secret(name+"-kubeconfig", "value", []byte(text))
		r.create(r.t, "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: "+name+", namespace: "+r.namespace+"}\n"+
			"spec: {controlPlaneRef: {apiVersion: v1, kind: Secret, name: pull}}\n")
	}
	r.create(r.t, "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: young, namespace: "+r.namespace+"}\nstatus: {initialization: {controlPlaneInitialized: false}}\n")
	r.proxy("web", "", "clusterSelector: {}, releaseName: web, repoURL: \""+r.registry+"\", version: 1.0.0")
	r.want("good", "Ready", "True")
	r.want("exec", "ClusterAvailable", "it runs a program (exec)")
	r.want("provider", "ClusterAvailable", "it has an auth-provider")
	r.want("file", "ClusterAvailable", "it names files")
	r.want("none", "ClusterAvailable", "it has no current context")
	r.want("young", "ClusterAvailable", "GetKubeconfigFailed")
	r.proxy("secret", "", "clusterSelector: {}, releaseName: other, repoURL: \""+r.registry+"\", version: 1.0.0, valuesTemplate: \"text: {{ .ControlPlane }}\"")
	r.wantChart("secret", "HelmReleaseProxySpecsUpToDate", "refers to a kind outside of *.cluster.x-k8s.io")
	r.proxy("endless", "", "clusterSelector: {}, releaseName: third, repoURL: \""+r.registry+"\", version: 1.0.0, valuesTemplate: \"{{ range until 100000000 }}x{{ end }}\"")
	r.wantChart("endless", "HelmReleaseProxySpecsUpToDate", "exceeds")
	if _, err := r.helm().Get(r.t.Context(), "third"); !errors.Is(err, release.ErrNotFound) {
		r.t.Errorf("an endless template installed: %v", err)
	}
}

// testMirrors configures mirrors for a cluster, removes them, and checks the image of a Pod of the chart.
func testMirrors(r *room) {
	r.cluster("one", "")
	r.proxy("web", "", "clusterSelector: {}, releaseName: web, repoURL: \""+r.registry+"\", version: 1.0.0, valuesTemplate: \"pod: true\"")
	r.want("one", "Ready", "True")
	image := func() string {
		var p corev1.PodTemplate
		if err := r.Get(r.t.Context(), client.ObjectKey{Namespace: r.namespace + "-on-clusters", Name: "web"}, &p); err != nil {
			return err.Error()
		}
		return p.Template.Spec.Containers[0].Image
	}
	annotate := func(value string) {
		o := new(unstructured.Unstructured)
		o.SetAPIVersion("cluster.x-k8s.io/v1beta2")
		o.SetKind("Cluster")
		o.SetNamespace(r.namespace)
		o.SetName("one")
		patch := fmt.Sprintf(`{"metadata": {"annotations": {"open-cluster-management.io/image-registries": %s}}}`, value)
		if err := r.Patch(r.t.Context(), o, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			r.t.Fatal(err)
		}
	}
	if got := image(); got != "registry.example.io/web:1" {
		r.t.Errorf("the image is %s", got)
	}
	annotate(`"{\"registries\": [{\"source\": \"registry.example.io\", \"mirror\": \"ship.local:5000\"}]}"`)
	r.eventually("the mirror", func() (bool, string) { return image() == "ship.local:5000/web:1", image() })
	annotate("null")
	r.eventually("no mirror", func() (bool, string) { return image() == "registry.example.io/web:1", image() })
	r.eventually("it is at rest", func() (bool, string) {
		h := r.hrps()["one"]
		return h.Status.Revision == 3, strconv.Itoa(h.Status.Revision)
	})
}
