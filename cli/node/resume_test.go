package node

import (
	"strings"
	"testing"
)

func TestResumeCommandIsQuotedForShell(t *testing.T) {
	for name, row := range map[string]struct {
		args   []string
		script string
		want   string
	}{
		"plain words":          {[]string{"sealift", "install", "--bundle", "/media/usb/a.tar.gz"}, "", "sudo sealift install --bundle /media/usb/a.tar.gz"},
		"characters of shells": {[]string{"sealift", "install", "--bundle", "my $(bundle).tar.gz"}, "", "sudo sealift install --bundle 'my $(bundle).tar.gz'"},
		"started by a script":  {[]string{"/var/lib/x/sealift", "install"}, "cat install.sh | sudo bash -s airgap", "cat install.sh | sudo bash -s airgap"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := resumeCommand(row.args, row.script); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestJoinSecretsAreNotStored(t *testing.T) {
	for given, kept := range map[string]string{
		"sealift join --token abcdef.0123456789abcdef --ca-hash sha256:00":   "sealift join --token TOKEN --ca-hash sha256:00",
		"sealift join --token=abcdef.0123456789abcdef --certificate-key=11":  "sealift join --token=TOKEN --certificate-key=KEY",
		"sealift join kubeadm-token=abcdef.0123456789abcdef cert-key=11 yes": "sealift join kubeadm-token=TOKEN cert-key=KEY yes",
		"sealift join --kubeadm-token abcdef.0123456789abcdef --cert-key 11": "sealift join --kubeadm-token TOKEN --cert-key KEY",
		"sealift join --certificate-key 11 control-plane":                    "sealift join --certificate-key KEY control-plane",
		"sealift join --server 10.0.0.1 --key vendor.pub":                    "sealift join --server 10.0.0.1 --key vendor.pub",
		"sealift join --token": "sealift join --token",
	} {
		if got := strings.Join(hideSecrets(strings.Fields(given)), " "); got != kept {
			t.Errorf("%s: got %s", given, got)
		}
	}
}
