//go:build grid

package airgap_test

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/lab/mirror"
)

// townFiles are a module that others require. It also has a definition.
var townFiles = map[string]string{
	"Manifest": "", "install.sh": "# shellcheck shell=bash\n", "values.yaml": "town: {name: Bremen}\n",
	"addon.yaml":         "description: A town\nrequires: [kubernetes]\n",
	"templates/map.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: town}\ndata: {name: {{ .Values.town.name }}}\n",
	"crds/town.yaml": `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: towns.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: towns, singular: town, kind: Town, listKind: TownList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`,
}

// parkFiles are a module that the second bundle has no longer.
var parkFiles = map[string]string{
	"Manifest": "", "install.sh": "# shellcheck shell=bash\n", "addon.yaml": "description: A park\nafter: [town]\n",
	"templates/map.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: park}\n",
}

// addOn writes the files of an add-on.
func addOn(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		place(t, filepath.Join(dir, name), []byte(text))
	}
	return dir
}

// serveOperator makes the operator's image as 'make image' does, but without kubectl and helm, and serves it under its name.
func (r delivery) serveOperator(t *testing.T) {
	t.Helper()
	compile(t, r.dir(), "./cmd/sealift-controller")
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	shell(t, repository, "go run ./deploy/image -operator "+shellword.Quote(filepath.Join(r.dir(), "sealift-controller"))+" -out "+shellword.Quote(filepath.Join(r.dir(), "operator.tar"))+
		" && skopeo copy --quiet --dest-tls-verify=false oci-archive:"+shellword.Quote(filepath.Join(r.dir(), "operator.tar"))+" docker://"+address+"/sealift/operator:0.1.0")
	r.mirror(t, "ghcr.io/sealift", "http://"+address+"/sealift")
}

