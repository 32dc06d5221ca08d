package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/installer/host/speed"
)

func TestKubeadmEndsBeforeItIsStopped(t *testing.T) {
	if longest := speed.Limits(speed.Most).Of(kubeletHealthTime) + speed.Limits(speed.Most).Of(componentHealthTime); longest >= MaxKubeadmTime {
		t.Errorf("kubeadm is stopped after %s, and waits up to %s", MaxKubeadmTime, longest)
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
	if err := writeDocuments(upgradeName, []*unstructured.Unstructured{upgradeConfiguration("/var/lib/sealift/patches")}); err != nil {
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
