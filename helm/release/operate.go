package release

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	helmengine "helm.sh/helm/v4/pkg/engine"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/postrenderer"
	helmrelease "helm.sh/helm/v4/pkg/release"
	releasecommon "helm.sh/helm/v4/pkg/release/common"
	v1 "helm.sh/helm/v4/pkg/release/v1"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/helm/engine"
)

// Options of operations. The zero value waits for hooks only, and keeps ten revisions.
type Options struct {
	Timeout time.Duration // of each wait; 10 minutes by default
	// Wait waits until the applied objects are ready, and WaitForJobs until its Jobs are done. Atomic waits, and rolls back an
	// operation that failed.
	Wait, WaitForJobs, Atomic bool

	DisableHooks             bool
	DisableOpenAPIValidation bool
	SkipCRDs                 bool // of the directory crds/
	// IncludeCRDs puts crds/ into the manifest, so that an upgrade upgrades them and an uninstallation removes them. An upgrade without
	// it does so with the definitions that the release has.
	IncludeCRDs   bool
	SubNotes      bool // renders the notes of dependencies, too
	TakeOwnership bool // takes objects over that belong to another release, or to none

	// Labels are kept with the release; List and Get return them. An upgrade keeps those that it does not set, and
	// removes those that it sets to "null".
	Labels      map[string]string
	Description string
	// PostRender changes the rendered chart before it is applied, hooks included.
	PostRender func(manifests []byte) ([]byte, error)

	// for an installation
	CreateNamespace bool

	// for an upgrade
	Force bool // replaces objects that it cannot change
	// ReuseValues keeps the values of the release and of its chart; ResetThenReuseValues starts from those of the new chart. The
	// given ones go before. ResetValues wins over both, and is the default.
	ResetValues, ReuseValues, ResetThenReuseValues bool

	CleanupOnFail bool
	MaxHistory    int // 10 by default; negative keeps all

	// for an uninstallation
	KeepHistory bool
}

// Defaults of Options.
const (
	defaultTimeout = 10 * time.Minute
	defaultHistory = 10
)

func (o Options) timeout() time.Duration { return cmp.Or(o.Timeout, defaultTimeout) }

func (o Options) history() int { return max(cmp.Or(o.MaxHistory, defaultHistory), 0) }

func (o Options) wait(ctx context.Context) (kube.WaitStrategy, []kube.WaitOption) {
	within := []kube.WaitOption{kube.WithWaitContext(ctx)}
	if o.Wait || o.WaitForJobs || o.Atomic {
		return kube.StatusWatcherStrategy, within
	}
	return kube.HookOnlyStrategy, within
}

func (o Options) postRenderer() postrenderer.PostRenderer {
	if o.PostRender == nil {
		return nil
	}
	return postRender(o.PostRender)
}

type postRender func([]byte) ([]byte, error)

func (f postRender) Run(in *bytes.Buffer) (*bytes.Buffer, error) {
	out, err := f(in.Bytes())
	return bytes.NewBuffer(out), err
}

// Install installs a chart. Values are YAML. A name is free again if its release was uninstalled or has failed.
func (c *Client) Install(ctx context.Context, name string, from Chart, values []byte, o Options) (Release, error) {
	return c.run(ctx, "install", name, from, values, func(s *session, loaded *chart.Chart, values map[string]any) (helmrelease.Releaser, error) {
		a := action.NewInstall(s.cfg)
		a.ServerSideApply = false // as Helm 3
		a.ReleaseName, a.Namespace, a.Replace = name, c.namespace, true
		o.install(ctx, a)
		if o.IncludeCRDs {
			s.cfg.KubeClient = owner{s.client, name, c.namespace}
		}
		return a.Run(loaded, values)
	})
}

func (o Options) install(ctx context.Context, a *action.Install) {
	a.Timeout, a.Labels, a.Description = o.timeout(), o.Labels, o.Description
	a.WaitStrategy, a.WaitOptions = o.wait(ctx)
	a.WaitForJobs, a.RollbackOnFailure = o.WaitForJobs, o.Atomic
	a.DisableHooks, a.DisableOpenAPIValidation = o.DisableHooks, o.DisableOpenAPIValidation
	a.SkipCRDs, a.IncludeCRDs, a.SubNotes = o.SkipCRDs, o.IncludeCRDs, o.SubNotes
	a.TakeOwnership, a.CreateNamespace, a.PostRenderer = o.TakeOwnership, o.CreateNamespace, o.postRenderer()
	a.SkipSchemaValidation = true // engine.Templates does it
}

