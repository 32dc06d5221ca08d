package upstream

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"

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
	if diff := cmp.Diff([]string{"v1.35.4", "v1.36.3", "v1.34.4"}, Releases()); diff != "" {
		t.Error(diff)
	}
	one := ComponentsOf(Images("v1.36.3"), Downloads("v1.36.3"))
	for id, want := range map[string]bool{
		"kubernetes-v1.36.3": true, "image-kube-proxy-v1.36.3": true, "image-etcd-3.6.8-0": true, "image-flannel-v0.26.7": true, "runc-v1.3.4": true,
		"kubernetes-v1.35.4": false, "image-kube-proxy-v1.35.4": false, "image-etcd-3.6.6-0": false,
	} {
		if got := slices.Contains(one, id); got != want {
			t.Errorf("%s is needed: %t, want %t", id, got, want)
		}
	}
	if all := ComponentsOf(Images(), Downloads()); !slices.Contains(all, "image-etcd-3.6.6-0") || !slices.Contains(all, "image-etcd-3.6.8-0") {
		t.Errorf("without a choice only %q are needed", all)
	}
	everyday := Everyday()
	for id, want := range map[string]bool{"kubernetes-v1.35.4": true, "image-etcd-3.6.8-0": true, HostDebian13: true, "kubernetes-v1.34.4": false, "image-etcd-3.6.5-0": false} {
		if got := slices.Contains(everyday, id); got != want {
			t.Errorf("%s is made where nothing is named: %t, want %t", id, got, want)
		}
	}
}

func TestHostTreesExist(t *testing.T) {
	w := workshop(t)
	for _, id := range []string{HostDebian12, HostDebian13} {
		if _, ok := w.components[id].Recipe.(SystemTree); !ok {
			t.Errorf("%s is no system", id)
		}
	}
}

func TestKubeadmImagesAreServed(t *testing.T) {
	w := workshop(t)
	var offered []string
	for _, image := range Images() {
		offered = append(offered, image.Ref)
	}
	for _, r := range chosen(nil) {
		kubeadm, err := w.File(t.Context(), FileOf{"kubernetes-" + r.kubernetes, "kubeadm"})
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), kubeadm, "config", "images", "list", "--kubernetes-version", r.kubernetes).Output()
		if err != nil {
			t.Fatal(err)
		}
		for ref := range strings.FieldsSeq(string(out)) {
			if !slices.Contains(offered, ref) {
				t.Errorf("kubeadm %s asks for %s, which the lab does not serve", r.kubernetes, ref)
			}
		}
	}
}

func TestBinariesReportServedVersion(t *testing.T) {
	w := workshop(t)
	tests := []struct {
		file FileOf
		args []string
		want string
	}{
		{FileOf{"kubernetes-v1.36.3", "kubeadm"}, []string{"version", "-o", "short"}, "v1.36.3"},
		{FileOf{"kubernetes-v1.35.4", "kubeadm"}, []string{"version", "-o", "short"}, "v1.35.4"},
		{FileOf{"kubernetes-v1.36.3", "kubelet"}, []string{"--version"}, "Kubernetes v1.36.3"},
		{FileOf{"kubernetes-v1.36.3", "kubectl"}, []string{"version", "--client"}, "Client Version: v1.36.3"},
		{FileOf{"etcd-v3.6.8", "etcd"}, []string{"--version"}, "etcd Version: 3.6.8"},
		{FileOf{"etcd-v3.6.6", "etcd"}, []string{"--version"}, "etcd Version: 3.6.6"},
		{FileOf{"coredns-v1.14.2", "coredns"}, []string{"--version"}, "CoreDNS-1.14.2"},
		{FileOf{"coredns-v1.13.1", "coredns"}, []string{"--version"}, "CoreDNS-1.13.1"},
		{FileOf{"containerd-v2.2.1", "containerd"}, []string{"--version"}, "v2.2.1"},
		{FileOf{"runc-v1.3.4", "runc"}, []string{"--version"}, "runc version 1.3.4"},
		{FileOf{"flannel-v0.26.7", "flanneld"}, []string{"--version"}, "v0.26.7"},
		{FileOf{"metrics-server-v0.9.0", "metrics-server"}, []string{"--version"}, "v0.9.0"},
		{FileOf{"local-path-provisioner-v0.0.30", "local-path-provisioner"}, []string{"--version"}, "v0.0.30"},
		{FileOf{"registry-v3.1.2", "registry"}, []string{"--version"}, "v3.1.2"},
		{FileOf{"versitygw-v1.8.0", "versitygw"}, []string{"--version"}, "v1.8.0"},
		{FileOf{"image-base-debian-12", "busybox"}, nil, "BusyBox v1.35.0"},
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
