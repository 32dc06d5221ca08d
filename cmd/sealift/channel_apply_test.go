package main

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/channel"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/testing/objects"
	"github.com/sealift/sealift/kube/render"
)

func testChannelPrune(c *channelCluster) {
	const labelled = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: kube-system, labels: {k8s-addon: pruned}}\n---\n"
	objects := func(names ...string) (text string) {
		for _, name := range names {
			text += fmt.Sprintf(labelled, name)
		}
		return text
	}
	there := func() (names []string) {
		for _, name := range []string{"prune-a", "prune-b", "prune-stranger", "prune-stranger-labelled"} {
			if c.get("v1/configmaps", "kube-system", name) != nil {
				names = append(names, name)
			}
		}
		return names
	}
	c.write("v1.yaml", objects("prune-a", "prune-b"))
	c.write("v2.yaml", objects("prune-a"))
	c.create("v1/configmaps", configMap("prune-stranger", "1"))
	c.create("v1/configmaps", objects("prune-stranger-labelled"))
	all := []string{"prune-a", "prune-b", "prune-stranger", "prune-stranger-labelled"}
	without := []string{"prune-a", "prune-stranger", "prune-stranger-labelled"}
	entry := func(version, manifest, rest string) string {
		return c.index("addons.yaml", fmt.Sprintf("{name: pruned, version: %s, selector: {k8s-addon: pruned}, manifest: %s.yaml%s}", version, manifest, rest))
	}
	const rules = ", prune: {kinds: [{kind: ConfigMap, labelSelector: k8s-addon=pruned, namespaces: [kube-system]}]}"
	for _, step := range []struct {
		name, version, manifest, rules string
		args                           []string
		want                           []string
	}{
		{"both versions' objects", "1.0.0", "v1", rules, nil, all},
		{"without rules nothing goes", "1.1.0", "v2", "", nil, all},
		{"the rules of the new version count", "1.2.0", "v2", rules, nil, without},
		{"again with both", "1.3.0", "v1", "", nil, all},
		{"--prune goes by the selector", "1.4.0", "v2", "", []string{"--prune"}, without},
	} {
		c.must(append([]string{"apply", "--yes", "-f", entry(step.version, step.manifest, step.rules)}, step.args...)...)
		if got := there(); !slices.Equal(got, step.want) {
			c.Errorf("%s: the cluster has %v, want %v", step.name, got, step.want)
		}
	}
	c.write("v2.yaml", "# cut off\n")
	if code, _, errOut := c.sealift("apply", "--yes", "-f", entry("1.5.0", "v2", rules)); code != app.ExitFailed || !strings.Contains(errOut, "has no objects") || !slices.Equal(there(), without) {
		c.Errorf("an empty manifest: exit code %d: %s\n%v", code, errOut, there())
	}
	c.write("v2.yaml", objects("prune-a"))
	// The port is free once the old service is pruned, and so the second apply succeeds where the first cannot.
	service := "apiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: kube-system, labels: {k8s-addon: ported}}\nspec: {type: NodePort, ports: [{port: 80, nodePort: 30080}]}\n"
	for _, version := range []string{"1.0.0", "2.0.0"} {
		c.write("port.yaml", fmt.Sprintf(service, "port-"+version[:1]))
		c.must("apply", "--yes", "-f", c.index("port-addons.yaml", "{name: ported, version: "+version+", manifest: port.yaml, prune: {kinds: [{kind: Service, labelSelector: k8s-addon=ported}]}}"))
	}
	if c.get("v1/services", "kube-system", "port-1") != nil || c.get("v1/services", "kube-system", "port-2") == nil {
		c.Error("the service with the port of the old one is not there")
	}
	unknown := entry("1.6.0", "v2", ", prune: {kinds: [{group: example.org, kind: Nothing}]}")
	if code, _, errOut := c.sealift("apply", "--yes", "-f", unknown); code != app.ExitFailed || !strings.Contains(errOut, "Nothing.example.org") {
		c.Errorf("an unknown kind: exit code %d: %s", code, errOut)
	}
	c.clear()
}

