package install

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sealift/sealift/assemble"
	"github.com/sealift/sealift/builder/kurl"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/testing/containerd"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// kurlSpec is for the add-ons of testdata/kurl.txtar.
const kurlSpec = `apiVersion: cluster.kurl.sh/v1beta1
kind: Installer
metadata: {name: 1a2b3c4}
spec:
  flannel: {version: 0.1.0, podCIDR: 10.99.0.0/16}
  rook: {version: 1.0.4-14.2.21}
  ekco: {version: 0.28.14}
  openebs: {version: 3.3.0, isLocalPVEnabled: true}
  minio: {version: 2025-10-15T17-29-55Z, claimSize: "10Gi"}
  contour: {version: 1.32.1, httpPort: 8080, tlsMinimumProtocolVersion: "1.2 $(touch OWNED) said 'it'"}
  registry: {version: 3.1.1}
  prometheus: {version: 0.92.1-87.15.1}
  kotsadm: {version: 1.86.0, applicationNamespace: "one two", hostname: "it's \"$(touch OWNED)\""}
  velero: {version: 1.18.2, serverFlags: [--a, "--b=$(touch OWNED)"]}
  certManager: {version: 1.21.0}
  metricsServer: {version: 0.8.1}
  goldpinger: {version: 3.11.2-1.1.2}
`

