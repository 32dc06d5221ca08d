package proxy

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/parcel"
	"github.com/sealift/sealift/fleet/release"
	helmrelease "github.com/sealift/sealift/helm/release"
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
// status of the report. Killed at any moment, it goes on when it is called again.
func Apply(ctx context.Context, local *rest.Config, r parcel.Release, chart []byte) (parcel.ReleaseReport, error) {
	a, at := carriedAttempt(local, r)
	a.provider = &Helm{get: func(context.Context, source.Chart, source.Access, bool) (helmrelease.Chart, error) {
		return helmrelease.ReadArchive(chart)
	}}
	if !a.hrp.DeletionTimestamp.IsZero() {
		_ = a.remove(ctx, &release.Cluster{}) // what fails is in the status
		return a.report(at.removed), ctx.Err()
	}
	if err := a.recall(ctx); err != nil {
		return a.report(false), err
	}
	_ = a.keep(ctx)
	return a.report(false), ctx.Err()
}

// Look reports on a release of a parcel, and changes nothing.
func Look(ctx context.Context, local *rest.Config, r parcel.Release) (parcel.ReleaseReport, error) {
	a, _ := carriedAttempt(local, r)
	a.provider = &Helm{}
	t, _, _ := a.target(ctx) // the cluster is here
	has, err := a.provider.Read(ctx, t)
	if err != nil {
		return a.report(false), err
	}
	if !release.Foreign(*a.hrp, has) { // what was said of a foreign one stays
		err = a.done(ctx, t, has)
	}
	return a.report(false), err
}

func carriedAttempt(local *rest.Config, r parcel.Release) (*attempt, *onCluster) {
	at := &onCluster{local: local, images: r.Mirrors}
	return &attempt{place: at, hrp: &r.Proxy, base: r.Proxy.DeepCopyObject().(*caaph.HelmReleaseProxy)}, at
}

// recall notes that the release was installed before: the hub may not know it yet.
func (a *attempt) recall(ctx context.Context) error {
	t, _, _ := a.target(ctx) // the cluster is here
	has, err := a.provider.Read(ctx, t)
	if err == nil && has.Status == "deployed" && has.Owner == release.Owner(*a.hrp) {
		release.Record(a.hrp, has, t.Name)
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
