package node

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/install"
)

// given are words without which no join is complete.
const given = "kubernetes-master-address=10.0.0.1:6443 kubeadm-token=abcdef.0123456789abcdef kubeadm-token-ca-hash=sha256:00 "

func TestJoinAcceptsKurlArguments(t *testing.T) {
	for name, row := range map[string]struct {
		words string
		holds func(joinOptions) bool
	}{
		"a worker's": {"kubernetes-version=v1.36.3 airgap yes", func(o joinOptions) bool {
			return o.server == "10.0.0.1" && o.token == "abcdef.0123456789abcdef" && o.caHash == "sha256:00" && o.version == "1.36.3" && o.Yes && !o.primary
		}},
		"a control plane's":                         {"cert-key=11 control-plane", func(o joinOptions) bool { return o.key == "11" && o.primary }},
		"the last address counts, without its port": {"kubernetes-master-address=[fd00::1]:6443", func(o joinOptions) bool { return o.server == "fd00::1" }},
		"an address without a port":                 {"kubernetes-master-address=fd00::1", func(o joinOptions) bool { return o.server == "fd00::1" }},
		"other nodes, for the checks": {"primary-host=10.0.0.1 primary-host=10.0.0.2 secondary-host=10.0.0.3", func(o joinOptions) bool {
			return slices.Equal(o.checks.Node.PrimaryHosts, []string{"10.0.0.1", "10.0.0.2"}) && slices.Equal(o.checks.Node.SecondaryHosts, []string{"10.0.0.3"})
		}},
		"what is about this host": {"private-address=10.0.0.4 host-preflight-ignore", func(o joinOptions) bool {
			return slices.Equal(o.words, []string{"private-address=10.0.0.4", "host-preflight-ignore"})
		}},
		"labels":                    {"labels=a=b,c=d", func(o joinOptions) bool { return slices.Equal(o.words, []string{"labels=a=b,c=d"}) }},
		"the install directory":     {"kurl-install-directory=/data", func(o joinOptions) bool { return o.folder == "/data" && o.words == nil }},
		"the registry's address":    {"docker-registry-ip=10.96.0.9", func(o joinOptions) bool { return o.words == nil }},
		"a load balancer":           {"load-balancer-address=10.0.0.9", func(o joinOptions) bool { return o.endpoint == "10.0.0.9" }},
		"what has no effect either": {"force-reapply-addons ignore-remote-upgrade-prompt", func(o joinOptions) bool { return o.words == nil }},
	} {
		t.Run(name, func(t *testing.T) {
			var o joinOptions
			if err := o.take(strings.Fields(given + row.words)); err != nil {
				t.Fatal(err)
			}
			if !row.holds(o) {
				t.Errorf("got %+v", o)
			}
		})
	}
}

func TestJoinAcceptsArgumentsAsFlags(t *testing.T) {
	o := joinOptions{server: "10.0.0.1", caHash: "sha256:00"}
	flags := pflag.NewFlagSet("join", pflag.ContinueOnError)
	o.addWords(flags)
	given := "--kubeadm-token abcdef.0123456789abcdef --cert-key=11 --control-plane --primary-host 10.0.0.1 --primary-host 10.0.0.2 --private-address 10.0.0.4 --skip-system-package-install"
	if err := flags.Parse(strings.Fields(given)); err != nil {
		t.Fatal(err)
	}
	if err := o.take(o.flags); err != nil {
		t.Fatal(err)
	}
	if o.token != "abcdef.0123456789abcdef" || o.key != "11" || !o.primary || len(o.checks.Node.PrimaryHosts) != 2 ||
		!slices.Equal(o.words, []string{"private-address=10.0.0.4", "skip-system-package-install=true"}) {
		t.Errorf("got %+v", o)
	}
}

func TestJoinRefusesOtherArgumentsWithHint(t *testing.T) {
	for words, hint := range map[string]string{
		"ekco-address=":             "needs a value",
		"kurl-install-directory=":   "needs a value",
		"kubernetes-cluster-name=x": "the cluster has it from its first node",
		"ha":                        "the cluster has it from its first node",
		"contol-plane":              `did you mean "control-plane"?`,
		"cert-key=":                 "needs a value",
		"kubeadm-token":             "needs a value",
	} {
		t.Run(words, func(t *testing.T) {
			var o joinOptions
			if err := o.take(strings.Fields(given + words)); err == nil || !strings.Contains(err.Error(), hint) {
				t.Errorf("got %v, want %q", err, hint)
			}
		})
	}
}

// kURL prints these words in its join commands.
func TestJoinIgnoresArgumentsWithoutEffect(t *testing.T) {
	var o joinOptions
	if err := o.take(strings.Fields(given + "ekco-address=10.0.0.1 ekco-auth-token=x storage-migration-ready-timeout=10m preflight-ignore-warnings dismiss-host-packages-preflight ipv6")); err != nil {
		t.Fatal(err)
	}
	if len(o.ignored) != 5 {
		t.Errorf("got %v", o.ignored)
	}
}

func TestJoinTakesNoAddressFromFirstNode(t *testing.T) {
	cluster := share.Cluster{Installer: "apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: x}\nspec:\n  kurl: {privateAddress: 10.0.0.1, publicAddress: 1.2.3.4, hostnameCheck: first, skipSystemPackageInstall: true}\n"}
	for words, want := range map[string]any{"": nil, "private-address=10.0.0.4": "10.0.0.4"} {
		shared, err := install.SharedInstaller(cluster)
		if err != nil {
			t.Fatal(err)
		}
		got, err := (&joinOptions{words: strings.Fields(words)}).adjust(shared)
		if err != nil {
			t.Fatal(err)
		}
		options := got.Section("kurl").Options
		if options["privateAddress"] != want || options["publicAddress"] != nil || options["hostnameCheck"] != nil || options["skipSystemPackageInstall"] != true {
			t.Errorf("with %q: %v", words, options)
		}
	}
}
