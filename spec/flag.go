package spec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sealift/sealift/internal/diag"
)

// Flag is a command-line argument that sets an option of the Installer, with or without a value.
type Flag struct {
	Name   string `json:"name"`
	Key    string `json:"key"`    // of the spec
	Option string `json:"option"` // below the key
	// Value is the type of the flag's value, such as "a whole number", or "" for a flag without one.
	Value string `json:"value,omitempty"`
}

// Flags lists kURL's flags that set an option, sorted by name (kURL §2.3).
func Flags() []Flag {
	var flags []Flag
	for key, options := range kurlFlags() {
		for option, names := range options {
			f, _ := sectionOf(key).field(option)
			for _, name := range names {
				flag := Flag{Name: name, Key: key, Option: option}
				if f.is != boolean {
					flag.Value = string(f.is)
				}
				flags = append(flags, flag)
			}
		}
	}
	slices.SortFunc(flags, func(a, b Flag) int { return strings.Compare(a.Name, b.Name) })
	return flags
}

// kurlFlags maps section and option to the flags that set it. Flags that do not concern the Installer are not listed.
func kurlFlags() map[string]map[string][]string {
	return map[string]map[string][]string{
		"kubernetes": {
			"version":   {"kubernetes-version"},
			"HACluster": {"ha"}, "controlPlane": {"control-plane"}, "masterAddress": {"kubernetes-master-address"},
			"kubeadmToken": {"kubeadm-token"}, "kubeadmTokenCAHash": {"kubeadm-token-ca-hash"}, "certKey": {"cert-key"},
			"loadBalancerAddress": {"load-balancer-address"}, "loadBalancerUseFirstPrimary": {"kubernetes-load-balancer-use-first-primary"},
			"containerLogMaxSize": {"container-log-max-size"}, "containerLogMaxFiles": {"container-log-max-files"},
			"maxPodsPerNode": {"kubernetes-max-pods-per-node"}, "cisCompliance": {"kubernetes-cis-compliance"},
			"clusterName": {"kubernetes-cluster-name"}, "initIgnorePreflightErrors": {"kubernetes-init-ignore-preflight-errors"},
			"upgradeIgnorePreflightErrors": {"kubernetes-upgrade-ignore-preflight-errors"},
		},
		"kurl": {
			"airgap": {"airgap"}, "publicAddress": {"public-address"}, "privateAddress": {"private-address"}, "ipv6": {"ipv6"}, "dualStack": {"dual-stack"},
			"additionalNoProxyAddresses": {"additional-no-proxy-addresses"}, "skipSystemPackageInstall": {"skip-system-package-install"},
			"hostPreflightIgnore": {"host-preflight-ignore", "preflight-ignore"}, "hostPreflightEnforceWarnings": {"host-preflight-enforce-warnings"},
			"excludeBuiltinHostPreflights": {"exclude-builtin-host-preflights", "exclude-builtin-preflights"},
			"nodeLabels":                   {"labels"},
			"ignoreRemoteLoadImagesPrompt": {"ignore-remote-load-images-prompt"}, "ignoreRemoteUpgradePrompt": {"ignore-remote-upgrade-prompt"},
		},
		"ekco":            {"enableInternalLoadBalancer": {"ekco-enable-internal-load-balancer"}},
		"registry":        {"serviceIP": {"docker-registry-ip", "kurl-registry-ip"}},
		"docker":          {"preserveConfig": {"preserve-docker-config"}},
		"aws":             {"excludeStorageClass": {"aws-exclude-storage-class"}},
		"velero":          {"resticTimeout": {"velero-restic-timeout"}, "serverFlags": {"velero-server-flags"}},
		"kotsadm":         {"applicationVersionLabel": {"app-version-label"}},
		"firewalldConfig": {"preserveConfig": {"preserve-firewalld-config"}},
		"iptablesConfig":  {"preserveConfig": {"preserve-iptables-config"}},
		"selinuxConfig":   {"preserveConfig": {"preserve-selinux-config"}},
	}
}

func sectionOf(key string) section {
	s, _ := known(key)
	return s
}

// Unused holds the command-line words that change nothing in an Installer, as they were given.
type Unused struct {
	Unknown []string // not about the Installer
	Absent  []string // kURL's flags of add-ons that the Installer does not have; kURL also ignores them
}

