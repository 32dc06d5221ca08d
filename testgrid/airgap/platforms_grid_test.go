//go:build grid

package airgap_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/archive"
	"github.com/sealift/sealift/internal/platform"
	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/lab/mirror"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// TestKubernetesForTwoPlatforms makes one bundle with Kubernetes, containerd and flannel for amd64 and arm64, up to the boot of a host. The
// lab cross-compiles what it has not yet: Kubernetes alone takes five minutes and more.
func TestKubernetesForTwoPlatforms(t *testing.T) {
	bundlesForBoth(t, currentOf("containerd", "flannel", "kubernetes")...)
}

// TestRuntimeForTwoPlatforms does the same with only containerd.
func TestRuntimeForTwoPlatforms(t *testing.T) {
	bundlesForBoth(t, currentOf("containerd")...)
}

// assetPrograms are assets of add-ons that are programs, without the architecture in their names.
var assetPrograms = map[string][]string{"kubernetes": {"kubelet", "kubeadm", "kubectl"}, "containerd": {"runc"}}

// currentOf lists the versions that the README installs.
func currentOf(names ...string) (list []releases.Release) {
	for _, name := range names {
		list = append(list, releases.Current(name))
	}
	return list
}

// forBoth builds versions of add-ons for both platforms, and one bundle of them.
func forBoth(t *testing.T, chosen ...releases.Release) delivery {
	t.Helper()
	short.Skip(t, "programs of the lab")
	platforms := upstream.Platforms()
	spec := "apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: both}\nspec:\n"
	for _, one := range chosen {
		spec += "  " + one.Name + ": {version: '" + one.Version + "'}\n"
	}
	name := "both-platforms"
	for _, one := range chosen {
		name += "-" + one.Name + "-" + one.Version
	}
	return deliveries.once(t, name, func(r delivery) {
		lab := mirror.Options{Images: upstream.ImagesOn(platforms, upstream.ImagesOf(chosen...)), Downloads: upstream.DownloadsOn(platforms, upstream.DownloadsOf(chosen...))}
		r.mirrored(t, lab, func() {
			args := []string{"build", "--out", r.packages, "--target", "debian-12", "--config", r.config, "--cache", r.cache, "--platform", strings.Join(platforms, ",")}
			for _, one := range chosen {
				args = append(args, one.Folder())
			}
			r.run(t, args...)
		})
		arm := filepath.Join(r.dir(), "arm64", "sealift-node")
		shell(t, repository, "CGO_ENABLED=0 GOARCH=arm64 go build -trimpath -gcflags=all=-dwarf=false -tags grpcnotrace -ldflags '-s -w' -o "+shellword.Quote(arm)+" ./cmd/sealift-node")
		place(t, filepath.Join(r.dir(), "installer.yaml"), []byte(spec))
		t.Log(r.run(t, "bundle", "-f", filepath.Join(r.dir(), "installer.yaml"), "--store", r.packages, "--out", filepath.Join(r.usb, "cluster.tar.gz"), "--cache", r.cache,
			"--platform", strings.Join(platforms, ","), "--sealift", filepath.Join(r.dir(), "sealift-node")+","+arm, "--sealift-preflight", "none"))
		shell(t, r.usb, "tar xzf cluster.tar.gz --occurrence=1 install.sh")
	})
}

// bundlesForBoth looks at what a bundle for both platforms has for each.
func bundlesForBoth(t *testing.T, chosen ...releases.Release) {
	t.Helper()
	platforms, r := upstream.Platforms(), forBoth(t, chosen...)
	var summary archive.Summary
	if err := json.Unmarshal([]byte(r.run(t, "inspect", filepath.Join(r.usb, "cluster.tar.gz"), "-o", "json")), &summary); err != nil {
		t.Fatal(err)
	}
	for n, size := range summary.PlatformSizes {
		if size.Platform != platforms[n] || size.Alone < size.Size/2 || size.Size >= summary.Size {
			t.Errorf("sizes of the platforms are %+v, of %d bytes", summary.PlatformSizes, summary.Size)
		}
	}
	if len(summary.PlatformSizes) != len(platforms) {
		t.Errorf("sizes of the platforms are %+v", summary.PlatformSizes)
	}
	a, err := bundle.Open(filepath.Join(r.usb, "cluster.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for _, p := range platforms {
		arch := strings.TrimPrefix(p, "linux/")
		paths := []string{bundle.ProgramPath(bundle.BinaryName, p)}
		for _, one := range chosen {
			for _, name := range assetPrograms[one.Name] {
				paths = append(paths, one.Folder()+"/assets/"+name+"-"+arch)
			}
		}
		for _, name := range paths {
			header := make([]byte, 64)
			if err := a.ReadAt(name, header, 0); err != nil {
				t.Fatal(err)
			}
			if got, err := platform.OfProgram(bytes.NewReader(header)); err != nil || got != p {
				t.Errorf("%s is for %q, %v", name, got, err)
			}
		}
		for _, info := range a.Index.Packages {
			for _, image := range info.Images {
				if image.Platforms[p] == "" {
					t.Errorf("image %s is not for %s", image.Ref, p)
				}
			}
			if info.Name == "kubernetes" && !slices.ContainsFunc(info.HostPackages, func(h bundle.HostPackage) bool { return h.Name == "conntrack" && h.Arch == arch }) {
				t.Errorf("no host packages for %s", p)
			}
		}
	}
}
