package adopt

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/baseline"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

// left are kURL's leftovers in a cluster (kURL §3.7). The Installer old was applied by an earlier run.
const left = `apiVersion: v1
kind: Namespace
metadata: {name: kurl}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kubeadm-config, namespace: kube-system}
data:
  ClusterConfiguration: |
    kubernetesVersion: v1.35.4
    controlPlaneEndpoint: 10.0.0.1:6443
    networking: {podSubnet: 10.32.0.0/20, serviceSubnet: 10.96.0.0/22}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: installers.cluster.kurl.sh}
spec:
  group: cluster.kurl.sh
  scope: Namespaced
  names: {kind: Installer, listKind: InstallerList, plural: installers, singular: installer}
  versions:
  - {name: v1beta1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: cluster.kurl.sh/v1beta1
kind: Installer
metadata: {name: old, namespace: default}
spec: {kubernetes: {version: 1.34.4}}
---
apiVersion: cluster.kurl.sh/v1beta1
kind: Installer
metadata: {name: 1a2b3c4, namespace: default}
spec:
  kubernetes: {version: 1.35.4}
  containerd: {version: 2.2.1}
  flannel: {version: 0.26.7}
  certManager: {version: 1.21.0}
  docker: {version: "", dockerRegistryIP: 10.96.0.9}
  velero: {version: "", resticTimeout: 1h}
  kurl: {airgap: true, optionOfTomorrow: 1}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kurl-config, namespace: kube-system}
data: {installer_id: 1a2b3c4, kurl_install_directory: /var/lib/kurl, kubernetes_api_address: "10.0.0.1:6443"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kurl-current-config, namespace: kurl}
data:
  kurl-version: v2026.08.07-0
  addons-flannel: eyJ2ZXJzaW9uIjoiMC4yNi43In0=
  addons-cert-manager: e30=
`

// kurlCluster is a cluster of a control plane and a worker with kURL's objects, on a real API server.
func kurlCluster(t *testing.T) *cluster.View {
	t.Helper()
	view, err := cluster.ViewOf(controlplane.ForTest(t), false)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(left, "---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatal(err)
		}
		create := func() error {
			objects, err := view.Cluster().Objects(t.Context(), kube.RefOf(o))
			if err == nil {
				_, err = objects.Create(t.Context(), o, metav1.CreateOptions{})
			}
			return err
		}
		err := create()
		for n := 0; err != nil && n < 100; n++ { // the new kind takes a moment
			time.Sleep(100 * time.Millisecond)
			err = create()
		}
		if err != nil {
			t.Fatal(err)
		}
		if o.GetName() == "old" {
			time.Sleep(1100 * time.Millisecond) // times of objects are in whole seconds
		}
	}
	client, err := kubernetes.NewForConfigAndClient(view.Cluster().Config())
	if err != nil {
		t.Fatal(err)
	}
	for name, label := range map[string]string{"host-1": cluster.ControlPlaneLabel, "host-2": "test"} {
		n, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: "", clusterLabel: "true"}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.ContainerRuntimeVersion = "v1.35.4", "containerd://2.2.1"
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return view
}