func testChannelEdit(c *channelCluster) {
	c.write("v1.yaml", configMap("edited", "1"))
	c.write("v2.yaml", configMap("edited", "2"))
	c.must("apply", "--yes", "-f", c.index("addons.yaml", "{name: edited, version: 1.0.0, manifest: v1.yaml}"))
	obj := c.get("v1/configmaps", "kube-system", "edited")
	if err := unstructured.SetNestedStringMap(obj.Object, map[string]string{"value": "mine", "more": "mine"}, "data"); err != nil {
		c.Fatal(err)
	}
	if _, err := c.client.Resource(gvr("v1/configmaps")).Namespace("kube-system").Update(c.Context(), obj, metav1.UpdateOptions{FieldManager: "kubectl-edit"}); err != nil {
		c.Fatal(err)
	}
	if out := c.must("apply", "--yes", "-f", c.dir+"/addons.yaml"); out != "No update required\n" || c.value("edited") != "mine" {
		c.Errorf("the edit is %q after %s", c.value("edited"), out)
	}
	c.must("apply", "--yes", "-f", c.index("addons.yaml", "{name: edited, version: 1.0.1, manifest: v2.yaml}"))
	if got := c.get("v1/configmaps", "kube-system", "edited").Object["data"]; fmt.Sprint(got) != "map[value:2]" {
		c.Errorf("the next version leaves %v", got)
	}
	c.clear()
}

func testChannelFailures(c *channelCluster) {
	c.write("good.yaml", configMap("fine", "1"))
	c.write("broken.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: [\n")
	c.write("refused.yaml", configMap("refused-beside", "1")+"---\n"+strings.Replace(configMap("x", "1"), "name: x", "name: Not_A_Name", 1))
	c.write("unplaced.yaml", configMap("unplaced-beside", "1")+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: unplaced}\n")
	file := c.index("addons.yaml",
		"{name: broken, version: 1.0.0, manifest: broken.yaml}",
		"{name: missing, version: 1.0.0, manifest: missing.yaml}",
		"{name: refused, version: 1.0.0, manifest: refused.yaml}",
		"{name: unplaced, version: 1.0.0, manifest: unplaced.yaml}",
		"{name: nowhere, version: 1.0.0, manifest: good.yaml, namespace: not-there}",
		"{name: odd, version: 1.0.0, manifest: good.yaml, needsRollingUpdate: masters}",
		"{name: fine, version: 1.0.0, manifest: good.yaml}")
	code, out, errOut := c.sealift("apply", "--yes", "-f", file)
	if code != app.ExitFailed || !strings.HasSuffix(out, "Updated \"fine\" to 1.0.0\n") || strings.Count(out, "Updated") != 1 {
		c.Errorf("exit code %d: %s", code, out)
	}
	for _, want := range []string{
		`error updating "broken": manifest `, `error updating "missing": manifest `, `error updating "refused": not all objects were applied`,
		`error updating "unplaced": not all objects were applied: ConfigMap/unplaced has no namespace`, `error updating "nowhere": error querying namespace "not-there"`,
		`error updating "odd": needsRollingUpdate "masters"`,
	} {
		if !strings.Contains(errOut, want) {
			c.Errorf("%q is not in\n%s", want, errOut)
		}
	}
	for _, name := range []string{"fine", "refused-beside", "unplaced-beside"} {
		if c.value(name) != "1" {
			c.Errorf("%s was not applied", name)
		}
	}
	if got := c.must("get"); strings.Count(got, "\n") != 2 || !strings.Contains(got, "fine") {
		c.Errorf("recorded: %s", got)
	}
	c.write("checked.yaml", configMap("checked", "1"))
	file = c.index("verified.yaml", "{name: checked, version: 1.0.0, manifest: checked.yaml, manifestHash: "+channel.ManifestHash([]byte("other"))+"}")
	if code, _, errOut := c.sealift("apply", "--yes", "--verify", "-f", file); code != app.ExitFailed || !strings.Contains(errOut, "its index declares manifestHash") {
		c.Errorf("exit code %d: %s", code, errOut)
	}
	if code, _, errOut := c.sealift("apply", "--yes", "-f", file); code != app.ExitDone || !strings.Contains(errOut, "do not agree") {
		c.Errorf("exit code %d: %s", code, errOut)
	}
	file = c.index("verified.yaml", "{name: other, version: 1.0.1, manifest: good.yaml, manifestHash: "+channel.ManifestHash([]byte(configMap("fine", "1")))+"}")
	const move = `ConfigMap/kube-system/fine moves from add-on "fine" to "other"`
	if _, out, errOut := c.sealift("apply", "-f", file); !strings.Contains(errOut, move) || !strings.HasSuffix(out, "Must specify --yes to update\n") {
		c.Errorf("a move is not told before: %s%s", out, errOut)
	}
	if out := c.must("plan", "-f", file); !strings.HasSuffix(out, move+"\n") {
		c.Errorf("a move is not planned: %s", out)
	}
	if code, _, errOut := c.sealift("apply", "--yes", "--verify", "-f", file); code != app.ExitDone || !strings.Contains(errOut, `ConfigMap/kube-system/fine moves from add-on "fine", which is not in these channels, to "other"`) || strings.Contains(errOut, "applyset-") {
		c.Errorf("two add-ons with one object: exit code %d: %s", code, errOut)
	}
	c.clear()
}

