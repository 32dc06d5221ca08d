package catalog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/releases"
	"github.com/sealift/sealift/spec"
)

// upgraded upgrades an Installer of kURL and returns its spec in canonical form, and the changes.
func upgraded(t *testing.T, body string, stored Versions) (string, string) {
	t.Helper()
	old, _, err := spec.Salvage("i", strings.NewReader("apiVersion: kurl.sh/v1beta1\nkind: Installer\nspec:\n"+body))
	if err != nil {
		t.Fatal(err)
	}
	before, err := old.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	i, changes, err := Upgrade(old, stored)
	if err != nil {
		t.Fatal(err)
	}
	if after, err := old.Canonical(); err != nil || string(after) != string(before) {
		t.Errorf("the Installer itself changed: %v\n%s", err, after)
	}
	if err := diag.Err(Check(i, nil)); err != nil {
		t.Errorf("what was written does not work: %v", err)
	}
	if found := i.Check(); len(found) > 0 {
		t.Errorf("what was written has warnings: %v", found)
	}
	text, err := i.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := spec.Parse("new", strings.NewReader(string(text))); err != nil {
		t.Errorf("what was written is refused: %v", err)
	}
	if again, more, err := Upgrade(i, stored); err != nil || len(more) > 0 || again == i {
		t.Errorf("a second upgrade changes it again: %v, %v", more, err)
	}
	var lines []string
	for _, c := range changes {
		lines = append(lines, c.String())
		if c.Field == "" || c.Why == "" || c.Was == c.Now {
			t.Errorf("a change without a field or reason: %+v", c)
		}
	}
	return string(text), strings.Join(lines, "\n")
}

