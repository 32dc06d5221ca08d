package cluster

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestHostRecognizesItsClusterByFiles takes its files away one by one.
func TestHostRecognizesItsClusterByFiles(t *testing.T) {
	rootfs := t.TempDir()
	hash := map[string][]string{}
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(rootfs, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	ca := func(name string) (text string) {
		t.Helper()
		file := filepath.Join(fixture.CA(t), "ca.crt")
		one, err := identity.ReadCA(file)
		if err != nil {
			t.Fatal(err)
		}
		hash[name] = append(hash[name], identity.CAHash(one))
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	config := func(text string) string {
		return "kind: Config\nclusters: [{name: a, cluster: {certificate-authority-data: " + base64.StdEncoding.EncodeToString([]byte(text)) + "}}]\n"
	}
	write(clusterCA, ca(clusterCA)+ca(clusterCA))
	write(kubeadm.KubeletKubeconfig, config(ca(kubeadm.KubeletKubeconfig)))
	write(kubeadm.AdminKubeconfig, config(ca(kubeadm.AdminKubeconfig)+ca(kubeadm.AdminKubeconfig)))
	for n, name := range []string{clusterCA, kubeadm.KubeletKubeconfig, kubeadm.AdminKubeconfig, ""} {
		all, file, err := KnownCAs(rootfs)
		if err != nil || file != name || len(all) != len(hash[name]) {
			t.Fatalf("%d CAs in %s, %v, want those of %s", len(all), file, err, name)
		}
		for i, one := range all {
			if identity.CAHash(one) != hash[name][i] {
				t.Errorf("%s: CA %d is another", name, i)
			}
		}
		if name == "" {
			break
		}
		if n%2 == 0 { // lost with the power
			write(name, "")
		} else if err := os.Remove(filepath.Join(rootfs, name)); err != nil {
			t.Fatal(err)
		}
	}
	write(kubeadm.KubeletKubeconfig, "kind: Config\nclusters: [{name: a, cluster: {certificate-authority: /none}}]\n")
	if all, file, err := KnownCAs(rootfs); err != nil || len(all) > 0 {
		t.Errorf("of a file elsewhere: %d CAs, %s, %v", len(all), file, err)
	}
	write(clusterCA, "damaged")
	if _, _, err := KnownCAs(rootfs); err == nil {
		t.Error("a damaged file is taken for none")
	}
}

// TestClockBeforeTheCAIsNamed has a clock that is right, one a day behind, and one whose battery is dead.
func TestClockBeforeTheCAIsNamed(t *testing.T) {
	rootfs := t.TempDir()
	if err := checkClock(rootfs, time.Unix(0, 0)); err != nil {
		t.Errorf("without a cluster: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(fixture.CA(t), "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(rootfs, clusterCA)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if err := checkClock(rootfs, now); err != nil {
		t.Errorf("with the right clock: %v", err)
	}
	for _, clock := range []time.Time{now.AddDate(0, 0, -1), time.Unix(0, 0)} {
		err := checkClock(rootfs, clock)
		if err == nil || !strings.Contains(err.Error(), "the clock of this host says "+clock.UTC().Format(time.RFC3339)+"; set the clock") {
			t.Errorf("with the clock at %s: %v", clock, err)
		}
	}
}