func TestKurlClusterIsRead(t *testing.T) {
	t.Parallel()
	view := kurlCluster(t)
	got, err := readCluster(t.Context(), view, "host-1")
	if err != nil {
		t.Fatal(err)
	}
	one := func(name string, controlPlane bool) Node {
		return Node{Name: name, ControlPlane: controlPlane, Version: "1.35.4", Runtime: "containerd://2.2.1", Ready: true, Labelled: true}
	}
	want := Cluster{Version: "1.35.4", Endpoint: "10.0.0.1:6443", ClusterNetworks: node.ClusterNetworks{Pods: "10.32.0.0/20", Services: "10.96.0.0/22"}, Nodes: []Node{one("host-1", true), one("host-2", false)},
		Kurl: &Kurl{Namespace: true, Config: true, Folder: "/var/lib/kurl", Applied: []node.AddOn{{Name: "cert-manager"}, {Name: "flannel", Version: "0.26.7"}}, Lost: []string{`kurl has no option "optionOfTomorrow"`}}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Node{}), cmpopts.IgnoreFields(Kurl{}, "Installer")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Kurl.Installer != nil && len(got.Kurl.Installer.AddOns) != 4 { // words of kURL's command line add the others
		t.Errorf("add-ons of the Installer: %+v", got.Kurl.Installer.AddOns)
	}
	if got.Kurl.Installer == nil || got.Kurl.Installer.Name != "1a2b3c4" || got.Kurl.Installer.AddOn("cert-manager").Version != "1.21.0" {
		t.Errorf("the Installer is %+v", got.Kurl.Installer)
	}
	got.Kurl.Folder = "/data/kurl"
	if lines := (Found{Host: Host{Kurl: []string{"/etc/kurl/uuid"}, Packages: map[string]string{"kubelet": "1.35.4"}}, Cluster: got}).stays(); !slices.Contains(lines, "/data/kurl") || !slices.Contains(lines, "package kubelet 1.35.4") {
		t.Errorf("a reset would leave %q", lines)
	}
	if got.First() != "host-1" {
		t.Errorf("%q made the cluster", got.First())
	}
	f := Found{Host: Host{Name: "host-1", ControlPlane: true}, Cluster: got}
	if diff := cmp.Diff([]node.AddOn{{Name: "containerd", Version: "2.2.1"}, {Name: "cert-manager", Version: "1.21.0"}, {Name: "flannel", Version: "0.26.7"}}, f.AddOns()); diff != "" {
		t.Errorf("add-ons (-want +got):\n%s", diff)
	}
	t.Run("owners", func(t *testing.T) { ownersAreNoted(t, view, got.Kurl.Applied) })
	t.Run("a worker", func(t *testing.T) {
		own := *view
		own.Own = true
		got, err := readCluster(t.Context(), &own, "host-2")
		if err != nil || got.Kurl != nil || len(got.Nodes) != 1 || got.Nodes[0].Name != "host-2" || got.Pods != "10.32.0.0/20" || got.First() != "" {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// ownersAreNoted notes the owner of kURL's add-ons twice. A channel keeps one of them.
func ownersAreNoted(t *testing.T, view *cluster.View, applied []node.AddOn) {
	records := addon.RecordsOf(view.Cluster().Dynamic())
	channel := addon.Ownership{Owner: addon.Channel("kube-system", "cert-manager"), Policy: addon.OnChange, Set: "kube-system/addon-cert-manager"}
	if _, err := records.Claim(t.Context(), "cert-manager", channel); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var said []string
		if err := own(t.Context(), records, applied, func(line string) { said = append(said, line) }); err != nil {
			t.Fatal(err)
		}
		if len(said) != 1 || !strings.Contains(said[0], "channel") {
			t.Errorf("said %q", said)
		}
	}
	flannel, found, err := records.Get(t.Context(), "flannel")
	if err != nil || !found || flannel.Owner != addon.Installer() || flannel.Version != "0.26.7" {
		t.Errorf("the record of flannel: %+v, %v", flannel, err)
	}
	kept, _, err := records.Get(t.Context(), "cert-manager")
	if err != nil || kept.Owner != channel.Owner {
		t.Errorf("the record of cert-manager: %+v, %v", kept, err)
	}
}

// sound is a control plane that can be adopted.
func sound() Found {
	return Found{Host: Host{Name: "host-1", Member: true, ControlPlane: true, Containerd: true, Kurl: []string{"/var/lib/kurl"}},
		Cluster: Cluster{Version: "1.35.4", Endpoint: "10.0.0.1:6443", Nodes: []Node{
			{Name: "host-1", ControlPlane: true, Version: "1.35.4", Runtime: "containerd://2.2.1", Ready: true, Labelled: true},
			{Name: "host-2", Version: "1.35.4", Runtime: "containerd://2.2.1", Ready: true, Labelled: true}},
			Kurl: &Kurl{Namespace: true, Config: true, Applied: []node.AddOn{{Name: "flannel", Version: "0.26.7"}},
				Installer: &spec.Installer{Name: "1a2b3c4", AddOns: []spec.AddOn{{Name: "kubernetes"}, {Name: "containerd"}, {Name: "flannel"}}}}}}
}

// worker is a worker that can be adopted.
func worker() Found {
	f := sound()
	f.Host.Name, f.Host.ControlPlane = "host-2", false
	f.Cluster.Nodes, f.Cluster.Kurl = f.Cluster.Nodes[1:], nil
	return f
}

func TestUnadoptableClusterIsReportedWithRemedy(t *testing.T) {
	t.Parallel()
	old := func(f *Found, version string) {
		f.Cluster.Version = version
		for n := range f.Cluster.Nodes {
			f.Cluster.Nodes[n].Version = version
		}
	}
	for name, row := range map[string]struct {
		of     Found
		change func(*Found)
		want   []string // of the refusal; none for no refusal
	}{
		"a control plane":              {sound(), func(*Found) {}, nil},
		"a worker":                     {worker(), func(*Found) {}, nil},
		"a worker without its label":   {worker(), func(f *Found) { f.Cluster.Nodes[0].Labelled = false }, nil},
		"the oldest version":           {sound(), func(f *Found) { old(f, "1.31.0") }, nil},
		"kURL's balancer on the nodes": {sound(), func(f *Found) { f.Cluster.Endpoint, f.Host.Haproxy = "localhost:6444", true }, nil},
		"too old":                      {sound(), func(f *Found) { old(f, "1.30.9") }, []string{"1.30.9, which is too old", "upgrade the cluster with kURL to 1.31"}},
		"a version of another form":    {sound(), func(f *Found) { old(f, "") }, []string{"too old"}},
		"in the middle of an upgrade":  {sound(), func(f *Found) { f.Cluster.Nodes[1].Version = "1.34.4" }, []string{"host-2 1.34.4", "finish kURL's upgrade first"}},
		"docker": {sound(), func(f *Found) { f.Cluster.Nodes[1].Runtime = "docker://20.10.17" },
			[]string{"these nodes have docker: host-2", "name containerd in place of docker"}},
		"another runtime": {sound(), func(f *Found) { f.Cluster.Nodes[0].Runtime = "cri-o://1.35.0" }, []string{"host-1 (cri-o://1.35.0)", "to containerd first"}},
		"not of kURL": {sound(), func(f *Found) { f.Cluster.Kurl, f.Host.Kurl = &Kurl{}, nil },
			[]string{"kURL did not make this cluster", "sealift install"}},
		"a worker not of kURL": {worker(), func(f *Found) { f.Cluster.Nodes[0].Labelled, f.Host.Kurl = false, nil }, []string{"kURL did not make this node"}},
		"of Sealift":           {sound(), func(f *Found) { f.Cluster.Kurl.Ours = true }, []string{"Sealift made or upgraded this cluster already"}},
		"half installed":       {sound(), func(f *Found) { f.Cluster.Kurl.Config = false }, []string{"did not come to its end", "run kURL's install.sh again"}},
		"without an Installer": {sound(), func(f *Found) { f.Cluster.Kurl.Installer = nil }, []string{"no Installer"}},
		"an add-on that failed": {sound(), func(f *Found) { f.Cluster.Kurl.Applied = nil },
			[]string{"not applied these add-ons of its Installer: flannel", "run kURL's install.sh again"}},
		"a node that is away":       {sound(), func(f *Found) { f.Cluster.Nodes[1].Ready = false }, []string{"not Ready: host-2"}},
		"a host with another name":  {sound(), func(f *Found) { f.Host.Name = "renamed" }, []string{"no node renamed"}},
		"a node that lost its role": {sound(), func(f *Found) { f.Host.ControlPlane = false }, []string{"do not agree"}},
		"no way to the API":         {sound(), func(f *Found) { f.Cluster.Endpoint = "" }, []string{"controlPlaneEndpoint"}},
	} {
		row.change(&row.of)
		report, err := preflight.Run(t.Context(), row.of.Checks())
		if err != nil {
			t.Fatal(err)
		}
		refused := report.Err(preflight.Policy{Ignore: true})
		if (refused == nil) != (row.want == nil) {
			t.Errorf("%s: %v", name, refused)
			continue
		}
		for _, want := range row.want {
			if !strings.Contains(refused.Error(), want) {
				t.Errorf("%s: the refusal lacks %q:\n%v", name, want, refused)
			}
		}
	}
}

func TestHostIsRead(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range []string{"etc/kubernetes/kubelet.conf", "etc/kubernetes/manifests/kube-apiserver.yaml", "etc/kubernetes/manifests/haproxy.yaml", "etc/containerd/config.toml", "etc/kurl/uuid", "var/lib/kurl/addons/x"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readHost(t.Context(), root, "host-1")
	if err != nil {
		t.Fatal(err)
	}
	want := Host{Name: "host-1", Member: true, ControlPlane: true, Containerd: true, Haproxy: true, Kurl: []string{"/etc/kurl/uuid", "/var/lib/kurl"}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Host{}, "Packages")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBaselineOmitsCluster(t *testing.T) {
	t.Parallel()
	s := baseline.State{
		Files: baseline.Files{"/etc/kubernetes": {}, "/etc/kubernetes/pki/ca.key": {}, "/etc/kubernetes.old": {}, "/etc/containerd/config.toml": {},
			"/etc/systemd/system/multi-user.target.wants/kubelet.service": {}, "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf": {}},
		Folders: map[string]bool{"/etc/kubernetes": true, "/var/lib/containerd": true, "/var/openebs": true},
		System: host.State{
			Units: []string{"containerd.service", "kubelet.service"}, Mounts: []string{"/", "/run/containerd/io.containerd/x", "/var/lib/kubelet/pods/y", "/var/lib/containerd"},
			Links: []string{"eth0", "cni0", "flannel.1"}, Routes: []string{"10.0.0.0/24 dev eth0", "10.32.0.0/24 dev cni0", "10.32.1.0/24 via 10.32.1.0 dev flannel.1"},
			Firewall: []string{"iptables nat chain KUBE-SERVICES", "iptables nat -A PREROUTING -j KUBE-SERVICES", "iptables filter -A INPUT -p tcp -j ACCEPT"},
		},
	}
	forgetCluster(&s)
	want := baseline.State{
		Files:   baseline.Files{"/etc/kubernetes.old": {}, "/etc/containerd/config.toml": {}, "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf": {}},
		Folders: map[string]bool{"/etc/kubernetes": false, "/var/lib/containerd": true, "/var/openebs": true},
		System: host.State{Units: []string{"containerd.service"}, Mounts: []string{"/", "/var/lib/containerd"}, Links: []string{"eth0"},
			Routes: []string{"10.0.0.0/24 dev eth0"}, Firewall: []string{"iptables filter -A INPUT -p tcp -j ACCEPT"}},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// kURL applies its own Installer, then the one that it merged with installer-spec-file=, and then labels its own (apply_installer_crd).
func TestMergedInstallerMatchesCluster(t *testing.T) {
	at := func(seconds int) *metav1.Time { return &metav1.Time{Time: time.Unix(1_700_000_000+int64(seconds), 0)} }
	installer := func(name string, applied, labelled int) (o unstructured.Unstructured) {
		o.SetName(name)
		o.SetCreationTimestamp(*at(0))
		fields := []metav1.ManagedFieldsEntry{{Manager: "kubectl-client-side-apply", Operation: metav1.ManagedFieldsOperationUpdate, Time: at(applied)}}
		if labelled > 0 {
			fields = append(fields, metav1.ManagedFieldsEntry{Manager: "kubectl-label", Operation: metav1.ManagedFieldsOperationUpdate, Time: at(labelled)})
		}
		o.SetManagedFields(fields)
		return o
	}
	for name, row := range map[string]struct {
		found []unstructured.Unstructured
		want  string
	}{
		"in the same second":           {[]unstructured.Unstructured{installer("1a2b3c4", 10, 10), installer("merged", 10, 0), installer("old", 5, 0)}, "merged"},
		"labelled later":               {[]unstructured.Unstructured{installer("1a2b3c4", 10, 12), installer("merged", 11, 0)}, "merged"},
		"merged at an earlier run":     {[]unstructured.Unstructured{installer("merged", 10, 0), installer("1a2b3c4", 90, 91)}, "1a2b3c4"},
		"without a patch":              {[]unstructured.Unstructured{installer("old", 5, 6), installer("1a2b3c4", 10, 11)}, "1a2b3c4"},
		"two of a second, no patch":    {[]unstructured.Unstructured{installer("1a2b3c4", 10, 0), installer("other", 10, 0)}, "1a2b3c4"},
		"a patch without another name": {[]unstructured.Unstructured{installer("1a2b3c4", 11, 12), installer("other", 10, 0)}, "1a2b3c4"},
	} {
		for range 2 {
			if got := lastApplied(row.found, "1a2b3c4"); got.GetName() != row.want {
				t.Errorf("%s: %s, want %s", name, got.GetName(), row.want)
			}
			slices.Reverse(row.found)
		}
	}
}
