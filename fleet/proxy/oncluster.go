package proxy

import (
	"context"
	"errors"

	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/chartplan"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/parcel"
	"github.com/sealift/sealift/helm/release"
	"github.com/sealift/sealift/helm/source"
)

// onCluster is the release's own cluster as its place. What is written stays in the object, for the report.
type onCluster struct {
	local   *rest.Config
	images  []ocm.ImageMirror
	removed bool
}

func (o *onCluster) reach(context.Context) (*rest.Config, string, error) { return o.local, "", nil }

func (o *onCluster) access(context.Context) (source.Access, string, error) {
	return source.Access{}, "", nil
}

func (o *onCluster) mirrors() ([]ocm.ImageMirror, error) { return o.images, nil }

func (o *onCluster) patch(context.Context, *caaph.HelmReleaseProxy, *caaph.HelmReleaseProxy) error {
	return nil
}

func (o *onCluster) status(context.Context, *caaph.HelmReleaseProxy, *caaph.HelmReleaseProxy) error {
	return nil
}

func (o *onCluster) release(context.Context, *caaph.HelmReleaseProxy) error {
	o.removed = true
	return nil
}

// Apply brings a release of a parcel to its desired state on its cluster, by the same rules as a hub does. What fails is in the
// status of the report. Killed at any moment, it resumes when it is called again.
func Apply(ctx context.Context, local *rest.Config, r parcel.Release, chart []byte) (parcel.ReleaseReport, error) {
	a, at := carriedAttempt(local, r)
	a.provider = inParcel(chart)
	if !a.hrp.DeletionTimestamp.IsZero() {
		_ = a.remove(ctx, &chartplan.Cluster{}) // what fails is in the status
		return a.report(at.removed), ctx.Err()
	}
	if err := a.recall(ctx); err != nil { // without it, a release that is installed once could be upgraded
		_ = a.unread(ctx, err)
		return a.report(false), ctx.Err()
	}
	_ = a.keep(ctx)
	return a.report(false), ctx.Err()
}

// inParcel is Helm with the chart of a parcel.
func inParcel(chart []byte) *Helm {
	return &Helm{get: func(context.Context, source.Chart, source.Access, bool) (release.Chart, error) {
		return release.ReadArchive(chart)
	}}
}

// Look reports on a release of a parcel, and changes nothing. A release that differs from the parcel is not ready. What fails is in
// the status of the report.
func Look(ctx context.Context, local *rest.Config, r parcel.Release, chart []byte) (parcel.ReleaseReport, error) {
	a, _ := carriedAttempt(local, r)
	a.provider = inParcel(chart)
	_ = a.look(ctx)
	return a.report(false), ctx.Err()
}

func (a *attempt) look(ctx context.Context) error {
	if err := a.recall(ctx); err != nil {
		return a.unread(ctx, err)
	}
	t, _, _ := a.target(ctx) // the cluster is here
	t.Mirrors, _ = a.mirrors()
	has, err := a.read(ctx, t)
	if err != nil {
		return a.unread(ctx, err)
	}
	if chartplan.Foreign(*a.hrp, has) {
		return a.foreign(ctx, t)
	}
	do, err := a.needs(ctx, t, has)
	if err == nil && has.Status == "deployed" && do != chartplan.None {
		err = errors.New("the cluster does not have the chart and the values of the parcel: the upgrade failed, or somebody changed the release; apply a new parcel")
	}
	if err != nil {
		return a.failed(ctx, operationFails, err)
	}
	return a.done(ctx, t, has)
}

func carriedAttempt(local *rest.Config, r parcel.Release) (*attempt, *onCluster) {
	at := &onCluster{local: local, images: r.Mirrors}
	return &attempt{place: at, hrp: &r.Proxy, base: r.Proxy.DeepCopyObject().(*caaph.HelmReleaseProxy)}, at
}

// recall notes that the release was installed before: the hub may not know it yet.
func (a *attempt) recall(ctx context.Context) error {
	t, _, _ := a.target(ctx) // the cluster is here
	has, err := a.read(ctx, t)
	if err == nil && has.Status == "deployed" && has.Owner == chartplan.Owner(*a.hrp) {
		chartplan.Record(a.hrp, has, t.Name)
	}
	return err
}

func (a *attempt) report(removed bool) parcel.ReleaseReport {
	r := parcel.ReleaseReport{
		Namespace: a.hrp.Namespace, Name: a.hrp.Name, UID: a.hrp.UID, Generation: a.hrp.Generation, Removed: removed,
		ReleaseName: a.hrp.Spec.ReleaseName, Status: a.hrp.Status,
	}
	for _, key := range []string{caaph.Installed, caaph.GeneratedName} {
		if value := a.hrp.Annotations[key]; value != "" {
			if r.Annotations == nil {
				r.Annotations = make(map[string]string)
			}
			r.Annotations[key] = value
		}
	}
	return r
}
