package upgrade

import (
	"testing"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/host"
)

func TestNodesOfOtherPlatformsAreKnownByTheirArchitecture(t *testing.T) {
	for arch, want := range map[string]string{"": "", host.Arch(): "", "riscv64": "linux/riscv64"} {
		if got := otherPlatform(cluster.Node{Architecture: arch}); got != want {
			t.Errorf("a node with architecture %q is of %q, want %q", arch, got, want)
		}
	}
}
