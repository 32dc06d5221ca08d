package main

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/peer"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// An Installer and an add-on, each with everything that can run something. All of it leaves a file in the folder work, or wherever
// else RAN is.
const (
	runningInstaller = `apiVersion: sealift.dev/v1
kind: Installer
metadata: {name: x}
spec:
  app: {version: "1"}
  KUBERNETES
  iptablesConfig: {iptablesCmds: [[--version]]}
  kurl:
    hostPreflights:
      spec:
        collectors: [{run: {collectorName: x, command: touch, args: [RAN/collector]}}]
`
	runningHook = `app() { touch RAN/hook; }
app_preflights() { touch RAN/preflights; }
app_pre_init() { touch RAN/pre-init; }
`
	runningChecks  = "spec: {collectors: [{run: {collectorName: y, command: touch, args: [RAN/checks]}}]}\n"
	runningProgram = "#!/bin/sh\ntouch RAN/program\necho '{\"results\": []}'\n"
)

// runningBundle packs them into work/cluster.tar.gz, and unpacks that into work/unpacked.
func (h *planHost) runningBundle(addOns ...string) {
	h.Helper()
	ran := filepath.Join(h.dir, "work")
	in := func(text string) string { return strings.ReplaceAll(text, "RAN", ran) }
	h.write("work/addons/app/1/Manifest", "")
	h.write("work/addons/app/1/install.sh", in(runningHook))
	h.write("work/addons/app/1/host-preflight.yaml", in(runningChecks))
	h.write("work/addons/kubernetes/1.36.3/Manifest", "")
	h.write("work/addons/kubernetes/1.36.3/install.sh", "kubernetes_pre_init() { :; }\n")
	h.write("work/installer.yaml", strings.Replace(in(runningInstaller), "KUBERNETES", strings.Join(addOns, "\n"), 1))
	h.write("work/sealift-preflight", in(runningProgram))
	h.write("work/small", "#!/bin/sh\n")
	for _, args := range []string{"build addons/app/1 addons/kubernetes/1.36.3 --out store", "bundle -f installer.yaml --store store --out cluster.tar.gz --sealift small --sealift-preflight sealift-preflight"} {
		if code, out := h.sealift("", strings.Fields(args)...); code != app.ExitDone {
			h.Fatalf("%s: exit code %d\n%s", args, code, out)
		}
	}
	unpacked := filepath.Join(h.dir, "work/unpacked")
	h.made(os.Mkdir(unpacked, 0o755))
	if out, err := exec.CommandContext(h.Context(), "tar", "-C", unpacked, "-xzf", filepath.Join(h.dir, "work/cluster.tar.gz")).CombinedOutput(); err != nil {
		h.Fatalf("%v: %s", err, out)
	}
}

// keepsFirewall writes a patch of the Installer that leaves the host's firewall alone, and returns its path.
func (h *planHost) keepsFirewall() string {
	return h.write("work/patch.yaml", "apiVersion: sealift.dev/v1\nkind: Installer\nspec: {iptablesConfig: {preserveConfig: true}}\n")
}

