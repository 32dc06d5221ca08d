package installer

import (
	"context"
	"slices"
	"strings"

	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

// idleOptions are those of kURL's Installer that change nothing here, with what does what they are for.
func idleOptions() map[string]string {
	return map[string]string{
		"kubernetes.cisCompliance":                "set by hand what your benchmark asks for",
		"kubernetes.bootstrapToken":               "make tokens with 'sealift token create'",
		"kubernetes.bootstrapTokenTTL":            "make tokens with 'sealift token create --ttl'",
		"kubernetes.loadBalancerUseFirstPrimary":  "every node has a balancer of its own",
		"kubernetes.upgradeIgnorePreflightErrors": "leave it out",
		"ekco.enableInternalLoadBalancer":         "every node has a balancer of its own",
		"kurl.installerVersion":                   "leave it out",
		"kurl.licenseURL":                         "show the license where the bundle is handed over",
		"firewalldConfig.firewalld":               "use disableFirewalld, or switch it on before the install",
		"selinuxConfig.type":                      "set SELINUXTYPE in /etc/selinux/config",
		"helm.helmfileSpec":                       "make an add-on of the charts",
		"helm.additionalImages":                   "name the images in the Manifest of an add-on",
	}
}

// demands looks at what the Installer asks for that an install does not do, or does not do on this host.
func (i *Install) demands(_ context.Context, r *preflight.Reporter) {
	wanted := i.hooks.variables["HOSTNAME_CHECK"]
	if wanted != "" && !strings.EqualFold(wanted, i.facts.Hostname) {
		r.Refusef("run it on that host, or change kurl.hostnameCheck", "is for host %q, and this is %s", wanted, i.facts.Hostname)
		return
	}
	if isTrue(i.spec.Section("kurl").Options, "ipv6") {
		r.Refusef("leave out kurl.ipv6", "asks for a cluster with IPv6 alone, and Sealift makes those with IPv4")
		return
	}
	idle := setOptions(i.spec, idleOptions())
	if len(idle) == 0 {
		r.Passf("all of its options have an effect")
		return
	}
	r.Warnf(idleOptions()[idle[0]], "without effect: %s", strings.Join(idle, ", "))
}

// skipsPackages says whether the Installer wants no package of the host installed (kURL §2.1).
func (i *Install) skipsPackages() bool {
	return i.hooks.variables["SKIP_SYSTEM_PACKAGE_INSTALL"] == "1"
}

// lackedPackages wants those that the add-ons need to be there, when none is installed.
func (i *Install) lackedPackages(ctx context.Context, r *preflight.Reporter) {
	missing, err := host.LackedPackages(ctx, hostPackages(i.addOns, i.facts.Target()))
	if err != nil {
		r.Failf("see why they cannot be listed", "%v", err)
		return
	}
	if len(missing) > 0 {
		r.Failf("install them, or leave out kurl.skipSystemPackageInstall", "the Installer says not to install any, and these are not there: %s", strings.Join(missing, ", "))
		return
	}
	r.Passf("those that the add-ons need are there")
}

// setOptions gives those options, written section.option, that an Installer sets.
func setOptions(s *spec.Installer, names map[string]string) (set []string) {
	for name := range names {
		key, option, _ := strings.Cut(name, ".")
		options := s.Section(key).Options
		for _, a := range s.AddOns {
			if a.Name == spec.AddOnName(key) {
				options = a.Options
			}
		}
		if value, there := options[option]; there && value != nil && value != false && value != "" {
			set = append(set, name)
		}
	}
	slices.Sort(set)
	return set
}
