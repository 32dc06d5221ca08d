package restore

import (
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	kubeadmtest "github.com/sealift/sealift/internal/testing/kubeadm"
)

// TestNodeRemembersDrillOfItsOwnCluster: a drill may run anywhere, with a snapshot of any cluster.
func TestNodeRemembersDrillOfItsOwnCluster(t *testing.T) {
	t.Parallel()
	rootfs := strings.TrimSuffix(kubeadmtest.Folder(t), kubeadm.Folder)
	ca, err := identity.ReadCA(rootfs + kubeadm.PKI + "/ca.crt")
	if err != nil {
		t.Fatal(err)
	}
	own, saved := identity.CAHash(ca), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	root := t.TempDir()
	remembered := func(d Drill, cluster string) *LastDrill {
		t.Helper()
		if err := d.remember(root, rootfs, snapshot.Index{Cluster: cluster, Time: saved}); err != nil {
			t.Fatal(err)
		}
		last, err := ReadLastDrill(root)
		if err != nil {
			t.Fatal(err)
		}
		return last
	}
	if last := remembered(Drill{}, own); last != nil {
		t.Errorf("on a host that sealift did not install: %+v", last)
	}
	if err := node.MarkRoot(root); err != nil {
		t.Fatal(err)
	}
	if last := remembered(Drill{}, "sha256:"+strings.Repeat("0", 64)); last != nil {
		t.Errorf("of another cluster: %+v", last)
	}
	if last := remembered(Drill{Whole: 3}, own); last == nil || !last.Passed || last.Seconds != 3 || !last.Snapshot.Equal(saved) || time.Since(last.Time) > time.Minute {
		t.Errorf("got %+v", last)
	}
	if last := remembered(Drill{Differ: []string{"x"}}, own); last == nil || last.Passed {
		t.Errorf("got %+v", last)
	}
}
