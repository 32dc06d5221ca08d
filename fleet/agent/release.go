package agent

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/fleet/parcel"
	"github.com/sealift/sealift/fleet/proxy"
	"github.com/sealift/sealift/helm/source"
)

// releaseName names a release in messages.
func releaseName(r parcel.Release) string { return r.Proxy.Namespace + "/" + r.Proxy.Name }

func releaseNames(p parcel.Parcel) (names []string) {
	for _, r := range p.Releases {
		names = append(names, releaseName(r))
	}
	return names
}

// applyReleases brings the Helm releases of a parcel to their desired state. It returns those that are not ready by then. One that
// fails does not stop the others; its status says why.
func (w *carrier) applyReleases(ctx context.Context, a *bundle.Archive, p parcel.Parcel) (waiting []string, err error) {
	for _, r := range p.Releases {
		var chart []byte
		if r.Proxy.DeletionTimestamp.IsZero() {
			if chart, err = chartOf(a, r); err != nil {
				return nil, err
			}
		}
		report, err := proxy.Apply(ctx, w.Carried.Local, r, chart)
		if err != nil {
			return nil, fmt.Errorf("release %s: %w", releaseName(r), err)
		}
		w.releases = append(w.releases, report)
		if removed := !r.Proxy.DeletionTimestamp.IsZero(); removed && !report.Removed || !removed && !meta.IsStatusConditionTrue(report.Status.Conditions, "Ready") {
			waiting = append(waiting, releaseName(r))
		}
	}
	return waiting, nil
}

// chartOf reads the chart of a release from the bundle of its parcel.
func chartOf(a *bundle.Archive, r parcel.Release) ([]byte, error) {
	file := parcel.ChartFile(r.Chart)
	if e, ok := a.Entry(file); !ok || e.SHA256 != r.Chart {
		return nil, fmt.Errorf("release %s: the parcel has no chart with sha256 %s; make another parcel", releaseName(r), r.Chart)
	}
	chart, err := a.ReadFile(file, source.MaxSize)
	if err != nil {
		return nil, fmt.Errorf("release %s: %w", releaseName(r), err)
	}
	return chart, nil
}

// recordReleases records the state of the releases of a parcel. It returns those that are not ready.
func (w *carrier) recordReleases(ctx context.Context, a *bundle.Archive, p parcel.Parcel) (waiting []string, err error) {
	for _, r := range p.Releases {
		if !r.Proxy.DeletionTimestamp.IsZero() {
			continue // the report of the apply has it
		}
		chart, err := chartOf(a, r)
		if err != nil {
			return nil, err
		}
		report, err := proxy.Look(ctx, w.Carried.Local, r, chart)
		if err != nil {
			return nil, fmt.Errorf("release %s: %w", releaseName(r), err)
		}
		w.releases = append(w.releases, report)
		if !meta.IsStatusConditionTrue(report.Status.Conditions, "Ready") {
			waiting = append(waiting, releaseName(r))
		}
	}
	return waiting, nil
}