func canonicalSpec(t *testing.T, body string) string {
	t.Helper()
	text, err := installerOf(t, body).Canonical()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestUpgradeWritesNearestWorkingInstaller(t *testing.T) {
	const base = "  kubernetes: {version: 1.36.3}\n  containerd: {version: 2.2.6}\n"
	last := func(name string) string { return shipped(name)[len(shipped(name))-1] }
	oldest, newest, runtime, network := shipped("kubernetes")[0], last("kubernetes"), last("containerd"), last("flannel")
	major, line := MajorMinor(oldest)
	minor := fmt.Sprintf("%d.%d", major, line)
	for name, row := range map[string]struct {
		old, want string
		told      []string
	}{
		"nothing to do":             {sound, sound, nil},
		"an old Kubernetes":         {"  kubernetes: {version: 1.19.9}\n  containerd: {version: 2.2.6}\n  flannel: {version: 0.28.7}\n", "  kubernetes: {version: " + oldest + "}\n  containerd: {version: 2.2.6}\n  flannel: {version: 0.28.7}\n", []string{"kubernetes.version: 1.19.9 becomes " + oldest + ": "}},
		"an old line":               {"  kubernetes: {version: 1.25.x}\n  containerd: {version: 1.6.x}\n  flannel: {version: 0.20.x}\n", "  kubernetes: {version: " + minor + ".x}\n  containerd: {version: 1.6.x}\n  flannel: {version: 0.20.x}\n", []string{"kubernetes.version: 1.25.x becomes " + minor + ".x: "}},
		"docker":                    {"  kubernetes: {version: latest}\n  docker: {version: 19.03.10, preserveConfig: true}\n  flannel: {version: latest}\n", "  kubernetes: {version: latest}\n  containerd: {version: " + runtime + "}\n  flannel: {version: latest}\n", []string{"docker: 19.03.10 with preserveConfig is left out: ", "containerd.version: " + runtime + " is new: "}},
		"docker beside containerd":  {sound + "  docker: {version: 19.03.10}\n", sound, []string{"docker: 19.03.10 is left out"}},
		"no runtime, no network":    {"  kubernetes: {version: 1.36.3}\n", "  kubernetes: {version: 1.36.3}\n  containerd: {version: " + runtime + "}\n  flannel: {version: " + network + "}\n", []string{"containerd.version: " + runtime + " is new", "flannel.version: " + network + " is new"}},
		"k3s":                       {"  k3s: {version: v1.23.3+k3s1}\n  registry: {version: 3.1.1}\n", "  registry: {version: 3.1.1}\n  kubernetes: {version: " + newest + "}\n  containerd: {version: " + runtime + "}\n  flannel: {version: " + network + "}\n", []string{"k3s: v1.23.3+k3s1 is left out"}},
		"rke2 beside Kubernetes":    {sound + "  rke2: {version: v1.22.6+rke2r1}\n", sound, []string{"rke2: v1.22.6+rke2r1 is left out"}},
		"no Kubernetes":             {"  kotsadm: {version: 1.117.3, disableS3: true}\n", "  kotsadm: {version: 1.117.3, disableS3: true}\n  kubernetes: {version: " + newest + "}\n  containerd: {version: " + runtime + "}\n  flannel: {version: " + network + "}\n", []string{"kubernetes.version: " + newest + " is new"}},
		"calico":                    {base + "  calico: {version: 3.9.1}\n", base + "  flannel: {version: " + network + "}\n", []string{"calico: 3.9.1 is left out", "flannel.version: " + network + " is new: in place of calico"}},
		"two pod networks":          {base + "  weave: {version: 2.8.1}\n  antrea: {version: 1.4.0}\n", base + "  weave: {version: 2.8.1}\n", []string{"antrea: 1.4.0 is left out: a cluster has one pod network; weave stays"}},
		"longhorn":                  {sound + "  longhorn: {version: 1.3.1, uiBindPort: 30880}\n", sound + "  openebs: {version: 4.5.1, isLocalPVEnabled: true, localPVStorageClassName: default}\n", []string{"longhorn: 1.3.1 with uiBindPort is left out", "openebs.version: 4.5.1 is new"}},
		"the newest longhorn":       {sound + "  longhorn: {version: latest}\n  openebs: {version: 4.5.1}\n", sound + "  openebs: {version: 4.5.1}\n", []string{"longhorn: latest is left out"}},
		"storage and more":          {sound + "  rook: {version: 1.0.4-14.2.21}\n  velero: {version: 1.6.0}\n  contour: {version: 1.7.0}\n  prometheus: {version: 0.33.0, serviceType: LoadBalancer}\n  ekco: {version: 0.11.0}\n", sound + "  rook: {version: 1.19.7}\n  velero: {version: 1.18.3}\n  contour: {version: 1.32.1}\n  prometheus: {version: 3.16.0}\n  ekco: {version: 0.28.14}\n", []string{"rook.version: 1.0.4-14.2.21 becomes 1.19.7", "prometheus.serviceType: LoadBalancer is left out", "ekco.version: 0.11.0 becomes 0.28.14"}},
		"a kotsadm that hangs":      {sound + "  kotsadm: {version: 1.86.0, disableS3: true}\n", sound + "  kotsadm: {version: 1.134.0, disableS3: true}\n", []string{"kotsadm.version: 1.86.0 becomes 1.134.0: its hook waits"}},
		"cStor":                     {sound + "  openebs: {version: 2.6.0, isCstorEnabled: true, cstorStorageClassName: fast}\n", sound + "  openebs: {version: 4.5.1, isLocalPVEnabled: true, localPVStorageClassName: fast}\n", []string{"openebs.isCstorEnabled: true is left out", "openebs.localPVStorageClassName: fast is new"}},
		"no object store":           {sound + "  kotsadm: {version: 1.117.3}\n", sound + "  kotsadm: {version: 1.117.3, disableS3: true}\n", []string{"kotsadm.disableS3: true is new"}},
		"IPv6 without a network":    {base + "  weave: {version: 2.8.1}\n  kurl: {ipv6: true, nameserver: 10.0.0.1}\n", base + "  weave: {version: 2.8.1}\n  kurl: {nameserver: 10.0.0.1}\n", []string{"kurl.ipv6: true is left out"}},
		"options without effect":    {sound + "  kurl: {installerVersion: v2022.03.04-1, nameserver: 10.0.0.1}\n  kotsadm: {version: 1.117.3, disableS3: true, applicationSlug: x}\n", sound + "  kurl: {nameserver: 10.0.0.1}\n  kotsadm: {version: 1.117.3, disableS3: true}\n", []string{"kurl.installerVersion: v2022.03.04-1 is left out: it has no effect; ", "kotsadm.applicationSlug: x is left out"}},
		"an add-on without version": {sound + "  velero: {namespace: x, keep: 48h}\n", sound + "  velero: {version: 1.18.3, keep: 48h}\n", []string{"velero.version: 1.18.3 is new: it had none", "velero.namespace: x is left out: it has no effect; "}},
		"another package":           {sound + "  prometheus: {version: 0.33.0, s3Override: 'https://x.example.com/prometheus-0.33.0.tar.gz'}\n", sound + "  prometheus: {version: 3.16.0}\n", []string{"prometheus.s3Override: https://x.example.com/prometheus-0.33.0.tar.gz is left out"}},
		"a section without options": {sound + "  helm: {helmfileSpec: x}\n  ufw: {}\n", sound, []string{"helm.helmfileSpec: x is left out"}},
		"a Kubernetes with a v":     {strings.Replace(sound, "1.36.3", "v1.36.3", 1), sound, []string{"kubernetes.version: v1.36.3 becomes 1.36.3: "}},
		"an old one with a v":       {strings.Replace(sound, "1.36.3", "v1.25.4", 1), strings.Replace(sound, "1.36.3", oldest, 1), []string{"kubernetes.version: 1.25.4 becomes " + oldest + ": "}},
		"a version that is none":    {strings.Replace(sound, "2.2.6", "../x", 1), strings.Replace(sound, "2.2.6", runtime, 1), []string{"containerd.version: " + runtime + " is new: it had none"}},
		"scaling to two nodes":      {sound + "  rook: {version: 1.19.7, minimumNodeCount: 2}\n", sound + "  rook: {version: 1.19.7, minimumNodeCount: 3}\n", []string{"rook.minimumNodeCount: 2 becomes 3: "}},
		"half a network":            {base + "  antrea: {version: 1.4.0, podCIDR: 10.10.10., podCidrRange: 22}\n", base + "  antrea: {version: 1.4.0, podCidrRange: 22}\n", []string{"antrea.podCIDR: 10.10.10. is left out: "}},
		"an add-on of others":       {sound + "  garage: {version: 1.0.0, size: 5}\n", sound + "  garage: {version: 1.0.0, size: 5}\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, changes := upgraded(t, row.old, nil)
			if want := canonicalSpec(t, row.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			for _, line := range row.told {
				if !strings.Contains(changes, line) {
					t.Errorf("%q is not among\n%s", line, changes)
				}
			}
			if row.told == nil && changes != "" {
				t.Errorf("changes\n%s", changes)
			}
		})
	}
}

func TestUpgradeTakesVersionsOfStore(t *testing.T) {
	store := map[string][]string{"kubernetes": {"1.36.3", "1.35.4", "1.30.2", "1.37.0-rc.1"}, "containerd": {"2.2.9", "2.2.1", "2.4.2"}, "flannel": {"0.28.10"},
		"minio": {"2025-10-15T17-29-55Z", "2023-01-01T00-00-00Z"}, "rook": {"1.5.9"}, "registry": {"2.8.1"}}
	stored := func(name string) ([]string, error) { return slices.Clone(store[name]), nil }
	for name, row := range map[string]struct{ old, want, told string }{
		"another patch release":  {"  kubernetes: {version: 1.36.1}\n  containerd: {version: 2.2.6}\n  flannel: {version: 0.28.7}\n", "  kubernetes: {version: 1.36.3}\n  containerd: {version: 2.2.9}\n  flannel: {version: 0.28.10}\n", "containerd.version: 2.2.6 becomes 2.2.9: the store does not have it"},
		"an older one of a line": {"  kubernetes: {version: 1.36.9}\n  containerd: {version: 2.4.x}\n  flannel: {version: latest}\n", "  kubernetes: {version: 1.36.3}\n  containerd: {version: 2.4.x}\n  flannel: {version: latest}\n", "kubernetes.version: 1.36.9 becomes 1.36.3"},
		"what is there but old":  {"  kubernetes: {version: 1.30.2}\n  containerd: {version: 1.7.x}\n  flannel: {version: 0.28.10}\n", "  kubernetes: {version: 1.35.4}\n  containerd: {version: 2.2.x}\n  flannel: {version: 0.28.10}\n", "containerd.version: 1.7.x becomes 2.2.x"},
		"newer than all":         {"  kubernetes: {version: 1.38.1}\n  containerd: {version: 2.2.9}\n  flannel: {version: 0.28.10}\n", "  kubernetes: {version: 1.36.3}\n  containerd: {version: 2.2.9}\n  flannel: {version: 0.28.10}\n", "kubernetes.version: 1.38.1 becomes 1.36.3"},
		"a network it lacks":     {"  kubernetes: {version: 1.36.3}\n  containerd: {version: 2.2.9}\n  weave: {version: 2.8.1, podCIDR: 10.1.0.0/16, podCidrRange: /22}\n", "  kubernetes: {version: 1.36.3}\n  containerd: {version: 2.2.9}\n  flannel: {version: 0.28.10, podCIDR: 10.1.0.0/16, podCIDRRange: /22}\n", "weave: 2.8.1 with podCIDR, podCidrRange is left out: the store has no package of it; flannel replaces it"},
		"times for versions":     {"  kubernetes: {version: 1.36.3}\n  containerd: {version: 2.2.9}\n  flannel: {version: 0.28.10}\n  minio: {version: 2022-07-06T20-29-49Z}\n", "  kubernetes: {version: 1.36.3}\n  containerd: {version: 2.2.9}\n  flannel: {version: 0.28.10}\n  minio: {version: 2023-01-01T00-00-00Z}\n", "minio.version: 2022-07-06T20-29-49Z becomes 2023-01-01T00-00-00Z"},
		"only too old ones":      {"  kubernetes: {version: 1.36.3}\n  containerd: {version: 2.2.9}\n  flannel: {version: 0.28.10}\n  rook: {version: 1.5.9}\n  kotsadm: {version: 1.9.0}\n  registry: {version: 2.7.x}\n", "  kubernetes: {version: 1.36.3}\n  containerd: {version: 2.2.9}\n  flannel: {version: 0.28.10}\n  registry: {version: 2.8.x}\n", "kotsadm: 1.9.0 is left out: the store has no package of it; put one there with 'sealift import'"},
	} {
		t.Run(name, func(t *testing.T) {
			got, changes := upgraded(t, row.old, stored)
			if want := canonicalSpec(t, row.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if !strings.Contains(changes, row.told) {
				t.Errorf("%q is not among\n%s", row.told, changes)
			}
		})
	}
}

// The catalogue has the versions of the table that ship, and no others. They stand oldest first, and one of each is current.
func TestCatalogueHasShippedReleases(t *testing.T) {
	for _, r := range releases.All() {
		if r.Use == releases.Tool {
			continue
		}
		manifests, err := filepath.Glob(filepath.Join("../addons", r.Name, "*", "Manifest"))
		if err != nil {
			t.Fatal(err)
		}
		var found, listed []string
		for _, file := range manifests {
			if version := filepath.Base(filepath.Dir(file)); version != "template" {
				found = append(found, version)
			}
		}
		for _, other := range releases.Of(r.Name, releases.Shipped) {
			listed = append(listed, other.Version)
		}
		slices.SortFunc(found, CompareVersions)
		if !slices.Equal(found, listed) {
			t.Errorf("%s: addons has %v, releases.txt %v", r.Name, found, listed)
		}
		if current := releases.Of(r.Name, releases.Default); len(current) != min(1, len(releases.Of(r.Name, releases.Tested))) {
			t.Errorf("%s has %d current versions, want 1, or 0 if 'make test' installs none", r.Name, len(current))
		}
	}
	all, err := os.ReadDir("../addons")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if shipped(a.Name()) == nil {
			t.Errorf("shipped lacks %s", a.Name())
		}
	}
}
