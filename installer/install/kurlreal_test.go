package install

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sealift/sealift/builder/kurl"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/containerd"
	"github.com/sealift/sealift/internal/testing/upstreamcases"
	"github.com/sealift/sealift/preflight"
)

// realAddOns reads kURL's own add-ons of the samples, unchanged, by name/version.
func realAddOns(t *testing.T, names ...string) (files []txtar.File) {
	t.Helper()
	dir := filepath.Join(upstreamcases.KurlAddOns(t), "addons")
	for _, name := range names {
		files = append(files, filesBelow(t, filepath.Join(dir, name), name)...)
	}
	return files
}

// filesBelow reads a folder, whose links are followed.
func filesBelow(t *testing.T, dir, name string) (files []txtar.File) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		file, below := filepath.Join(dir, entry.Name()), path.Join(name, entry.Name())
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&fs.ModeDir != 0 {
			files = append(files, filesBelow(t, file, below)...)
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, txtar.File{Name: below, Data: data})
	}
	return files
}

const flannelSpec = `apiVersion: cluster.kurl.sh/v1beta1
kind: Installer
metadata: {name: 1a2b3c4}
spec:
  flannel: {version: 0.28.7}
`

func TestHooksCannotClearChosenNetworks(t *testing.T) {
	i := kurlInstall(t, flannelSpec, realAddOns(t, "flannel/0.28.7"))
	i.hooks.variables["PRIVATE_ADDRESS"] = "127.0.0.1"
	i.hooks.variables["KUBECONFIG"] = filepath.Join(t.TempDir(), "none") // there is no cluster yet
	state, err := i.chooseNetworks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	chosen := state["POD_CIDR"]
	after, err := i.hooks.call(t.Context(), "flannel_pre_init")
	if err != nil {
		t.Fatal(err)
	}
	if got := i.hooks.values()["POD_CIDR"]; got != chosen || got == "" {
		t.Errorf("POD_CIDR is %q after flannel's pre-init, want %q", got, chosen)
	}
	if _, changed := after["POD_CIDR"]; changed {
		t.Errorf("the journal has %q", after["POD_CIDR"])
	}
	patch, err := os.ReadFile(filepath.Join(i.options.Root, "kustomize/kubeadm/init-patches/flannel.yaml"))
	if err != nil || !strings.Contains(string(patch), "$POD_CIDR") {
		t.Errorf("%s, %v", patch, err)
	}
}

func TestKurlFindsKubernetesPackage(t *testing.T) {
	k8s := releases.Current("kubernetes")
	text := "apiVersion: cluster.kurl.sh/v1beta1\nkind: Installer\nmetadata: {name: 1a2b3c4}\nspec:\n  kubernetes: {version: " + k8s.Version + "}\n  containerd: {version: 2.2.6}\n"
	i := kurlInstall(t, text, append(filesBelow(t, "../../"+k8s.Folder(), "kubernetes/"+k8s.Version), realAddOns(t, "containerd/2.2.6")...))
	k, _ := kubernetes(i.addOns)
	if _, err := i.extractKubernetes(k)(t.Context()); err != nil {
		t.Fatal(err)
	}
	// as containerd 2.2.6 reads it
	out, err := exec.CommandContext(t.Context(), "sh", "-ec", `cat "$1/Manifest" | grep "pause" | awk '{ print $3 }'; gunzip <"$1/images/pause.tar.gz" | tar t | grep -cx manifest.json`, "sh",
		filepath.Join(i.options.Root, "packages/kubernetes", k8s.Version)).CombinedOutput()
	if want := "registry.k8s.io/pause:" + k8s.With["pause"] + "\n1\n"; err != nil || string(out) != want {
		t.Errorf("%q, %v, want %q", out, err, want)
	}
}

// TestVeleroFindsImportedUtilityImage goes from kURL's common.tar.gz to the containerd of a host. The Installer does not
// name the package: the bundle has it because velero needs it.
func TestVeleroFindsImportedUtilityImage(t *testing.T) {
	const ref = "replicated/kurl-util:v2026.08.07-0"
	dir := t.TempDir()
	kurlPackages(t, dir, realAddOns(t, "velero/1.18.2"))
	common := zipped(t, tarred(t, map[string][]byte{"shared/kurl-util.tar": dockerArchive(t, ref), "krew/index.tar": []byte("x")}))
	if _, err := kurl.Import(t.Context(), bytes.NewReader(common), kurl.Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	const text = "apiVersion: cluster.kurl.sh/v1beta1\nkind: Installer\nmetadata: {name: 1a2b3c4}\nspec:\n  velero: {version: 1.18.2}\n"
	i := &Install{job: job{contents: contents{archive: openBundle(t, storeBundle(t, text, dir))}, hostFacts: hostFacts{facts: host.Facts{Hostname: "node"}}}, socket: containerd.ForTest(t), Session: &node.Session{Log: node.NewLog(t.TempDir(), lifecycle.Installing, t.Output())}}
	err := i.readSpec()
	if err == nil {
		i.addOns, err = readAddOns(i.archive, i.spec)
	}
	if err != nil {
		t.Fatal(err)
	}
	i.settings = i.newSettings()
	i.hooks = newHooks(t.TempDir(), i.addOns, i.variables(), io.Discard)
	if got := i.hooks.variables["KURL_UTIL_IMAGE"]; got != ref {
		t.Errorf("KURL_UTIL_IMAGE is %q", got)
	}
	report, err := preflight.Run(t.Context(), []preflight.Check{{Name: "installer", Probe: i.installerCheck}})
	if err != nil || report.Count(preflight.Fail) != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	r, err := runtime.Connect(t.Context(), i.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	at := slices.IndexFunc(i.addOns, func(a addOn) bool { return a.name() == "kurl-util" })
	for _, want := range []runtime.Result{{Loaded: 1}, {Present: 1}} {
		if got, err := r.Load(t.Context(), i.addOns[at].layout, func(string) {}); err != nil || got != want {
			t.Errorf("containerd: %+v, %v, want %+v", got, err, want)
		}
	}
}