func testChannelBadIndexes(c *channelCluster) {
	line := objects.Start(c).Line(c)
	line.Plan(func(*http.Request) objects.Fault { return objects.Fault{Status: http.StatusInternalServerError} })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/circle":
			http.Redirect(w, r, "/circle2", http.StatusFound)
		case "/circle2":
			http.Redirect(w, r, "/circle", http.StatusFound)
		case "/403":
			w.WriteHeader(http.StatusForbidden)
		default:
			http.NotFound(w, r)
		}
	}))
	c.Cleanup(server.Close)
	for _, tt := range []struct {
		name, location, err string
	}{
		{"invalid YAML", c.write("yaml.yaml", "kind: Addons\nspec: ["), "error parsing addons or manifest"},
		{"a version that is none", c.index("version.yaml", "{version: 1.0-kops, manifest: a}"), `addon "version" has unparseable version "1.0-kops"`},
		{"no manifest", c.index("manifest.yaml", "{version: 1.0.0}"), "spec.manifest: Required value"},
		{"a bootstrap index with a range", c.index("boot.yaml", "{version: 1.0.0, manifest: a, kubernetesVersion: '>=1.6.0'}"), `bootstrap addon "boot" has a KubernetesVersion`},
		{"a redirect in a circle", server.URL + "/circle", "redirects form a loop"},
		{"no such file", c.dir + "/nothing.yaml", "no such file"},
		{"nothing on the web", server.URL + "/nothing", "does not exist"},
		{"forbidden", server.URL + "/403", "403 Forbidden"},
		{"a server that fails", line.URL("addons.yaml"), "500"},
		{"a scheme that is not spoken", "gs://bucket/addons.yaml", `scheme "gs" is not supported`},
	} {
		code, out, errOut := c.sealift("apply", tt.location, "--yes", "--bootstrap")
		if code == app.ExitDone || out != "" || !strings.Contains(errOut, tt.err) {
			c.Errorf("%s: exit code %d: %s%s", tt.name, code, out, errOut)
		}
	}
}

