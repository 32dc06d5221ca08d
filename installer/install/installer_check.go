package install

import (
	"context"
	"strings"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/installer/host/packages"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/preflight"
)

// checkTogether refuses add-ons that do not work together. The command line may have changed the Installer of the bundle. The
// add-ons of an existing cluster were checked when it was made.
func (j *job) checkTogether() error {
	if j.Joins() {
		return nil
	}
	var metas []catalog.Meta
	for _, a := range j.addOns {
		metas = append(metas, a.meta)
	}
	return diag.Err(catalog.Check(j.spec, metas))
}

// installerCheck finds requests of the Installer that an install ignores, always or on this host.
func (j *job) installerCheck(_ context.Context, r *preflight.Reporter) {
	wanted := j.settings.onlyHost
	if wanted != "" && !strings.EqualFold(wanted, j.facts.Hostname) {
		r.Refusef("run it on that host, or change kurl.hostnameCheck", "is for host %q, and this is %s", wanted, j.facts.Hostname)
		return
	}
	if lacking := j.needUtilityImage(); len(lacking) > 0 {
		r.Refusef("import kURL's bundle or its common.tar.gz with 'sealift import', publish the resulting package kurl-util, and make the bundle again",
			"asks for %s, which needs the image kurl-util of kURL, and the bundle does not have it", strings.Join(lacking, ", "))
		return
	}
	idle := j.spec.Idle()
	for _, a := range j.addOns {
		if a.fromKURL {
			idle = append(idle, j.spec.AddOn(a.name()).OwnOptions()...)
		}
	}
	for _, o := range idle {
		r.Warnf(o.Hint, "%s has no effect", o.Name)
	}
	if len(idle) == 0 {
		r.Passf("all of its options have an effect")
	}
}

// lackedPackages requires those that the add-ons need, when none is installed.
func (j *job) lackedPackages(ctx context.Context, r *preflight.Reporter) {
	missing, err := packages.Lacking(ctx, hostPackages(j.addOns, j.facts.Target()))
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