// Override returns the Installer with the options that command-line words set. A word is one of kURL's flags (name or
// name=value) or key.option=value for any option of the Installer. Leading dashes are ignored. The error names every
// mistake.
func (i *Installer) Override(words ...string) (_ *Installer, unused Unused, err error) {
	changed := i.Clone()
	var p parser
	for n, word := range words {
		name, value, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
		flag, ok := flagOf(name)
		if !ok {
			unused.Unknown = append(unused.Unknown, word)
			continue
		}
		switch err := changed.override(flag, value, hasValue); {
		case errors.Is(err, errAbsent) && !strings.Contains(name, "."):
			unused.Absent = append(unused.Absent, word)
		case err != nil:
			p.Errorf(diag.Pos{File: "argument " + strconv.Itoa(n+1)}, "", "%s: %v", name, err)
		}
	}
	p.collisions(changed)
	if err := p.Err(); err != nil {
		return nil, Unused{}, err
	}
	return changed, unused, nil
}

// errAbsent reports that the Installer lacks the add-on that an option belongs to.
var errAbsent = errors.New("the Installer has no")

// flagOf finds the option that a word sets.
func flagOf(name string) (Flag, bool) {
	flags := Flags()
	if at := slices.IndexFunc(flags, func(f Flag) bool { return f.Name == name }); at >= 0 {
		return flags[at], true
	}
	key, option, dotted := strings.Cut(name, ".")
	if !dotted || !addOnKey.MatchString(key) || !optionKey.MatchString(option) {
		return Flag{}, false
	}
	if s, listed := known(key); listed {
		key = s.key
	}
	return Flag{Name: name, Key: key, Option: option}, true
}

func (i *Installer) override(flag Flag, value string, hasValue bool) error {
	s, listed := known(flag.Key)
	f := field{key: flag.Option, is: text}
	if listed {
		var ok bool
		if f, ok = s.field(flag.Option); !ok {
			return fmt.Errorf("%s has no option %q (%s)", s.key, flag.Option, diag.DidYouMean(flag.Option, s.keys(), "known: "))
		}
	}
	v, err := f.is.parse(value, hasValue)
	if err != nil {
		return err
	}
	if s.versionless {
		i.set(s.key, diag.Pos{}, Options{f.key: flag.added(i.Section(s.key).Options[f.key], v)})
		return nil
	}
	at := slices.IndexFunc(i.AddOns, func(a AddOn) bool { return a.Name == AddOnName(flag.Key) })
	version, isText := v.(string)
	if flag.Key == "kubernetes" {
		version = strings.TrimPrefix(version, "v")
	}
	switch {
	case at < 0:
		return fmt.Errorf("%w %s", errAbsent, flag.Key)
	case flag.Option != "version":
		i.AddOns[at].Options = over(i.AddOns[at].Options, Options{f.key: flag.added(i.AddOns[at].Options[f.key], v)})
		if !listed {
			i.AddOns[at].Words = append(slices.Clone(i.AddOns[at].Words), f.key)
		}
	case !isText || !addOnVersion.MatchString(version):
		return fmt.Errorf("bad version %q of %s", value, flag.Key)
	default:
		i.AddOns[at].Version = version
	}
	return nil
}

// added returns the value of an option after an argument set it to value. In kURL's bashmerge, two words add to a list; any other
// replaces.
func (f Flag) added(was, value any) any {
	list, isList := was.([]any)
	if !isList || f.Name != "additional-no-proxy-addresses" && f.Name != "velero-server-flags" {
		return value
	}
	more, _ := value.([]any)
	return slices.Concat(list, more)
}

// parse converts a command-line value to the field's type.
func (t fieldType) parse(value string, has bool) (any, error) {
	switch {
	case t == boolean && !has:
		return true, nil
	case t == commands || t == anything || t == login:
		return nil, fmt.Errorf("is %s, which cannot be given on a command line; use a patch", t)
	case !has || value == "":
		return nil, fmt.Errorf("needs a value, %s", t)
	}
	switch t {
	case boolean:
		b, err := strconv.ParseBool(value)
		if err != nil {
			return nil, fmt.Errorf("%q is not %s", value, t)
		}
		return b, nil
	case integer:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || !plainInteger.MatchString(value) {
			return nil, fmt.Errorf("%q is not %s", value, t)
		}
		return n, nil
	case list:
		var values []any
		for word := range strings.SplitSeq(value, ",") {
			values = append(values, word)
		}
		return values, nil
	case level:
		if value != string(level) {
			return nil, fmt.Errorf("%q is not %s", value, t)
		}
	case cidrSize:
		if !slashSize.MatchString(value) {
			return nil, fmt.Errorf("%q is not %s", value, t)
		}
	}
	return value, nil
}