func testChannelNodes(c *channelCluster) {
	for name, label := range map[string]string{"control": "node-role.kubernetes.io/control-plane", "master": "node-role.kubernetes.io/master", "worker": "node-role.kubernetes.io/node"} {
		c.create("v1/nodes", fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata: {name: %s, labels: {%s: ''}}\n", name, label))
	}
	c.write("a.yaml", configMap("rolling", "1"))
	for _, step := range []struct {
		version, which string
		want           []string
	}{
		{"1.0.0", "all", nil}, // the first install is not an update
		{"1.1.0", "workers", []string{"worker"}},
		{"1.2.0", "control-plane", []string{"control", "master"}},
		{"1.3.0", "''", nil},
		{"1.4.0", "all", []string{"control", "master", "worker"}},
	} {
		c.must("apply", "--yes", "-f", c.index("addons.yaml", fmt.Sprintf("{name: rolling, version: %s, manifest: a.yaml, needsRollingUpdate: %s}", step.version, step.which)))
		var got []string
		for _, name := range []string{"control", "master", "worker"} {
			if value, marked := c.get("v1/nodes", "", name).GetAnnotations()["kops.k8s.io/needs-update"]; marked && value == "" {
				got = append(got, name)
			}
			c.patch("v1/nodes", "", name, `{"metadata":{"annotations":{"kops.k8s.io/needs-update":null}}}`)
		}
		if !slices.Equal(got, step.want) {
			c.Errorf("%s %s: nodes %v, want %v", step.version, step.which, got, step.want)
		}
	}
	c.clear()
}

func testChannelPKI(c *channelCluster) {
	c.write("a.yaml", configMap("keyed", "1"))
	file := c.index("addons.yaml", "{name: keyed, version: 1.0.0, manifest: a.yaml, needsPKI: true}")
	code, _, errOut := c.sealift("apply", "--yes", "-f", file)
	if code != app.ExitFailed || !strings.Contains(errOut, "needsPKI needs cert-manager") {
		c.Errorf("without cert-manager: exit code %d: %s", code, errOut)
	}
	c.must("apply", "--yes", "-f", c.write("crd.yaml", definition("issuers", "Issuer", "cert-manager.io", "v1", "Namespaced")))
	for _, what := range []string{"", "v1/secrets keyed-ca", "cert-manager.io/v1/issuers keyed"} {
		if resource, name, ok := strings.Cut(what, " "); ok {
			if err := c.client.Resource(gvr(resource)).Namespace("kube-system").Delete(c.Context(), name, metav1.DeleteOptions{}); err != nil {
				c.Fatal(err)
			}
		}
		if out := c.must("apply", "--yes", "-f", file); out != "NAME\tCURRENT\tUPDATE\tPKI\nkeyed\t1.0.0\t-\tyes\nUpdated \"keyed\"\n" {
			c.Errorf("%q", out)
		}
		secret, issuer := c.get("v1/secrets", "kube-system", "keyed-ca"), c.get("cert-manager.io/v1/issuers", "kube-system", "keyed")
		if secret == nil || issuer == nil {
			c.Fatal("no keys were made")
		}
		checkCA(c, secret, "keyed")
		if name, _, _ := unstructured.NestedString(issuer.Object, "spec", "ca", "secretName"); name != "keyed-ca" {
			c.Errorf("the issuer uses %q", name)
		}
	}
	if out := c.must("apply", "--yes", "-f", file); out != "No update required\n" {
		c.Error(out)
	}
	c.clear()
}

func checkCA(t testing.TB, secret *unstructured.Unstructured, name string) {
	t.Helper()
	text, _, _ := unstructured.NestedString(secret.Object, "data", "tls.crt")
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		t.Fatal("tls.crt is no PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := cert.CheckSignatureFrom(cert); err != nil || !cert.IsCA || cert.Subject.CommonName != name {
		t.Errorf("CA %v, name %s, %v", cert.IsCA, cert.Subject.CommonName, err)
	}
	if kind, _, _ := unstructured.NestedString(secret.Object, "type"); kind != "kubernetes.io/tls" {
		t.Errorf("the secret is a %s", kind)
	}
}

// testChannelTakeOver begins with the state that kOps leaves in a cluster, and ends with kOps's own next apply.
func testChannelTakeOver(c *channelCluster) {
	kops := func(doc string) error {
		objs, err := render.Decode(strings.NewReader(doc))
		if err != nil {
			c.Fatal(err)
		}
		_, err = c.client.Resource(gvr("v1/configmaps")).Namespace("kube-system").Apply(c.Context(), objs[0].GetName(), objs[0], metav1.ApplyOptions{FieldManager: "kops"})
		return err
	}
	labels := func(doc string) string {
		return strings.Replace(doc, "labels: {", "labels: {app.kubernetes.io/managed-by: kops, addon.kops.k8s.io/name: taken, ", 1)
	}
	for _, name := range []string{"taken", "taken-old"} {
		if err := kops(labels(configMap(name, "1"))); err != nil {
			c.Fatal(err)
		}
	}
	// charts set managed-by, and kOps called kubectl apply before 1.22
	if err := kops(strings.Replace(configMap("taken-chart", "1"), "labels: {", "labels: {app.kubernetes.io/managed-by: Helm, k8s-addon: taken, ", 1)); err != nil {
		c.Fatal(err)
	}
	old, err := render.Decode(strings.NewReader(strings.Replace(configMap("taken-kubectl", "1"), "labels: {", "annotations: {kubectl.kubernetes.io/last-applied-configuration: '{}'}, labels: {k8s-addon: taken, ", 1)))
	if err == nil {
		_, err = c.client.Resource(gvr("v1/configmaps")).Namespace("kube-system").Create(c.Context(), old[0], metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"})
	}
	if err != nil {
		c.Fatal(err)
	}
	record := `{"channel":"s3://clusters/prod/addons/bootstrap-channel.yaml","manifestHash":"h1","systemGeneration":1}`
	c.record("kube-system", "taken", record)
	c.write("a.yaml", labels(configMap("taken", "2")))
	entry := "{name: taken, manifest: a.yaml, manifestHash: %s, prune: {kinds: [{kind: ConfigMap, labelSelector: 'addon.kops.k8s.io/name=taken,app.kubernetes.io/managed-by=kops'}, {kind: ConfigMap, labelSelector: k8s-addon=taken}]}}"
	if out := c.must("apply", "--yes", "-f", c.index("addons.yaml", fmt.Sprintf(entry, "h1"))); out != "No update required\n" || c.recorded("kube-system", "taken") != record {
		c.Errorf("%s; recorded %s", out, c.recorded("kube-system", "taken"))
	}
	c.must("apply", "--yes", "-f", c.index("addons.yaml", fmt.Sprintf(entry, "h2")))
	if c.value("taken") != "2" || c.value("taken-old")+c.value("taken-chart")+c.value("taken-kubectl") != "" {
		c.Errorf("taken is %q, taken-old %q, taken-chart %q, taken-kubectl %q", c.value("taken"), c.value("taken-old"), c.value("taken-chart"), c.value("taken-kubectl"))
	}
	for _, entry := range c.get("v1/configmaps", "kube-system", "taken").GetManagedFields() {
		if entry.Manager != "kops" {
			c.Errorf("fields belong to %s", entry.Manager)
		}
	}
	var back channel.Record
	if err := json.Unmarshal([]byte(c.recorded("kube-system", "taken")), &back); err != nil || back.ManifestHash != "h2" || back.SystemGeneration != 1 || back.Version != nil {
		c.Errorf("recorded %+v (%v)", back, err)
	}
	if err := kops(labels(strings.Replace(configMap("taken", "3"), "value:", "other:", 1))); err != nil {
		c.Errorf("kOps cannot go on: %v", err)
	}
	if got := fmt.Sprint(c.get("v1/configmaps", "kube-system", "taken").Object["data"]); got != "map[other:3]" {
		c.Errorf("kOps's apply leaves %s", got)
	}
	c.clear()
}

func testChannelMerge(c *channelCluster) {
	for _, value := range []string{"base", "override", "older"} {
		c.write(value+".yaml", configMap("merged", value))
	}
	base := c.index("one.yaml", "{name: merged, version: 1.0.0, manifest: base.yaml}")
	override := c.index("two.yaml", "{name: merged, version: 1.0.0, id: mine, manifest: override.yaml}")
	older := c.index("three.yaml", "{name: merged, version: 0.9.0, id: old, manifest: older.yaml}")
	c.must("apply", "--yes", base, override, "-f", older)
	if c.value("merged") != "override" || !strings.Contains(c.recorded("kube-system", "merged"), override) {
		c.Errorf("%s, recorded %s", c.value("merged"), c.recorded("kube-system", "merged"))
	}
	code, out, errOut := c.sealift("apply", "--yes", base, c.dir+"/nothing.yaml")
	if code != app.ExitFailed || out != "" || c.value("merged") != "override" {
		c.Errorf("with one channel missing: exit code %d: %s%s", code, out, errOut)
	}
	c.clear()
}
