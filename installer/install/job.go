package install

import (
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/firewall"
	"github.com/sealift/sealift/installer/host/network"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/spec"
)

// contents is the content of a bundle: its Installer, and the add-ons that the Installer names.
type contents struct {
	archive *bundle.Archive
	spec    *spec.Installer
	addOns  []addOn // in the order in which they install
	signer  string  // fingerprint of the trusted key that signed the bundle
	upgrade string  // identifies an upgrade with all its stops
}

// hostFacts is the state of this host, and its history.
type hostFacts struct {
	facts     host.Facts
	past      history
	firewalls []firewall.Firewall // that are active
	cramped   bool                // see speed.Cramped
}

// history is the journal, for reading.
type history interface {
	Records() []lifecycle.Record
	Finished(lifecycle.Step) (lifecycle.Record, bool)
	Last(id string) (lifecycle.Record, bool)
	Began(id string) bool
	Open() []string
}

// job is an install, a join, an upgrade or a check before the first change. The settings, the requirements and the plan are functions
// of it: making them changes nothing.
type job struct {
	options Options
	contents
	hostFacts
	settings settings          // of this node, made of the Installer and the facts
	vars     map[string]string // that hooks see, before any of them ran
	address  network.Choice    // by which other nodes reach this host, unless the Installer names one
	dual     bool              // the cluster is dual-stack
	sealift  string            // digest of the running one
}
