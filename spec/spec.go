// Package spec reads Installers: the YAML that lists the add-ons, versions and options of a cluster.
//
// It accepts `apiVersion: sealift.dev/v1` and kURL's `cluster.kurl.sh/v1beta1`, which have the same shape, and migrates kURL's
// `kurl.sh/v1beta1` as kURL's API does. It checks them, prints them canonically, and turns options into the variables that hooks see. It does not know which add-ons exist or in
// what order they install, and it never evaluates a value.
//
// Comments cite rules of kURL by section (kURL §2.1): docs/reference/kurl.md has them.
package spec

import (
	"fmt"

	"github.com/sealift/sealift/internal/diag"
)

// The API versions and the kind that an Installer may have.
const (
	APIVersion     = "sealift.dev/v1"
	KurlAPIVersion = "cluster.kurl.sh/v1beta1"
	Kind           = "Installer"
)

// Installer is the specification of one cluster.
type Installer struct {
	APIVersion string    `json:"apiVersion"`     // as written: APIVersion or KurlAPIVersion
	Name       string    `json:"name,omitempty"` // metadata.name
	AddOns     []AddOn   `json:"addOns"`
	Sections   []Section `json:"sections,omitempty"`
	// Migrated are warnings about older forms of kURL's in the document, and what Parse left out because of them.
	Migrated []diag.Finding `json:"-"`
}

// AddOn is one versioned key of the spec. Add-ons keep the order of the document.
type AddOn struct {
	Name string `json:"name"` // folder of the add-on: cert-manager
	// Key is the key in the spec: certManager. Keys that kURL lists have kURL's spelling, others the document's.
	Key     string  `json:"key"`
	Version string  `json:"version"` // as written; a pattern such as latest or 1.36.x is for the store to resolve
	Options Options `json:"options,omitempty"`
	// Words lists the options that came as words of a command line, and that kURL does not list. Their values are text: only the add-on knows
	// their types.
	Words []string `json:"-"`
	Pos   diag.Pos `json:"-"` // of the key
}

// Section is a key of the spec that configures the host or the installer and has no version: kurl, helm,
// selinuxConfig, iptablesConfig, firewalldConfig, ufwConfig.
type Section struct {
	Key     string   `json:"key"`
	Options Options  `json:"options,omitempty"`
	Pos     diag.Pos `json:"-"` // of the key
}

// Options are the keys under an add-on or section, without version. A value is a string, bool, int64, float64, []any or
// map[string]any. Keys with the value null are left out.
type Options map[string]any

// AddOn returns the add-on with this name, or an empty one if the document lacks it.
func (i *Installer) AddOn(name string) AddOn {
	for _, a := range i.AddOns {
		if a.Name == name {
			return a
		}
	}
	return AddOn{}
}

// HostPaths are the folders of hosts that add-ons keep data in, where the document names them.
func (i *Installer) HostPaths() (folders []string) {
	for _, a := range i.AddOns {
		if folder, ok := a.Options["hostPath"].(string); ok && folder != "" { // of local-path-provisioner and kURL's minio
			folders = append(folders, folder)
		}
	}
	return folders
}

// Section returns the section under key, or an empty one if the document lacks it.
func (i *Installer) Section(key string) Section {
	for _, s := range i.Sections {
		if s.Key == key {
			return s
		}
	}
	return Section{Key: key}
}

// Check returns warnings about things that are valid but probably mistakes.
func (i *Installer) Check() []diag.Finding {
	var keys []string
	for _, s := range sections() {
		keys = append(keys, s.key)
	}
	var found diag.List
	for _, a := range i.AddOns {
		if _, listed := known(a.Key); listed {
			continue
		}
		if near := diag.Nearest(a.Key, keys); near != "" {
			found.Warnf(a.Pos, fmt.Sprintf("did you mean %q?", near), "%s is an add-on that kURL does not list", a.Key)
		}
	}
	found.Add(i.Migrated...)
	for _, o := range i.Idle() {
		found.Warnf(o.Pos, o.Hint, "%s has no effect", o.Name)
	}
	return found.Findings()
}

// IsName reports whether text can be the name of an add-on, which is the name of a folder.
func IsName(text string) bool { return addOnKey.MatchString(text) }

// IsVersion reports whether text can be the version of an add-on, which is the name of a folder.
func IsVersion(text string) bool { return addOnVersion.MatchString(text) }

// Key returns the key in a spec for the folder of an add-on: certManager for cert-manager. An add-on that kURL does not list has its name.
func Key(name string) string {
	if s, listed := known(name); listed {
		return s.key
	}
	return name
}

// Listed reports whether kURL lists key, in any spelling.
func Listed(key string) bool {
	_, listed := known(key)
	return listed
}
