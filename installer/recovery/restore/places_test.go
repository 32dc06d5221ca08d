package restore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
)

// TestRestoreWritesNoOtherFiles uses a host whose API server reads keys for Secrets from a custom file, and one without a manifest.
func TestRestoreWritesNoOtherFiles(t *testing.T) {
	t.Parallel()
	const keys = "/srv/keys/secrets.yaml"
	with, without := host{files.Host{Rootfs: t.TempDir()}}, host{files.Host{Rootfs: t.TempDir()}}
	manifest := with.Path(kubeadm.APIServerManifest)
	if err := errors.Join(os.MkdirAll(filepath.Dir(manifest), 0o700), os.WriteFile(manifest, []byte("spec:\n  containers:\n  - command:\n    - kube-apiserver\n    - --encryption-provider-config="+keys+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, row := range map[string]struct{ with, without bool }{
		"/etc/kubernetes/pki/ca.key":                  {true, true},
		"/etc/kubernetes/admin.conf":                  {true, true},
		"/etc/kubernetes/tmp/kubeadm-backup/etcd/db":  {false, false},
		"/var/lib/sealift/state/installer.yaml":       {true, true},
		"/var/lib/other/state/installer.yaml":         {false, false},
		"/var/lib/sealift/state/journal.jsonl":        {false, false},
		keys:                                          {true, false},
		"/srv/keys/other.yaml":                        {false, false},
		"/etc/cron.d/evil":                            {false, false},
		"/root/.ssh/authorized_keys":                  {false, false},
		"/etc/kubernetes.d/x":                         {false, false},
		"/etc/systemd/system/evil.service":            {false, false},
		"/etc/ld.so.preload":                          {false, false},
		"/var/lib/kubelet/config.yaml":                {false, false},
		"/opt/cni/bin/bridge":                         {false, false},
		"/usr/local/bin/sealift":                      {false, false},
		"/var/spool/cron/crontabs/root":               {false, false},
		"/etc/cron.d/state/installer.yaml":            {false, false},
		"/etc/kubernetes/manifests/etcd.yaml":         {true, true},
		"/etc/kubernetes/encryption/config.yaml":      {true, true},
		"/etc/kubernetes/authentication/config.yaml":  {true, true},
		"/etc/kubernetes/tmp-of-somebody/policy.yaml": {true, true},
	} {
		for what, one := range map[string]struct {
			host
			ok bool
		}{"a host with a manifest": {with, row.with}, "a host without": {without, row.without}} {
			err := one.checkPlaces([]string{"etc/kubernetes/pki/ca.crt", strings.TrimPrefix(path, "/")}, "/var/lib/sealift")
			if one.ok != (err == nil) || err != nil && !strings.Contains(err.Error(), "the snapshot has "+path+", which restore does not write") {
				t.Errorf("%s, %s: %v", path, what, err)
			}
		}
	}
}

func TestEtcdDataLiesInNoSystemFolder(t *testing.T) {
	t.Parallel()
	manifest := func(data string) []byte {
		return []byte("spec: {containers: [{image: etcd, command: [etcd, --name=a, '--initial-advertise-peer-urls=https://10.0.0.1:2380', '--data-dir=" + data + "']}]}")
	}
	for _, data := range []string{"/var/lib/etcd", "/data/etcd"} {
		if m, err := parseMember(manifest(data)); err != nil || m.Data != data {
			t.Errorf("%s: %+v, %v", data, m, err)
		}
	}
	for _, data := range []string{"/etc/cron.d", "/root", "/usr/local/bin", "etcd", "/", "/var/lib/../../etc", ""} {
		if m, err := parseMember(manifest(data)); err == nil {
			t.Errorf("%s is taken: %+v", data, m)
		}
	}
}

// TestOnlyRootMayWriteRestoredFiles restores a file that others could write to where it was saved.
func TestOnlyRootMayWriteRestoredFiles(t *testing.T) {
	t.Parallel()
	c := newEtcdHost(t)
	name := "/etc/kubernetes/policy.yaml"
	if err := errors.Join(os.WriteFile(c.Path(name), []byte("kind: Policy\n"), 0o600), os.Chmod(c.Path(name), 0o666)); err != nil {
		t.Fatal(err)
	}
	from, bare := c.save(t), host{files.Host{Rootfs: t.TempDir()}}
	if err := bare.write(from, []string{strings.TrimPrefix(name, "/")}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(bare.Path(name)); err != nil || info.Mode() != fs.FileMode(0o644) {
		t.Errorf("%v, %v", info, err)
	}
}
