package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestLimitsFollowHostSize(t *testing.T) {
	for name, row := range map[string]struct {
		cpus           int
		load, slowness float64
		want           limits
	}{
		"a large host at rest":      {16, 0.2, 0.7, 2},
		"a large host that works":   {16, 17, 1.2, 2},
		"a large host with more":    {16, 33, 1, 3},
		"two processors":            {2, 0.1, 1, 3},
		"two that unpack images":    {2, 4.1, 1, 4},
		"one processor, busy":       {1, 30, 1, 5},
		"an emulated machine":       {2, 0.1, 8.9, 11},
		"an emulated one, busy":     {2, 8, 8.9, 13},
		"a measurement gone astray": {2, 0.1, 1e300, 15},
	} {
		if got := limitsFor(row.cpus, row.load, row.slowness); got != row.want {
			t.Errorf("%s: %d, want %d", name, got, row.want)
		}
	}
	if longest := limits(mostLimits).of(kubeletHealthTime) + limits(mostLimits).of(componentHealthTime); longest >= MaxKubeadmTime {
		t.Errorf("kubeadm is stopped after %s, and waits up to %s", MaxKubeadmTime, longest)
	}
}

func TestSlownessOfThisHostIsPlausible(t *testing.T) {
	if got := slowness(); got < 0.05 || got > 100 {
		t.Errorf("this host takes %.2f times as long as usual", got)
	}
	if got := Patience(time.Minute); got < time.Minute || got > mostLimits*time.Minute {
		t.Errorf("a minute is %s here", got)
	}
}

// TestKubeadmTimeoutsFollowHost lets the real kubeadm read the configurations. kubeadm's own limit for an answer of the API is a minute.
func TestKubeadmTimeoutsFollowHost(t *testing.T) {
	k := work(t, map[string]string{"init-patches/site.yaml": "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nmetadata: {name: kubeadm-init-configuration}\ntimeouts: {kubeletHealthCheck: 17m0s}\n"})
	first, err := k.initConfig()
	if err != nil {
		t.Fatal(err)
	}
	joinName := filepath.Join(k.Work, "kubeadm-join.yaml")
	if err := k.writeJoinConfig(joinName); err != nil {
		t.Fatal(err)
	}
	upgradeName := filepath.Join(k.Work, "kubeadm-upgrade.yaml")
	if err := writeDocuments(upgradeName, []*unstructured.Unstructured{hostLimits().upgradeConfiguration("/var/lib/sealift/patches")}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"init": first, "join": contentOf(t, joinName), "upgrade": contentOf(t, upgradeName)} {
		for _, limit := range []string{"kubernetesAPICall", "controlPlaneComponentHealthCheck", "tlsBootstrap", "etcdAPICall", "upgradeManifests"} {
			_, rest, found := strings.Cut(text, limit+": ")
			value, err := time.ParseDuration(strings.Fields(rest + " x")[0])
			if !found || err != nil || value < 2*time.Minute {
				t.Errorf("%s: %s is %s, %v in\n%s", name, limit, value, err, text)
			}
		}
	}
	if !strings.Contains(first, "kubeletHealthCheck: 17m0s") {
		t.Errorf("a patch counts for nothing:\n%s", first)
	}
	validate(t, filepath.Join(k.Work, "kubeadm.yaml"))
	validate(t, joinName)
	validate(t, upgradeName)
}

func contentOf(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
