package upstream

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/testing/short"
)

func workshop(t *testing.T) *Workshop {
	t.Helper()
	short.Skip(t, "programs of the lab")
	w, err := NewWorkshop(Options{Progress: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestComponentsAreUniqueAndComplete(t *testing.T) {
	w := workshop(t)
	seen := map[string]bool{}
	for _, c := range Components() {
		if seen[c.ID()] {
			t.Errorf("%s is there twice", c.ID())
		}
		seen[c.ID()] = true
		if _, err := w.key(c); err != nil {
			t.Error(err)
		}
	}
}

func TestOffersUseKnownComponents(t *testing.T) {
	w := workshop(t)
	for _, image := range Images() {
		if _, err := name.NewTag(image.Ref, name.StrictValidation); err != nil {
			t.Errorf("%s is not the full name of an image: %v", image.Ref, err)
		}
		for _, id := range image.layers() {
			if _, ok := w.components[id]; !ok {
				t.Errorf("%s needs %s, which is unknown", image.Ref, id)
			}
		}
	}
	for _, d := range Downloads() {
		if _, ok := w.components[d.Source.Component]; !ok {
			t.Errorf("%s needs %s, which is unknown", d.URL, d.Source.Component)
		}
	}
}

func TestReleasesAreIndependent(t *testing.T) {
	current := releases.Current("kubernetes")
	previous := current.Before()
	etcd := func(r releases.Release) string { return "image-etcd-" + r.With["etcd"] }
	one := ComponentsOf(Images("v"+current.Version), Downloads("v"+current.Version))
	for id, want := range map[string]bool{
		"kubernetes-v" + current.Version: true, "image-kube-proxy-v" + current.Version: true, etcd(current): true,
		"image-flannel-v" + releases.Current("flannel").Version: true, "runc-" + releases.Current("containerd").With["runc"]: true,
		"kubernetes-v" + previous.Version: false, "image-kube-proxy-v" + previous.Version: false, etcd(previous): false,
	} {
		if got := slices.Contains(one, id); got != want {
			t.Errorf("%s is needed: %t, want %t", id, got, want)
		}
	}
	if all := ComponentsOf(Images(), Downloads()); !slices.Contains(all, etcd(previous)) || !slices.Contains(all, etcd(current)) {
		t.Errorf("without a choice only %q are needed", all)
	}
	everyday := Everyday()
	if !slices.Contains(everyday, HostDebian13) {
		t.Errorf("%s is not made where nothing is named", HostDebian13)
	}
	for _, r := range releases.All() {
		// the add-on registry has the program with which the lab serves images
		if id := r.Name + "-v" + r.Version; r.Use != releases.Tool && id != Program("registry").Component && r.Name != "operator" && slices.Contains(everyday, id) != (r.Use >= releases.Tested) {
			t.Errorf("%s is made where nothing is named: %t", id, slices.Contains(everyday, id))
		}
	}
	for _, r := range releases.Of("kubernetes", releases.Lab) {
		if !slices.Contains(Releases(), "v"+r.Version) || slices.Contains(everyday, etcd(r)) != (r.Use >= releases.Tested) {
			t.Errorf("Kubernetes %s is not chosen by its use", r.Version)
		}
	}
}

func TestHostTreesExist(t *testing.T) {
	w := workshop(t)
	for _, id := range []string{HostDebian12, HostDebian13} {
		if _, ok := w.components[id].Recipe.(SystemTree); !ok {
			t.Errorf("%s is not a system", id)
		}
	}
}

func TestKubeadmImagesAreServed(t *testing.T) {
	w := workshop(t)
	var offered []string
	for _, image := range Images() {
		offered = append(offered, image.Ref)
	}
	for _, r := range releases.Of("kubernetes", releases.Tested) {
		kubeadm, err := w.File(t.Context(), FileOf{"kubernetes-v" + r.Version, "kubeadm"})
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), kubeadm, "config", "images", "list", "--kubernetes-version", "v"+r.Version).Output()
		if err != nil {
			t.Fatal(err)
		}
		for ref := range strings.FieldsSeq(string(out)) {
			if !slices.Contains(offered, ref) {
				t.Errorf("kubeadm %s asks for %s, which the lab does not serve", r.Version, ref)
			}
		}
	}
}

// reported is a program, and what it must print about its version.
type reported struct {
	file FileOf
	args []string
	want string
}

// reports lists what the programs of a version of an add-on print.
func reports(r releases.Release) []reported {
	version := "v" + r.Version
	switch r.Name {
	case "kubernetes":
		etcd, coredns, binaries := etcdVersion(r), r.With["coredns"], "kubernetes-"+version
		return []reported{
			{FileOf{binaries, "kubeadm"}, []string{"version", "-o", "short"}, version},
			{FileOf{binaries, "kubelet"}, []string{"--version"}, "Kubernetes " + version},
			{FileOf{binaries, "kubectl"}, []string{"version", "--client"}, "Client Version: " + version},
			{FileOf{"etcd-v" + etcd, "etcd"}, []string{"--version"}, "etcd Version: " + etcd},
			{FileOf{"coredns-" + coredns, "coredns"}, []string{"--version"}, "CoreDNS-" + strings.TrimPrefix(coredns, "v")},
		}
	case "containerd":
		return []reported{
			{FileOf{"containerd-" + version, "containerd"}, []string{"--version"}, version},
			{FileOf{"runc-" + r.With["runc"], "runc"}, []string{"--version"}, "runc version " + strings.TrimPrefix(r.With["runc"], "v")},
		}
	case "flannel":
		return []reported{{FileOf{"flannel-" + version, "flanneld"}, []string{"--version"}, version}}
	case "distribution":
		return []reported{{FileOf{"registry-" + version, "registry"}, []string{"--version"}, version}}
	case "operator", "crane", "oras", "oci-conformance": // made by this repository; has no version in it
		return nil
	case "prometheus", "node_exporter": // made on request
		return nil
	}
	return []reported{{FileOf{r.Name + "-" + version, r.Name}, []string{"--version"}, version}}
}

func TestBinariesReportServedVersion(t *testing.T) {
	w := workshop(t)
	tests := []reported{{FileOf{"image-base-debian-12", "busybox"}, nil, "BusyBox v" + busyboxVersion}}
	for _, r := range releases.All() {
		if r.Use == releases.Tool || r.Use >= releases.Tested {
			tests = append(tests, reports(r)...)
		}
	}
	for _, tt := range tests {
		t.Run(tt.file.Component+"/"+tt.file.Name, func(t *testing.T) {
			path, err := w.File(t.Context(), tt.file)
			if err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), path, tt.args...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), tt.want) {
				t.Errorf("it says %q (%v), want %s", out, err, tt.want)
			}
		})
	}
}

func TestKeyChangesWithRecipeAndDependencies(t *testing.T) {
	base := Component{Name: "base", Version: "1", Recipe: CProgram{Name: "p", Source: FileOf{"source-1", "p.c"}}}
	source := Component{Name: "source", Version: "1", Recipe: GoModule{Path: "example.com/m", Version: "v1.0.0"}}
	key := func(change func(base, source *Component)) string {
		b, s := base, source
		change(&b, &s)
		w := &Workshop{components: map[string]Component{b.ID(): b, s.ID(): s}}
		k, err := w.key(b)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	same := key(func(*Component, *Component) {})
	if diff := cmp.Diff(same, key(func(*Component, *Component) {})); diff != "" {
		t.Errorf("the same recipe has two keys: %s", diff)
	}
	changed := []string{
		key(func(b, _ *Component) { b.Recipe = CProgram{Name: "q", Source: FileOf{"source-1", "p.c"}} }),
		key(func(_, s *Component) { s.Recipe = GoModule{Path: "example.com/m", Version: "v1.0.1"} }),
	}
	if slices.Contains(changed, same) || changed[0] == changed[1] {
		t.Errorf("keys are %s and %s for three recipes", same, changed)
	}
}
