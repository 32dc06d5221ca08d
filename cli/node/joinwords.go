package node

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/installers"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/spec"
)

// take reads the words of a command line: those that kURL prints for hosts that join, and those that are about one host
// (kURL §2.3).
func (o *joinOptions) take(words []string) error {
	values, switches := o.joinWords()
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		set, takesValue := values[name]
		turn, alone := switches[name]
		switch {
		case takesValue && value == "":
			return app.UsageError("%s needs a value", name)
		case takesValue:
			set(value)
		case alone:
			turn()
		case slices.Contains(hostWords(), name):
			o.words = append(o.words, word)
		default:
			return app.UsageError("%s: %s", name, o.hint(name))
		}
	}
	if o.server == "" || o.caHash == "" {
		return app.UsageError("--server or --ca-hash is missing; 'sealift token create' on a control plane prints the whole command")
	}
	return nil
}

// joinWords are the words that say which cluster a host joins, and as what.
func (o *joinOptions) joinWords() (values map[string]func(string), switches map[string]func()) {
	values = map[string]func(string){
		// files do not come from the port of the API server
		"kubernetes-master-address": func(v string) { o.server = cluster.HostOf(v) },
		"kubeadm-token":             func(v string) { o.token = v },
		"kubeadm-token-ca-hash":     func(v string) { o.caHash = v },
		"cert-key":                  func(v string) { o.key = v },
		"kubernetes-version":        func(v string) { o.version = strings.TrimPrefix(v, "v") },
		"load-balancer-address":     func(v string) { o.endpoint = v },
		"primary-host":              func(v string) { o.checks.Node.PrimaryHosts = append(o.checks.Node.PrimaryHosts, v) },
		"secondary-host":            func(v string) { o.checks.Node.SecondaryHosts = append(o.checks.Node.SecondaryHosts, v) },
		installers.WordRoot:         func(v string) { o.folder = v },
		// kURL prints it for joining hosts; here they get it from the cluster
		"docker-registry-ip": func(string) {},
	}
	switches = map[string]func(){
		"control-plane":    func() { o.primary = true },
		installers.WordYes: func() { o.Yes = true },
		"airgap":           func() {}, // nothing is fetched from elsewhere in any case
		"ipv6":             func() {}, // kURL prints it for hosts that join; the cluster has its kind of addresses
	}
	for _, word := range append(installers.IdleWords(), "ignore-remote-load-images-prompt", "ignore-remote-upgrade-prompt") {
		switches[word] = func() {}
	}
	for word := range installers.ForeignWords() {
		ignore := func() { o.ignored = append(o.ignored, word) }
		switch {
		case values[word] != nil: // a join knows it
		case installers.Valued(word):
			values[word] = func(string) { ignore() }
		default:
			switches[word] = ignore
		}
	}
	return values, switches
}

// addWords adds the same arguments to a join as flags.
func (o *joinOptions) addWords(flags *pflag.FlagSet) {
	values, switches := o.joinWords()
	for name := range values {
		installers.AddWord(flags, &o.flags, name, false)
	}
	for name := range switches {
		installers.AddWord(flags, &o.flags, name, true)
	}
	for _, f := range spec.Flags() {
		if slices.Contains(hostWords(), f.Name) {
			installers.AddWord(flags, &o.flags, f.Name, f.Value == "")
		}
	}
}

// hostWords set options of the Installer that each host may have in its own way.
func hostWords() []string {
	return []string{
		"private-address", "public-address", "labels", "additional-no-proxy-addresses", "skip-system-package-install",
		"host-preflight-ignore", "preflight-ignore", "host-preflight-enforce-warnings",
		"exclude-builtin-host-preflights", "exclude-builtin-preflights",
		"preserve-firewalld-config", "preserve-iptables-config", "preserve-selinux-config",
	}
}

// hint names the alternative to an argument that a join does not accept.
func (o *joinOptions) hint(name string) string {
	if slices.ContainsFunc(spec.Flags(), func(f spec.Flag) bool { return f.Name == name }) {
		return "leave it out: the cluster has it from its first node"
	}
	values, switches := o.joinWords()
	known := slices.Concat(slices.Collect(maps.Keys(values)), slices.Collect(maps.Keys(switches)), hostWords())
	slices.Sort(known)
	return "unknown (" + diag.DidYouMean(name, known, "known: ") + ")"
}