// kurlPackages builds packages as kURL's CI does: plain tars, with docker-archives and without an index. The files are named
// <name>/<version>/<file>.
func kurlPackages(t *testing.T, dir string, files []txtar.File) {
	t.Helper()
	contents := map[string]map[string][]byte{} // by add-on, name/version
	for _, f := range files {
		words := strings.SplitN(f.Name, "/", 3)
		addOn := path.Join(words[0], words[1])
		if contents[addOn] == nil {
			contents[addOn] = map[string][]byte{}
		}
		contents[addOn][words[2]] = f.Data
		if words[2] != "Manifest" {
			continue
		}
		for line := range strings.Lines(string(f.Data)) {
			words := strings.Fields(line + " -")
			switch words[0] {
			case "image":
				contents[addOn]["images/"+words[1]+".tar.gz"] = zipped(t, dockerArchive(t, words[2]))
			case "asset":
				contents[addOn]["assets/"+words[1]] = zipped(t, tarred(t, map[string][]byte{"velero": []byte("#!/bin/sh\n")}))
			}
		}
	}
	for addOn, files := range contents {
		below := map[string][]byte{}
		for name, data := range files {
			below[path.Join("addons", addOn, name)] = data
		}
		file := filepath.Join(dir, strings.ReplaceAll(addOn, "/", "-")+".tar.gz")
		if err := os.WriteFile(file, zipped(t, tarred(t, below)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func dockerArchive(t *testing.T, ref string) []byte {
	t.Helper()
	image, err := random.Image(1<<10, 2)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := tarball.Write(tag, image, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func tarred(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, data := range files {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data)), Typeflag: tar.TypeReg})
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(data)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// kurlBundle makes the bundle of an Installer from a store of packages that kURL built.
func kurlBundle(t *testing.T, text string, files []txtar.File) []byte {
	t.Helper()
	dir := t.TempDir()
	kurlPackages(t, dir, files)
	return storeBundle(t, text, dir)
}

// storeBundle makes the bundle of an Installer out of a store in a folder.
func storeBundle(t *testing.T, text, dir string) []byte {
	t.Helper()
	i, err := spec.Parse("installer.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	from, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	binary, err := assemble.ProgramMember(t.Context(), bundle.BinaryName, "kurl_test.go", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = binary.Close() })
	plan, err := assemble.Prepare(t.Context(), assemble.Request{Installer: i, Programs: []assemble.Program{{Platform: kurl.Platform, Sealift: binary}}, Commands: []string{"install"},
		Packages: packages.Source{Store: kurl.NewStore(from, t.TempDir())}})
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	var out bytes.Buffer
	if err := plan.Write(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func openBundle(t *testing.T, data []byte) *bundle.Archive {
	t.Helper()
	archive, err := bundle.NewArchive(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

// kubeconfig runs an API server and writes how to reach it.
func kubeconfig(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(name, controlplane.ForTest(t)); err != nil {
		t.Fatal(err)
	}
	return name
}

// sealift builds the program of nodes.
func sealift(t *testing.T) string {
	t.Helper()
	short.Skip(t, "a build of sealift")
	binary := filepath.Join(t.TempDir(), "sealift")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../cmd/sealift-node").CombinedOutput(); err != nil {
		t.Fatalf("build sealift: %v\n%s", err, out)
	}
	return binary
}

// kubectl returns the folder that has one.
func kubectl(t *testing.T) string {
	t.Helper()
	w := lab.Workshop(t)
	file, err := w.File(t.Context(), upstream.Program("kubectl"))
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(file)
}

// kurlInstall is an install of add-ons of kURL in a folder, with a containerd and a cluster of the test.
func kurlInstall(t *testing.T, text string, files []txtar.File) *Install {
	t.Helper()
	i := &Install{job: job{options: Options{Scope: node.Scope{Root: t.TempDir()}, Binary: "kurl_test.go"}, contents: contents{archive: openBundle(t, kurlBundle(t, text, files))},
		hostFacts: hostFacts{facts: host.Facts{Distribution: "ubuntu", Version: "22.04", Hostname: "node"}}}, socket: containerd.ForTest(t), Session: &node.Session{Log: node.NewLog(t.TempDir(), lifecycle.Installing, t.Output())}}
	t.Cleanup(func() { _ = i.Close() })
	err := i.readSpec()
	if err != nil {
		t.Fatal(err)
	}
	if i.addOns, err = readAddOns(i.archive, i.spec); err != nil {
		t.Fatal(err)
	}
	for _, a := range i.addOns {
		if _, err := i.extract(a)(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if i.Journal, err = lifecycle.OpenJournal(node.StateDir(i.options.Root)); err != nil {
		t.Fatal(err)
	}
	i.past = i.Journal
	i.hooks = testHooks(t, i, kubeconfig(t), sealift(t))
	return i
}

func testHooks(t *testing.T, i *Install, kubeconfig, binary string) *hooks {
	t.Helper()
	i.settings = i.newSettings()
	variables := i.variables()
	variables["KUBECONFIG"], variables["SEALIFT_BIN"] = kubeconfig, binary
	variables["PATH"] = kubectl(t) + ":/usr/sbin:/usr/bin:/sbin:/bin"
	h := newHooks(i.options.Root, i.addOns, variables, i.Log)
	h.verbs = i.verbs()
	t.Cleanup(func() { _ = h.close() })
	return h
}

// runHooks calls one kind of hook of all add-ons, like the plan, and keeps what the journal would.
func (i *Install) runHooks(t *testing.T, suffix string, journal *[]lifecycle.State) {
	t.Helper()
	for _, a := range i.addOns {
		if !a.hasHook(a.name() + suffix) {
			continue
		}
		state, err := i.hooks.call(t.Context(), a.name()+suffix)
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(state)
		if err != nil {
			t.Fatal(err)
		}
		var kept lifecycle.State
		if err := json.Unmarshal(data, &kept); err != nil {
			t.Fatal(err)
		}
		*journal = append(*journal, kept)
	}
}

func TestKurlAddOnsInstallUnmodified(t *testing.T) {
	files, err := txtar.ParseFile("testdata/kurl.txtar")
	if err != nil {
		t.Fatal(err)
	}
	i := kurlInstall(t, kurlSpec, files.Files)
	var journal []lifecycle.State
	if names := len(i.addOns); names < 10 {
		t.Fatalf("%d add-ons", names)
	}
	for _, a := range i.addOns {
		if len(a.layout.Images) > 0 {
			if _, err := i.loadImages(a)(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, suffix := range []string{"_pre_init", "", "_post_init", "_outro"} {
		i.runHooks(t, suffix, &journal)
	}
	wantShell(t, i.hooks.state)
	wantObjects(t, i)
	for _, owned := range []string{"OWNED", filepath.Join(i.options.Root, "OWNED"), "/tmp/OWNED"} {
		if _, err := os.Stat(owned); err == nil {
			t.Errorf("a value was run as code: there is %s", owned)
		}
	}
	again := testHooks(t, i, i.hooks.variables["KUBECONFIG"], i.hooks.variables["SEALIFT_BIN"])
	for _, state := range journal { // another process, all steps finished but the last
		if err := again.restore(t.Context(), state); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := again.call(t.Context(), "flannel_join"); err != nil {
		t.Fatal(err)
	}
	wantShell(t, again.state, "pre_init", "install", "join")
}

// wantShell checks the shell state that hooks leave for later ones.
func wantShell(t *testing.T, state map[string]string, order ...string) {
	t.Helper()
	if order == nil {
		order = []string{"pre_init", "install"}
	}
	elements := map[string]string{}
	if err := json.Unmarshal([]byte(state["FLANNEL_ORDER[]"]), &elements); err != nil {
		t.Fatalf("%v: %s", err, state["FLANNEL_ORDER[]"])
	}
	for n, word := range order {
		if elements[string(rune('0'+n))] != word {
			t.Errorf("the array has %v, want %v", elements, order)
		}
	}
	for name, want := range map[string]string{
		"FLANNEL_FACTS{}": `{"os":"ubuntu 22.04","quote":"say \"hi\""}`, "POD_CIDR": "10.99.0.0/16", "ROOK_MAJOR": "1",
		"OBJECT_STORE_SECRET_KEY": "sec'ret\nover two lines", "export EKCO_ADDRESS": "", "EKCO_ADDRESS": "lb.example.org:6444",
		"EKCO_ESCAPED": `a \"b\"\nc`, "OPENEBS_RUNS": "2", "OPENEBS_ALREADY": "1",
		"MINIO_READ_BACK": "sec'ret\nover two lines", "MINIO_MISSING": "", "CONTOUR_PORTS": "8080/443",
		"DOCKER_REGISTRY_IP": "[fd00::5]", "REGISTRY_POST": "[fd00::5]", "REGISTRY_INIT": "kubeadm", "REGISTRY_TRUSTED": "10.96.0.9",
		"REGISTRY_SEES":    "key\"with$(touch OWNED)|sec'ret\nover two lines|http://minio",
		"KOTSADM_FIRST":    "two",
		"PROMETHEUS_OUTRO": "1", "VELERO_FLAGS": "--a,--b=$(touch OWNED)", "VELERO_NEWER": "1", "VELERO_VALUES": "a: {c: {d: two}}",
		"ADDONS_HAVE_HOST_COMPONENTS": "1", "UNHEALTHY_PODS": "", "GOLDPINGER_SAW": "ping-a ping-b",
	} {
		if got, there := state[name]; got != want || !there {
			t.Errorf("%s is %q (there: %t), want %q", name, got, there, want)
		}
	}
	if _, there := state["PROMETHEUS_KIND"]; there {
		t.Error("a variable that was unset is still there")
	}
	if state["CERT_MANAGER_PWD"] == "/tmp" {
		t.Error("a hook begins where another one went")
	}
}

// wantObjects lists the objects that the add-ons applied.
func wantObjects(t *testing.T, i *Install) {
	t.Helper()
	get := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), filepath.Join(kubectl(t), "kubectl"), slices.Concat([]string{"--kubeconfig", i.hooks.variables["KUBECONFIG"]}, args)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return string(out)
	}
	for _, row := range []struct{ what, path, want string }{
		{"configmap/flannel-network", ".data.net\\.json", `{"Network": "10.99.0.0/16", "Backend": {"Type": "vxlan"}}`},
		{"configmap/flannel-network", ".data.price", "$5"},
		{"configmap/flannel-network", ".data.note", "$(touch OWNED)`touch OWNED`"},
		{"configmap/flannel-network", ".metadata.labels.net", "yes"},
		{"configmap/rook-config -n rook-ceph", ".data.text", "name: rook-ceph\n"},
		{"configmap/ekco-config -n kurl", ".metadata.annotations.quoted", "false"},
		{"configmap/ekco-config -n kurl", ".metadata.annotations.bare", "true-is    a b-text"},
		{"configmap/ekco-config -n kurl", ".data.config", "label: node-role.kubernetes.io/control-plane\nimage: docker.io/library/nginx:latest\n"},
		{"deployment/ekc-operator -n kurl", ".spec.replicas", "2"},
		{"configmap/openebs-2", ".metadata.name", "openebs-2"},
		{"configmap/contour", ".data.ports", "8080/443"},
		{"configmap/contour", ".data.tls", "1.2 $(touch OWNED) said 'it'"},
		{"secret/kotsadm-two", ".metadata.labels.patched", "true"},
		{"secret/kotsadm-one", ".data.jwt", "eyJhIjogImIkYyJ9"},
		{"secret/kotsadm-three", ".data.escaped", "YSAicXVvdGVkIiB3b3Jk"},
		{"secret/kotsadm-three", ".data.s3", "bm8="},
	} {
		if got := get(append([]string{"get", "-o", "jsonpath={" + row.path + "}"}, strings.Fields(row.what)...)...); got != row.want {
			t.Errorf("%s: %s is %q, want %q", row.what, row.path, got, row.want)
		}
	}
	if _, err := os.Stat(filepath.Join(i.options.Root, "kustomize/kubeadm/init-patches/flannel.yaml")); err != nil {
		t.Error(err)
	}
}
