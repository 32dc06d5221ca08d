package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sealift/sealift/internal/diag"
)

// IdleOption is an option that the Installer sets and that has no effect.
type IdleOption struct {
	Name string   `json:"name"` // such as kurl.licenseURL
	Hint string   `json:"hint"` // what to do instead
	Pos  diag.Pos `json:"-"`    // of the key
}

// idleOptions are the options of kURL's Installer that have no effect in Sealift or in the add-on, each with an alternative. A
// test compares them with the options that Sealift and kURL's hooks read.
func idleOptions() map[string]string {
	const (
		token     = "make tokens with 'sealift token create'"
		joining   = "only joining hosts need it; 'sealift token create' prints their command"
		noDocker  = "Sealift installs no Docker; leave it out"
		noPrompts = "Sealift never prompts; leave it out"
	)
	return map[string]string{
		"kubernetes.bootstrapToken":               token,
		"kubernetes.bootstrapTokenTTL":            "make tokens with 'sealift token create --ttl'",
		"kubernetes.certKey":                      joining,
		"kubernetes.controlPlane":                 joining,
		"kubernetes.kubeadmToken":                 joining,
		"kubernetes.kubeadmTokenCAHash":           joining,
		"kubernetes.masterAddress":                joining,
		"kubernetes.loadBalancerUseFirstPrimary":  "every node runs its own load balancer",
		"kubernetes.upgradeIgnorePreflightErrors": "leave it out",
		"docker.bypassStorageDriverWarning":       noDocker,
		"docker.daemonConfig":                     noDocker,
		"docker.dockerRegistryIP":                 "set registry.serviceIP",
		"docker.hardFailOnLoopback":               noDocker,
		"docker.noCEOnEE":                         noDocker,
		"docker.preserveConfig":                   noDocker,
		"ekco.autoUpgradeSchedule":                "leave it out: the add-on does not read it either",
		"ekco.enableInternalLoadBalancer":         "every node runs its own load balancer",
		"ekco.podImageOverrides":                  "no bundle has these images; name them in the Manifest of an add-on",
		"kotsadm.applicationSlug":                 "no bundle has the application; upload its airgap package in the admin console",
		"openebs.cstorStorageClassName":           "the add-on has no cStor from 2.12.9 on",
		"velero.namespace":                        "leave it out: Velero is in the namespace velero, as in kURL",
		"kurl.ignoreRemoteLoadImagesPrompt":       noPrompts,
		"kurl.ignoreRemoteUpgradePrompt":          noPrompts,
		"kurl.installerVersion":                   "leave it out",
		"kurl.licenseURL":                         "show the license where you hand over the bundle",
		"firewalldConfig.firewalld":               "use disableFirewalld, or switch it on before the install",
		"selinuxConfig.type":                      "set SELINUXTYPE in /etc/selinux/config",
		"helm.helmfileSpec":                       "make an add-on of the charts",
		"helm.additionalImages":                   "name the images in the Manifest of an add-on",
	}
}

// Idle returns the options that the Installer sets and that have no effect, sorted by name.
func (i *Installer) Idle() []IdleOption {
	var idle []IdleOption
	look := func(key string, options Options, pos diag.Pos) {
		for option, value := range options {
			name := key + "." + option
			if hint, listed := idleOptions()[name]; listed && isSet(value) {
				idle = append(idle, IdleOption{name, hint, pos})
			}
		}
	}
	for _, a := range i.AddOns {
		look(a.Key, a.Options, a.Pos)
	}
	for _, s := range i.Sections {
		look(s.Key, s.Options, s.Pos)
	}
	slices.SortFunc(idle, func(a, b IdleOption) int { return strings.Compare(a.Name, b.Name) })
	return idle
}

// OwnOptions returns the options that the add-on sets and that only the add-on of Sealift's catalogue reads, sorted by name. They have no
// effect if the package is kURL's of the same name.
func (a AddOn) OwnOptions() []IdleOption {
	var own []IdleOption
	s, _ := known(a.Key)
	for _, f := range s.fields {
		if _, set := a.Options[f.key]; f.own && set {
			own = append(own, IdleOption{a.Key + "." + f.key, fmt.Sprintf("kURL's %s has no such option; use the %[1]s of Sealift's catalogue, or leave it out", a.Key), a.Pos})
		}
	}
	slices.SortFunc(own, func(a, b IdleOption) int { return strings.Compare(a.Name, b.Name) })
	return own
}

// isSet reports whether a value enables something. A value that is false, empty or zero does not.
func isSet(value any) bool {
	switch v := value.(type) {
	case []any:
		return len(v) > 0
	default:
		return v != nil && v != false && v != "" && v != int64(0)
	}
}
