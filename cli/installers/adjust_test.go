package installers

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/spec"
)

func TestWordsOfAbsentAddOnsAreNoted(t *testing.T) {
	i, err := spec.Parse("i", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nspec:\n  kubernetes: {version: 1.36.3}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var notes bytes.Buffer
	j := Adjustment{notes: &notes}
	j.Take([]string{"velero-restic-timeout=1h", "ekco-enable-internal-load-balancer", "ha", "labels=a=b,c=d"})
	changed, err := j.Apply(i)
	if err != nil {
		t.Fatal(err)
	}
	const want = "note: velero-restic-timeout has no effect: the Installer does not have its add-on\n" +
		"note: ekco-enable-internal-load-balancer has no effect: the Installer does not have its add-on\n"
	if notes.String() != want {
		t.Errorf("got %s", &notes)
	}
	if labels, _ := changed.Section("kurl").Options["nodeLabels"].([]any); len(labels) != 2 || labels[1] != "c=d" {
		t.Errorf("labels: %v", labels)
	}
}

// kURL's install.sh accepts them (get_patch_yaml), and so do the commands that it prints.
func TestForeignWordsAreNoted(t *testing.T) {
	for word := range ForeignWords() {
		i, err := spec.Parse("i", strings.NewReader("apiVersion: sealift.dev/v1\nkind: Installer\nspec:\n  kubernetes: {version: 1.36.3}\n"))
		if err != nil {
			t.Fatal(err)
		}
		var notes bytes.Buffer
		j := Adjustment{notes: &notes}
		j.Take([]string{word + "=10.0.0.1", "ha"})
		changed, err := j.Apply(i)
		if err != nil || changed.AddOn("kubernetes").Options["HACluster"] != true || !strings.HasPrefix(notes.String(), "note: "+word+" has no effect: ") {
			t.Errorf("%s: %v, %s", word, err, &notes)
		}
	}
	if len(ForeignWords()) != 7 {
		t.Errorf("%d words", len(ForeignWords()))
	}
}

// These are all words of kURL's install.sh (kURL §2.3).
func TestEveryKurlArgumentIsAccepted(t *testing.T) {
	const words = `airgap ha control-plane kubernetes-master-address=10.0.0.1:6443 kubeadm-token=a kubeadm-token-ca-hash=sha256:0 cert-key=0 kubernetes-version=v1.36.3
		kubernetes-load-balancer-use-first-primary load-balancer-address=10.0.0.9:6443 ekco-enable-internal-load-balancer public-address=1.2.3.4 private-address=10.0.0.1 ipv6
		kurl-registry-ip=10.96.0.9 docker-registry-ip=10.96.0.9 ekco-address=10.0.0.1 ekco-auth-token=x primary-host=10.0.0.1 secondary-host=10.0.0.2 secondary-host=10.0.0.3
		additional-no-proxy-addresses=a,b labels=a=b,c=d container-log-max-size=1Mi container-log-max-files=3 kubernetes-max-pods-per-node=50 kubernetes-cis-compliance
		kubernetes-cluster-name=red kubernetes-init-ignore-preflight-errors=x kubernetes-upgrade-ignore-preflight-errors=x aws-exclude-storage-class velero-restic-timeout=1h
		velero-server-flags=--a=b,--c app-version-label=1 kurl-install-directory=/data host-preflight-ignore host-preflight-enforce-warnings exclude-builtin-host-preflights
		exclude-builtin-preflights dismiss-host-packages-preflight preflight-ignore preflight-ignore-warnings skip-system-package-install preserve-docker-config
		preserve-firewalld-config preserve-iptables-config preserve-selinux-config ignore-remote-load-images-prompt ignore-remote-upgrade-prompt
		storage-migration-ready-timeout=10m yes auto-upgrades-enabled force-reapply-addons`
	for name, text := range map[string]string{"all add-ons": "  kubernetes: {version: 1.36.3}\n  ekco: {version: 1}\n  velero: {version: 1}\n  aws: {version: 1}\n  kotsadm: {version: 1}\n  registry: {version: 1}\n", "Kubernetes alone": "  kubernetes: {version: 1.36.3}\n"} {
		i, err := spec.Parse("i", strings.NewReader("apiVersion: cluster.kurl.sh/v1beta1\nkind: Installer\nspec:\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		j := Adjustment{notes: new(bytes.Buffer)}
		yes := j.Take(strings.Fields(words))
		changed, err := j.Apply(i)
		if err != nil || !yes || j.Folder != "/data" {
			t.Errorf("%s: yes %v, folder %s, %v", name, yes, j.Folder, err)
			continue
		}
		if got := changed.AddOn("kubernetes"); got.Version != "1.36.3" || got.Options["clusterName"] != "red" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestKurlInstallDirectoryIsInstallRoot(t *testing.T) {
	for name, row := range map[string]struct{ root, word, want string }{
		"neither":             {node.DefaultRoot, "", node.DefaultRoot},
		"kURL's word":         {node.DefaultRoot, "/data", "/data/kurl"},
		"the flag":            {"/srv", "", "/srv"},
		"both":                {"/srv", "/data", ""},
		"no path":             {node.DefaultRoot, "data", ""},
		"a path with a slash": {node.DefaultRoot, "/data/", "/data/kurl"},
	} {
		j := Adjustment{}
		if row.word != "" {
			j.Take([]string{"kurl-install-directory=" + row.word})
		}
		got, err := Root(row.root, j.Folder)
		if got != row.want || (err != nil) != (row.want == "") {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}