// Upgrade upgrades a release, which has to exist. It applies as the release was applied before.
func (c *Client) Upgrade(ctx context.Context, name string, to Chart, values []byte, o Options) (Release, error) {
	return c.run(ctx, "upgrade", name, to, values, func(s *session, loaded *chart.Chart, values map[string]any) (helmrelease.Releaser, error) {
		if last, err := s.cfg.Releases.Last(name); err == nil && strings.HasPrefix(plain(last).Status, "pending-") {
			return nil, ErrPending
		}
		s.confined.more = func(rendered map[string]string) (string, error) {
			return s.definitions(name, loaded, o.IncludeCRDs, rendered)
		}
		a := action.NewUpgrade(s.cfg)
		a.Namespace, a.MaxHistory = c.namespace, o.history()
		a.Timeout, a.Labels, a.Description = o.timeout(), o.Labels, o.Description
		a.WaitStrategy, a.WaitOptions = o.wait(ctx)
		a.WaitForJobs, a.RollbackOnFailure, a.CleanupOnFail = o.WaitForJobs, o.Atomic, o.CleanupOnFail
		a.DisableHooks, a.DisableOpenAPIValidation = o.DisableHooks, o.DisableOpenAPIValidation
		a.SkipCRDs, a.SubNotes, a.TakeOwnership = o.SkipCRDs, o.SubNotes, o.TakeOwnership
		a.ForceReplace, a.PostRenderer, a.SkipSchemaValidation = o.Force, o.postRenderer(), true // engine.Templates validates
		a.ReuseValues, a.ResetThenReuseValues = o.ReuseValues, o.ResetThenReuseValues
		a.ResetValues = o.ResetValues || !o.ReuseValues && !o.ResetThenReuseValues // no values mean none, not the previous ones
		return a.Run(name, loaded, values)
	})
}

// Render returns the objects that an upgrade would apply, without hooks. Nothing is written. Templates may ask the cluster. Its
// version and kinds are remembered until Refresh, so that rendering many charts asks once.
func (c *Client) Render(ctx context.Context, name string, from Chart, values []byte, o Options) (string, error) {
	o.CreateNamespace = false
	r, err := c.run(ctx, "render", name, from, values, func(s *session, loaded *chart.Chart, values map[string]any) (helmrelease.Releaser, error) {
		var err error
		if s.cfg.Capabilities, err = c.capabilities(); err != nil {
			return nil, err
		}
		s.cfg.KubeClient = known{s.client}
		a := action.NewInstall(s.cfg)
		a.DryRunStrategy, a.IsUpgrade = action.DryRunServer, true
		a.ReleaseName, a.Namespace = name, c.namespace
		o.install(ctx, a)
		a.SkipCRDs = true
		return a.Run(loaded, values)
	})
	return r.Manifest, err
}

// known is a cluster that is known to be reachable.
type known struct{ *kube.Client }

func (known) IsReachable() error { return nil }

// run reads chart and values, and does something with them.
func (c *Client) run(ctx context.Context, operation, name string, from Chart, values []byte,
	do func(*session, *chart.Chart, map[string]any) (helmrelease.Releaser, error),
) (Release, error) {
	given, err := helm.ReadValues(values)
	if err != nil {
		return Release{}, fail(ctx, operation, name, fmt.Errorf("values: %w", err), nil)
	}
	loaded, err := from.load()
	if err == nil {
		err = engine.Installable(loaded)
	}
	if err != nil {
		return Release{}, fail(ctx, operation, name, err, nil)
	}
	s, err := c.begin(ctx)
	if err != nil {
		return Release{}, err
	}
	defer s.cancel()
	f := confine(loaded, func(whole *chart.Chart, top map[string]any) (map[string]string, error) {
		return engine.Templates(ctx, c.tenant, whole, top, helmengine.NewLookupFunction(c.within(ctx)))
	})
	s.confined, s.cfg.CustomTemplateFuncs = f, f.functions()
	done, err := do(s, loaded, given)
	if f.err != nil {
		err = f.err
	}
	return plain(done), fail(ctx, operation, name, err, given)
}

// Uninstall removes a release and its objects, except those annotated to be kept. If the release does not exist, it does
// nothing.
func (c *Client) Uninstall(ctx context.Context, name string, o Options) error {
	s, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer s.cancel()
	last, err := s.cfg.Releases.Last(name)
	if errors.Is(err, ErrNotFound) || err == nil && o.KeepHistory && plain(last).Status == Uninstalled {
		return nil
	}
	if err != nil {
		return fail(ctx, "uninstall", name, err, nil)
	}
	a := action.NewUninstall(s.cfg)
	a.DisableHooks, a.KeepHistory = o.DisableHooks, o.KeepHistory
	a.Timeout, a.Description = o.timeout(), o.Description
	a.WaitStrategy, a.WaitOptions = o.wait(ctx)
	_, err = a.Run(name)
	return fail(ctx, "uninstall", name, err, plain(last).Values)
}

// Recover makes a release usable whose operation was killed: its newest revision, which is pending or being uninstalled,
// becomes a failed one, and can be upgraded. It reports whether there was one.
func (c *Client) Recover(ctx context.Context, name string) (bool, error) {
	s, err := c.begin(ctx)
	if err != nil {
		return false, err
	}
	defer s.cancel()
	found, err := s.cfg.Releases.Last(name)
	if err != nil {
		return false, fail(ctx, "recover", name, err, nil)
	}
	last, ok := found.(*v1.Release)
	if !ok || last.Info == nil {
		return false, fail(ctx, "recover", name, errors.New("the record of its newest revision cannot be read"), nil)
	}
	switch status := last.Info.Status; status {
	case releasecommon.StatusPendingInstall, releasecommon.StatusPendingUpgrade, releasecommon.StatusPendingRollback,
		releasecommon.StatusUninstalling, releasecommon.StatusUnknown:
		last.SetStatus(releasecommon.StatusFailed, fmt.Sprintf("was %s when the process ended that worked on it", status))
		return true, fail(ctx, "recover", name, s.cfg.Releases.Update(last), nil)
	}
	return false, nil
}