// lint runs the linter on an add-on, which has other findings, too: it is made only for this test.
func (r delivery) lint(t *testing.T, addOn string, flags ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), r.sealift, append([]string{"addon", "lint", addOn}, flags...)...)
	cmd.Dir = repository
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// modulesRoad makes two bundles with modules: one for an install, and one with a newer module and other options.
func modulesRoad(t *testing.T) (r delivery, newer string) {
	t.Helper()
	demo := build(t, current, "debian-12")
	r = demo
	dir := filepath.Join(demo.dir(), "modules")
	greeter := filepath.Join(dir, "addons/greeter/1.0")
	r.config, r.packages, r.usb, newer = filepath.Join(dir, "sealift.yaml"), filepath.Join(dir, "packages"), filepath.Join(dir, "usb"), filepath.Join(dir, "newer")
	shell(t, demo.dir(), "mkdir -p modules/usb modules/newer && cp -rl packages modules/packages")
	// The demo's module has a chart, a schema and a hook, which has to see the nodes of the cluster. It brings the right to.
	shell(t, repository, "mkdir -p "+shellword.Quote(filepath.Dir(greeter))+" && cp -r testgrid/demo/greeter/0.1.0 "+shellword.Quote(greeter))
	shell(t, greeter, "sed -i 's/^requires:.*/requires: [town]/' addon.yaml && : >Manifest")
	town, park := addOn(t, filepath.Join(dir, "addons/town/1.0"), townFiles), addOn(t, filepath.Join(dir, "addons/park/1.0"), parkFiles)
	const missing = "container web: image docker.io/library/busybox:1.35.0 is not in the Manifest"
	if out := r.lint(t, greeter); !strings.Contains(out, missing) {
		t.Errorf("lint does not find the image of the chart:\n%s", out)
	}
	if out := r.lint(t, greeter, "--write"); !strings.Contains(out, "busybox") {
		t.Errorf("lint --write:\n%s", out)
	}
	if out := r.lint(t, greeter); strings.Contains(out, missing) {
		t.Errorf("lint does not find the image in the Manifest:\n%s", out)
	}
	shell(t, dir, "cp -a addons/greeter/1.0 addons/greeter/1.1 && sed -i 's/ node >/ node of 1.1 >/' addons/greeter/1.1/templates/web.yaml")
	r.mirrored(t, mirror.Options{}, func() {
		r.serveOperator(t)
		r.run(t, "build", "addons/operator/0.1.0", town, park, greeter, filepath.Join(dir, "addons/greeter/1.1"),
			"--out", r.packages, "--target", "debian-12", "--config", r.config, "--cache", r.cache)
	})
	text, err := os.ReadFile(filepath.Join(demo.dir(), "installer.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ usb, modules string }{
		{r.usb, "  town: {version: '1.0'}\n  park: {version: '1.0'}\n  greeter: {version: '1.0', greeting: moin}\n"},
		{newer, "  town: {version: '1.0'}\n  greeter: {version: '1.1', greeting: hallo, replicas: 2}\n  operator: {version: latest, replicas: 2}\n"},
	} {
		installer := row.usb + ".yaml"
		place(t, installer, []byte(strings.TrimSpace(string(text))+"\n"+row.modules))
		r.run(t, "bundle", "-f", installer, "--store", r.packages, "--out", filepath.Join(row.usb, "cluster.tar.gz"))
		shell(t, row.usb, "tar xzf cluster.tar.gz install.sh upgrade.sh")
	}
	return r, newer
}

// eventually repeats a script until it prints the expected text.
func (n node) eventually(script, want string) {
	n.t.Helper()
	n.must("for i in $(seq 240); do [ \"$(" + script + ")\" = " + shellword.Quote(want) + " ] && exit; sleep 0.5; done; echo \"$(" + script + ")\"; " +
		kubectl + "-n addon-operator get pods; " + kubectl + "-n addon-operator logs deployment/operator --tail=100; exit 1")
}

const (
	inOperator = kubectl + "--namespace addon-operator "
	modules    = inOperator + "exec deployment/operator -- addon-operator module list"
	// greets prints the greeting of the module's Deployment.
	greets = inOperator + `get --raw /api/v1/namespaces/addon-operator/pods/$(` + inOperator +
		`get pods --selector app=greeter --sort-by=.metadata.creationTimestamp -o jsonpath='{.items[-1:].metadata.name}'):8080/proxy/ 2>&1`
)

// TestInstallerInstallsModules installs a cluster with modules on a host without a route out, changes their values, lets a control
// plane join, brings a newer module and a second operator, and takes all of it back.
func TestInstallerInstallsModules(t *testing.T) {
	r, newer := modulesRoad(t)
	n := node{lab.Host(t, host.Spec{USB: []string{r.usb, newer}}), t}
	n.refuses("ip route get 1.1.1.1", 2, "unreachable")
	bare := n.state()
	t.Log(n.must(install + " 2>&1"))

	n.eventually(greets, "moin from 1 node")
	n.says(modules, "town: on, because the ConfigMap says true\n", "park: on,", "greeter: on, because the ConfigMap says true\n")
	n.says(kubectl+"get customresourcedefinition towns.example.com", "towns.example.com")
	n.says(inOperator+"get configmap addon-operator -o jsonpath='{.data.greeter}'", "greeting: moin\nreplicas: 1\n")
	secondRun(n)

	n.must(inOperator + `patch configmap addon-operator --type merge -p '{"data":{"greeter":"# ours\ngreeting: servus\nreplicas: 1\n"}}'`)
	n.eventually(greets, "servus from 1 node")
	n.must(inOperator + `patch configmap addon-operator --type merge -p '{"data":{"townEnabled":"false"}}'`)
	n.eventually(inOperator+"get deployments,configmaps -o name | grep -c 'greeter\\|/town'", "0")
	n.says(modules, "town: off, because the ConfigMap says false\n", "greeter: off, because it requires town, and module town is off\n")
	n.must(inOperator + `patch configmap addon-operator --type merge -p '{"data":{"townEnabled":"true"}}'`)
	n.eventually(greets, "servus from 1 node")

	second := node{lab.Host(t, host.Spec{}), t}
	second.must(n.joinCommand(controlPlane))
	n.eventually(greets, "servus from 2 node") // a hook has seen the node
	n.says(inOperator+"get configmaps -o name", "configmap/park")

	for definition, want := range map[string]string{"towns.example.com": "yes", "parks.example.com": "no"} {
		n.eventually(kubectl+"auth can-i update customresourcedefinitions/"+definition+" --as system:serviceaccount:addon-operator:operator 2>/dev/null", want)
	}

	out := n.must(upgrade + " yes 2>&1")
	for _, text := range []string{"greeter 1.0 -> 1.1", "park 1.0 is no longer in the Installer", "operator 0.1.0 gets other options"} {
		if !strings.Contains(out, text) {
			t.Errorf("the upgrade does not say %q:\n%s", text, out)
		}
	}
	if strings.Contains(out, "town 1.0") {
		t.Errorf("the upgrade changes a module that stays as it is:\n%s", out)
	}
	n.says(upgrade+" yes 2>&1", "nothing to do")
	n.eventually(greets, "servus from 2 node of 1.1")
	n.eventually(inOperator+"get pods --selector app=operator --field-selector status.phase=Running -o jsonpath='{.items[*].spec.nodeName}' | xargs -n1 | sort -u | wc -l", "2")
	n.must(inOperator + "rollout status deployment/operator --timeout=180s")
	n.eventually(inOperator+"get configmaps -o name | grep -c /park", "0")
	n.eventually(inOperator+"get configmap addon-operator -o jsonpath='{.data.parkEnabled}.'", ".")
	n.eventually(inOperator+"get deployment greeter -o jsonpath={.status.readyReplicas}", "2")
	n.says(inOperator+"get configmap addon-operator -o jsonpath='{.data.greeter}'", "greeting: servus\nreplicas: 2\n")
	n.says("cat /var/log/sealift/upgrade-*.log", "key greeter of ConfigMap addon-operator keeps an edit that differs from the Installer")
	n.pulled()

	for _, one := range []node{second, n} {
		one.must("cp /usr/local/bin/sealift /var/tmp/sealift")
		one.must(resetCommand + " 2>&1")
	}
	n.isBare(bare)
}
