package install

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/balancer"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/imagepackage"
)

const digestOfNothing = "@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// withKubernetesImages is an install of Kubernetes with the images that kubeadm wants, and of another add-on with an etcd of its own.
func withKubernetesImages(t *testing.T) *Install {
	t.Helper()
	k, other := with(t, "kubernetes", "", "kubernetes_host"), with(t, "store", "", "store")
	k.layout = &runtime.Layout{}
	for _, ref := range []string{
		"registry.k8s.io/kube-apiserver:v1.37.2", "registry.k8s.io/kube-controller-manager:v1.37.2" + digestOfNothing, "harbor.corp:5000/mirror/kube-scheduler" + digestOfNothing,
		"registry.k8s.io/kube-proxy:v1.37.2", "registry.k8s.io/coredns/coredns:v1.14.6", "registry.k8s.io/pause:3.10.2", "registry.k8s.io/etcd:3.7.0-0",
	} {
		k.layout.Images = append(k.layout.Images, runtime.Image{Ref: ref})
	}
	other.layout = &runtime.Layout{Images: []runtime.Image{{Ref: "registry.k8s.io/etcd:3.7.0-0"}}}
	return made(t, k, other)
}

// joining makes the install one of a node that joins, and returns the steps that load images.
func joining(i *Install, controlPlane bool) map[string]lifecycle.Step {
	i.options.Join = &Join{ControlPlane: controlPlane, Cluster: share.Cluster{Endpoint: balancer.Endpoint}}
	return imageSteps(i)
}

func imageSteps(i *Install) map[string]lifecycle.Step {
	found := map[string]lifecycle.Step{}
	for _, s := range i.makePlan() {
		if s.ID == "kubernetes/images" || s.ID == "store/images" {
			found[s.ID] = s
		}
	}
	return found
}

func TestWorkerLoadsNoImagesOfControlPlane(t *testing.T) {
	i := withKubernetesImages(t)
	if s := imageSteps(i)["kubernetes/images"]; s.Title != "load 7 images into containerd" {
		t.Errorf("the first node: %s", s.Title)
	}
	if s := joining(i, true)["kubernetes/images"]; s.Title != "load 7 images into containerd" {
		t.Errorf("a control plane that joins: %s", s.Title)
	}
	steps := joining(i, false)
	if s := steps["kubernetes/images"]; s.Title != "load 3 images into containerd" {
		t.Errorf("a worker: %s", s.Title)
	}
	if s := steps["store/images"]; s.Title != "load 1 image into containerd" {
		t.Errorf("the etcd of an add-on, on a worker: %s", s.Title)
	}
	var refs []string
	for _, image := range i.nodeImages(i.addOns[0]).Images {
		refs = append(refs, imageName(image.Ref))
	}
	if want := []string{"kube-proxy", "coredns", "pause"}; !slices.Equal(refs, want) {
		t.Errorf("got %v, want %v", refs, want)
	}
	i.options.Upgrade = &Upgrade{From: "1"}
	if s := imageSteps(i)["kubernetes/images"]; s.Title != "load 3 images into containerd" {
		t.Errorf("an upgrade of a worker: %s", s.Title)
	}
}

func TestWorkerThatBecomesControlPlaneLoadsItsImages(t *testing.T) {
	i := withKubernetesImages(t)
	before := joining(i, false)
	for _, s := range before {
		finished(t, i, s, nil)
	}
	for id, s := range joining(i, false) {
		if _, done := i.Journal.Finished(s); !done {
			t.Errorf("%s runs again on a worker", id)
		}
	}
	after := joining(i, true)
	if _, done := i.Journal.Finished(after["kubernetes/images"]); done {
		t.Error("a control plane takes the images of a worker for its own")
	}
	if _, done := i.Journal.Finished(after["store/images"]); !done {
		t.Error("the images of an add-on are loaded again")
	}
}

// TestWorkerOfEarlierSealiftLoadsNothingAgain has a worker with the images of a control plane.
func TestWorkerOfEarlierSealiftLoadsNothingAgain(t *testing.T) {
	i := withKubernetesImages(t)
	finished(t, i, joining(i, true)["kubernetes/images"], nil)
	if _, done := i.Journal.Finished(joining(i, false)["kubernetes/images"]); !done {
		t.Error("the worker loads images again")
	}
}

// TestDiskEstimateOfWorkerCountsItsImagesOnly has two images that share a layer.
func TestDiskEstimateOfWorkerCountsItsImagesOnly(t *testing.T) {
	noise := rand.NewChaCha8([32]byte{1})
	layer := func(size int) []byte {
		content := make([]byte, size)
		_, _ = noise.Read(content)
		return fixture.Layer(t, [2]string{"file", string(content)})
	}
	const server, proxy = "registry.k8s.io/kube-apiserver:v1.37.2", "registry.k8s.io/kube-proxy:v1.37.2"
	base, own, proxys := layer(100_000), layer(1_000_000), layer(10_000)
	a, err := bundle.Open(fixture.ImagePackage(t, map[string][][]byte{server: {base, own}, proxy: {base, proxys}}, nil, bundle.WriteOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	k := with(t, "kubernetes", "", "kubernetes_host")
	k.info = a.Index.Packages[0]
	k.meta.Provides = []string{kubernetesCapability}
	if k.layout, err = runtime.OpenLayout(a, filepath.Join(k.info.Dir(), "images")); err != nil {
		t.Fatal(err)
	}
	k.layout.Skip = func(string) bool { return false }
	k.layout.Images = []runtime.Image{{Ref: server}, {Ref: proxy}}
	i := made(t, k)
	i.archive = a
	all, err := i.imageSize(i.addOns...)
	if err != nil {
		t.Fatal(err)
	}
	joining(i, false)
	worker, err := i.imageSize(i.addOns...)
	if err != nil {
		t.Fatal(err)
	}
	// The layer, unpacked as a tar with a header and two blocks at its end, and the manifest.
	if less := all - worker; less < 2*1_000_000 || less > 2*1_000_000+10_000 {
		t.Errorf("%d of %d bytes are counted on a worker", worker, all)
	}
	content, err := i.content()
	if err != nil || content.Images != worker+clusterSpace {
		t.Errorf("the next upgrade is expected to bring %+v, %v", content, err)
	}
}

// TestWorkerGetsNoImagesOfControlPlaneFromOthers covers 'images load --all-nodes'.
func TestWorkerGetsNoImagesOfControlPlaneFromOthers(t *testing.T) {
	for name, row := range map[string]struct {
		addOn, ref string
		worker     int // images
	}{
		"a control plane's": {"kubernetes", "registry.k8s.io/etcd:3.7.0-0", 0},
		"a worker's":        {"kubernetes", "registry.k8s.io/kube-proxy:v1.37.2", 1},
		"an add-on's":       {"store", "registry.k8s.io/etcd:3.7.0-0", 1},
	} {
		file := filepath.Join(t.TempDir(), "a.tar.gz")
		imagepackage.WriteAddOn(t, file, row.addOn, "1", row.ref, shopImage(t, 1000))
		a, err := bundle.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		for worker, want := range map[bool]int{false: 1, true: row.worker} {
			layouts, err := layoutsOf(a, runtime.OfPerson, worker)
			if err != nil || len(layouts) != 1 || len(layouts[0].Images) != want || layouts[0].Origin != runtime.OfPerson {
				t.Errorf("%s image, worker %v: %+v, %v", name, worker, layouts, err)
			}
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}