// installed installs the bundle in work/node, for which its checks are left out, and cuts the journal as a crash does.
func (h *planHost) installed() {
	h.Helper()
	if code, out := h.sealift("", "install", "--bundle", "cluster.tar.gz", "--root", "node", "--yes", "--ignore", "--patch", h.keepsFirewall()); code != app.ExitDone {
		h.Fatalf("exit code %d\n%s", code, out)
	}
	journal, err := os.OpenFile(filepath.Join(h.dir, "work/node/state/journal.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	h.made(err)
	defer journal.Close()
	_, err = journal.WriteString(`{"time":"2026-11-21T00:00:00Z","step":"app/ins`)
	h.made(err)
}

func planOfInstall(t *testing.T) {
	h := newPlanHost(t)
	h.runningBundle()
	lists := func(out string) {
		t.Helper()
		for _, want := range []string{"app: touch ", "the hook app_preflights", "kurl.hostPreflights: touch ", "iptablesConfig.iptablesCmds: iptables --version", "app/install"} {
			if !strings.Contains(out, want) {
				t.Errorf("the plan does not list %q:\n%s", want, out)
			}
		}
	}
	for _, source := range []string{"cluster.tar.gz", "unpacked"} {
		lists(h.planned("", []string{"install", "--plan", "--bundle", source, "--root", "node"}))
		out := h.planned("", []string{"install", "--plan", "--bundle", source, "--root", "node", "-o", "json", "--yes"})
		if !strings.Contains(out, `"runs": "iptables --version"`) {
			t.Errorf("the plan in JSON lists nothing:\n%s", out)
		}
	}
	store := t.TempDir()
	h.made(os.CopyFS(store, os.DirFS(filepath.Join(h.dir, "work/store"))))
	url, _ := servedTo(t, store, "  app: {version: '1'}\n")
	h.planned("", []string{"install", "--plan", "--from", url, "--root", "node"})
	h.fleeting = []string{"tmp"} // the program for nodes passes through it
	lists(h.planned("", []string{"install", "--plan", "-f", "installer.yaml", "--store", "store", "--root", "node"}))
	h.fleeting = nil

	h.installed()
	if out := h.planned("", []string{"install", "--plan", "--bundle", "cluster.tar.gz", "--root", "node"}); !strings.Contains(out, "done") {
		t.Errorf("nothing is done:\n%s", out)
	}
}

func planOfReset(t *testing.T) {
	h := newPlanHost(t)
	h.planned("", []string{"reset", "--plan", "--root", "none"})
	h.write("work/v/important/f", "x")
	h.write("work/v/state/journal.jsonl", `{"step":`)
	h.planned("", []string{"reset", "--plan", "--root", filepath.Join(h.dir, "work/v")})
	h.planned("", []string{"reset", "--plan", "--root", "v", "-o", "json"})

	h.runningBundle()
	h.installed()
	if out := h.planned("", []string{"reset", "--plan", "--root", "node"}); !strings.Contains(out, "STEP") {
		t.Errorf("there is no plan:\n%s", out)
	}
	h.planned("", []string{"reset", "--plan", "--root", "node", "-o", "json", "--force", "--yes"})
}

func planOfJoin(t *testing.T) {
	h := newPlanHost(t)
	h.runningBundle("kubernetes: {version: 1.36.3}")
	address, hash := sharedBundle(t, filepath.Join(h.dir, "work/unpacked"), filepath.Join(h.dir, "work/small"))
	out := h.planned(shareToken+"\n", []string{"join", "--plan", "--server", address, "--ca-hash", hash, "--root", "node"})
	if !strings.Contains(out, "the hook app_preflights") {
		t.Errorf("the plan lists nothing:\n%s", out)
	}
}

const shareToken = "abcdef.0123456789abcdef"

// sharedBundle runs a control plane's service for joining hosts, over an unpacked bundle.
func sharedBundle(t *testing.T, root, binary string) (address, hash string) {
	t.Helper()
	authority, err := identity.ReadAuthority(fixture.CA(t))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	installer, err := os.ReadFile(filepath.Join(root, "installer.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s := &share.Server{Root: root, Programs: share.Programs{Platform: host.Platform, Binary: binary}, Script: func() ([]byte, error) { return nil, nil }, Log: slog.New(slog.DiscardHandler),
		Blobs:     func(context.Context, string) (peer.Blob, error) { return nil, fs.ErrNotExist },
		Authorize: func(context.Context, string) error { return nil },
		Cluster: func(context.Context, func(identity.Right) bool) (share.Cluster, error) {
			return share.Cluster{Name: "test", KubernetesVersion: "1.36.3", PodCIDR: "10.32.0.0/20", ServiceCIDR: "10.96.0.0/22", Endpoint: "127.0.0.1:6444", Installer: string(installer)}, nil
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- share.Serve(ctx, share.Mixed(l, authority.Server("host-0", "127.0.0.1")), s.Handler()) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), identity.CAHash(authority.Certificate)
}

// settled runs a control plane that has created its own objects.
func settled(t *testing.T) (kubeconfig string) {
	t.Helper()
	kubeconfig = kubeconfigFor(t)
	for last := map[string]string{}; ; {
		all := everything(t, kubeconfig)
		if _, made := all["object v1 services default/kubernetes"]; made && maps.Equal(all, last) {
			return kubeconfig
		}
		last = all
		select {
		case <-t.Context().Done():
			t.Fatal("the API server goes on making objects")
		case <-time.After(time.Second):
		}
	}
}

// everything lists everything that an API server has, with its versions.
func everything(t *testing.T, kubeconfig string) map[string]string {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	kinds, err := discovery.NewDiscoveryClientForConfigOrDie(cfg).ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	client := dynamic.NewForConfigOrDie(cfg)
	all := map[string]string{}
	for _, group := range kinds {
		for _, kind := range group.APIResources {
			if !strings.Contains(kind.Verbs.String(), "list") || kind.Name == "leases" || kind.Name == "componentstatuses" {
				continue // leases of the API server itself are renewed all the time
			}
			version, err := schema.ParseGroupVersion(group.GroupVersion)
			if err != nil {
				t.Fatal(err)
			}
			list, err := client.Resource(version.WithResource(kind.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("%s: %v", kind.Name, err)
			}
			for _, o := range list.Items {
				all["object "+group.GroupVersion+" "+kind.Name+" "+o.GetNamespace()+"/"+o.GetName()] = string(o.GetUID()) + " " + o.GetResourceVersion()
			}
		}
	}
	if len(all) < 10 {
		t.Fatalf("the API server has only %v", all)
	}
	return all
}

func planOfNodeRemove(t *testing.T) {
	h := newPlanHost(t)
	kubeconfig := settled(t)
	h.apply(kubeconfig, "nodes")
	text, err := os.ReadFile(kubeconfig)
	h.made(err)
	h.write("etc/kubernetes/admin.conf", string(text))
	h.write("etc/kubernetes/manifests/kube-apiserver.yaml", "metadata:\n  annotations:\n    kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: 127.0.0.1:6443\n")
	for _, format := range []string{"text", "json"} {
		out := h.planned("", []string{"node", "remove", "gone", "--plan", "--yes", "-o", format}, func() map[string]string { return everything(t, kubeconfig) })
		if !strings.Contains(out, "gone") {
			t.Errorf("the plan says nothing of the node:\n%s", out)
		}
	}
}

const planObjects = `apiVersion: v1
kind: Node
metadata: {name: gone}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kept, namespace: default}
data: {a: "1"}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kubernetes, namespace: default}
addressType: IPv4
endpoints: [{addresses: [10.0.0.1]}]
`

// apply makes the objects of a test.
func (h *planHost) apply(kubeconfig, set string) {
	h.Helper()
	if code, out := h.sealift(planObjects, "apply", "-f", "-", "--set", set, "--kubeconfig", kubeconfig); code != app.ExitDone {
		h.Fatalf("exit code %d\n%s", code, out)
	}
}

func dryRunOfApply(t *testing.T) {
	h := newPlanHost(t)
	kubeconfig := settled(t)
	h.apply(kubeconfig, "s")
	changed := strings.ReplaceAll(planObjects, `"1"`, `"2"`) + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: more}\n"
	_, changed, _ = strings.Cut(changed, "---\n") // the node leaves the set
	out := h.planned(changed, []string{"apply", "-f", "-", "--set", "s", "--dry-run", "--wait", "1s", "--prune-protected", "--kubeconfig", kubeconfig},
		func() map[string]string { return everything(t, kubeconfig) })
	for _, want := range []string{"Namespace/more created", "ConfigMap/default/kept configured", "Node/gone pruned"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

func planOfChannel(t *testing.T) {
	h := newPlanHost(t)
	kubeconfig := settled(t)
	h.write("work/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: kube-system}\n")
	h.write("work/addons.yaml", "kind: Addons\nmetadata: {name: x}\nspec:\n  addons:\n  - {name: a, version: 1.0.0, manifest: a.yaml}\n")
	look := func() map[string]string { return everything(t, kubeconfig) }
	for _, action := range []string{"install", "keep"} {
		for _, format := range []string{"text", "json"} {
			if out := h.planned("", []string{"channel", "plan", "-f", "addons.yaml", "-o", format, "--kubeconfig", kubeconfig}, look); !strings.Contains(out, action) {
				t.Errorf("no %s in\n%s", action, out)
			}
		}
		if code, out := h.sealift("", "channel", "apply", "-f", "addons.yaml", "--yes", "--kubeconfig", kubeconfig); code != app.ExitDone {
			t.Fatalf("exit code %d\n%s", code, out)
		}
	}
	h.planned("", []string{"channel", "plan", "-f", "addons.yaml", "--kubernetes-version", "v1.36.3"}, look)
}

func dryRunOfCachePrune(t *testing.T) {
	h := newPlanHost(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a tool") }))
	t.Cleanup(server.Close)
	h.write("work/addons/tool/1/Manifest", "asset tool "+server.URL+"/tool\n")
	h.write("work/addons/tool/1/install.sh", "tool() { :; }\n")
	if code, out := h.sealift("", "build", "addons/tool/1", "--out", "store"); code != app.ExitDone {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	h.fleeting = []string{"root/cache/running"} // where each process that uses the cache has its lock
	if out := h.planned("", []string{"cache", "prune", "--max-size", "0", "--dry-run"}); !strings.Contains(out, "would be removed") {
		t.Errorf("nothing would be removed:\n%s", out)
	}
}
