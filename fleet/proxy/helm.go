package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/fleet/caaph"
	"github.com/sealift/sealift/fleet/chartplan"
	"github.com/sealift/sealift/helm/release"
	"github.com/sealift/sealift/helm/source"
)

// Helm is the Provider that installs charts.
type Helm struct {
	schemes []string
	get     func(ctx context.Context, want source.Chart, access source.Access, whole bool) (release.Chart, error)
}

// NewHelm returns a Provider that fetches charts also by these schemes.
func NewHelm(schemes []string) *Helm { return &Helm{schemes: schemes, get: newChartCache().get} }

func connect(t Target) (*release.Client, error) {
	return release.New(release.Config{
		Cluster: t.Cluster, Namespace: cmp.Or(t.Proxy.Spec.ReleaseNamespace, "default"), Tenant: t.Proxy.Namespace, Answer: longestAnswer,
	})
}

// Read implements Provider.
func (h *Helm) Read(ctx context.Context, t Target) (chartplan.Installed, error) {
	c, err := connect(t)
	if err != nil {
		return chartplan.Installed{}, err
	}
	r, err := c.Get(ctx, t.Name)
	if errors.Is(err, release.ErrNotFound) {
		return chartplan.Installed{}, nil
	}
	if err != nil {
		return chartplan.Installed{}, err
	}
	return installed(r)
}

func installed(r release.Release) (chartplan.Installed, error) {
	values, err := yaml.Marshal(r.Values)
	return chartplan.Installed{
		Status: r.Status, Revision: r.Revision, Version: r.Version, Values: string(values), Owner: r.Labels[chartplan.OwnerLabel], Mirrors: r.Labels[chartplan.MirrorsLabel],
	}, err
}

// Version implements Provider. A range, and no version at all, need the repository. So does a version that the release does not have: the
// chart may have another one than its tag.
func (h *Helm) Version(ctx context.Context, t Target, has string) (string, error) {
	if version, exact := chartplan.Exact(*t.Proxy); exact && (has == "" || chartplan.SameVersion(has, version)) {
		return version, nil
	}
	c, err := h.chart(ctx, t)
	return c.Version, err
}

// chart fetches the chart of a release, with its dependencies if the proxy asks for them.
func (h *Helm) chart(ctx context.Context, t Target) (release.Chart, error) {
	access := t.Access
	access.Schemes, access.Tenant = h.schemes, t.Proxy.Namespace
	spec := t.Proxy.Spec
	return h.get(ctx, source.Chart{Repository: spec.RepoURL, Name: spec.ChartName, Version: spec.Version}, access, spec.Options.DependencyUpdate)
}

// Run implements Provider.
func (h *Helm) Run(ctx context.Context, t Target, o chartplan.Operation) (chartplan.Installed, error) {
	c, err := connect(t)
	if err != nil {
		return chartplan.Installed{}, err
	}
	chart, err := h.chart(ctx, t)
	if err != nil {
		return chartplan.Installed{}, err
	}
	if o == chartplan.Recover {
		if _, err := c.Recover(ctx, t.Name); err != nil {
			return chartplan.Installed{}, err
		}
	}
	do := c.Upgrade
	if o == chartplan.Install {
		if _, err := c.Recover(ctx, t.Name); err != nil && !errors.Is(err, release.ErrNotFound) {
			return chartplan.Installed{}, err
		}
		do = c.Install
	}
	opts := options(*t.Proxy)
	if len(t.Mirrors) > 0 {
		opts.Labels[chartplan.MirrorsLabel], opts.PostRender = mirrorsID(t.Mirrors), rewrite(t.Mirrors)
	} else if o != chartplan.Install {
		opts.Labels[chartplan.MirrorsLabel] = "null" // so Helm removes a label
	}
	done, err := do(ctx, t.Name, chart, []byte(t.Proxy.Spec.Values), opts)
	if err != nil {
		return chartplan.Installed{}, err
	}
	return installed(done)
}

// Remove implements Provider.
func (h *Helm) Remove(ctx context.Context, t Target) error {
	c, err := connect(t)
	if err != nil {
		return err
	}
	return c.Uninstall(ctx, t.Name, options(*t.Proxy))
}

// options are Helm's for a proxy (C-3).
func options(r caaph.HelmReleaseProxy) release.Options {
	in := r.Spec.Options
	o := release.Options{
		Wait: in.Wait, WaitForJobs: in.WaitForJobs, Atomic: in.Atomic, DisableHooks: in.DisableHooks, SkipCRDs: in.SkipCRDs,
		SubNotes: in.SubNotes, DisableOpenAPIValidation: in.DisableOpenAPIValidation, TakeOwnership: in.TakeOwnership,
		Labels:          map[string]string{chartplan.OwnerLabel: chartplan.Owner(r)},
		CreateNamespace: in.Install.CreateNamespace == nil || *in.Install.CreateNamespace, IncludeCRDs: in.Install.IncludeCRDs,
		Force: in.Upgrade.Force, ResetValues: in.Upgrade.ResetValues, ReuseValues: in.Upgrade.ReuseValues,
		ResetThenReuseValues: in.Upgrade.ResetThenReuseValues, CleanupOnFail: in.Upgrade.CleanupOnFail,
	}
	if in.Timeout != nil {
		o.Timeout = max(in.Timeout.Duration, time.Second)
	}
	if n := in.Upgrade.MaxHistory; n != nil {
		if o.MaxHistory = *n; *n == 0 {
			o.MaxHistory = -1 // to Helm, zero means all
		}
	}
	if u := in.Uninstall; u != nil && !r.DeletionTimestamp.IsZero() {
		o.KeepHistory, o.Description = u.KeepHistory, u.Description
	}
	return o
}

// dependencies fetches the charts that a chart depends on and lacks.
func dependencies(ctx context.Context, c release.Chart, access source.Access) (release.Chart, error) {
	missing, err := c.Missing()
	if err != nil || len(missing) == 0 {
		return c, err
	}
	var archives [][]byte
	for _, d := range missing {
		a, err := source.Fetch(ctx, source.Chart{Repository: d.Repository, Name: d.Name, Version: d.Version}, access)
		if err != nil {
			return c, fmt.Errorf("dependency of chart %s: %w", c.Name, err)
		}
		archives = append(archives, a.Content)
	}
	return c.With(archives...)
}
