package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/render"
	"github.com/sealift/sealift/operator/binding"
)

const (
	// healEvery is the time between two checks for absent objects, without jitter.
	healEvery = 270 * time.Second
	// byHelm selects what Helm has applied.
	byHelm = "app.kubernetes.io/managed-by=Helm"
)

func (o *Operator) newSurvey() *kube.Survey { return o.options.Monitor.NewSurvey(byHelm) }

// heal looks for deleted objects of charts, and for releases that are not deployed, and runs their modules. It does not look
// while the main queue works: hooks delete and create objects there.
func (o *Operator) heal(ctx context.Context) {
	if o.options.Releases == nil {
		return
	}
	every := cmp.Or(o.options.HealEvery, healEvery)
	pause := func() time.Duration { return every + rand.N(every/5+1) }
	if poll.Pause(ctx, pause()) != nil {
		return
	}
	poll.Repeat(ctx, func(ctx context.Context) time.Duration {
		if o.engine.Queues().Lengths()[binding.MainQueue] > 0 {
			return pause()
		}
		if err := o.healOnce(ctx); err != nil && ctx.Err() == nil {
			o.log.ErrorContext(ctx, "cannot find out whether objects of modules are absent; the next look is in some minutes", "error", err)
		}
		return pause()
	})
}

func (o *Operator) healOnce(ctx context.Context) error {
	releases, err := o.options.Releases.List(ctx)
	if err != nil {
		return err
	}
	survey := o.newSurvey()
	config := o.store.inForce()
	var errs []error
	for _, u := range o.units {
		o.mu.Lock()
		look, manifest := u.enabled && u.manifest != "" && !config.Modules[u.Key].Unmanaged, u.manifest
		o.mu.Unlock()
		if !look {
			continue
		}
		absent, err := o.absent(ctx, u, survey, manifest, false)
		if err != nil {
			errs = append(errs, fmt.Errorf("module %s: %w", u.Name, err))
		}
		if r := releases[u.Name]; r.Status != helm.Deployed {
			absent = append(absent, fmt.Sprintf("release %s, which is not deployed but %q", u.Name, r.Status))
		}
		if len(absent) > 0 {
			o.log.WarnContext(ctx, "objects of a module are absent; it runs again", "module", u.Name, "absent", strings.Join(absent, ", "))
			o.queueRun(u, "absentResources")
		}
	}
	return errors.Join(errs...)
}

// absent names the objects of a manifest that the cluster lacks. Those that hooks have deleted do not count while nobody runs
// the module: only its run restores them. The survey may be older than such a deletion, so the run looks for itself.
func (o *Operator) absent(ctx context.Context, u *unit, survey *kube.Survey, manifest string, running bool) (names []string, err error) {
	refs, err := o.refs(u, manifest)
	if err != nil {
		return nil, err
	}
	var gone []kube.Ref
	o.mu.Lock()
	refs = slices.DeleteFunc(slices.Clone(refs), func(ref kube.Ref) bool {
		if o.gone[o.identity(ref)] {
			gone = append(gone, ref)
			return true
		}
		return false
	})
	o.mu.Unlock()
	absent, err := survey.Absent(ctx, o.options.Namespace, refs)
	if err == nil && running && len(gone) > 0 {
		var more []kube.Ref
		more, err = o.newSurvey().Absent(ctx, o.options.Namespace, gone)
		absent = append(absent, more...)
	}
	for _, ref := range absent {
		names = append(names, ref.String())
	}
	return names, err
}

// refs are the objects of a manifest. Those of the last one are remembered: a manifest seldom changes.
func (o *Operator) refs(u *unit, manifest string) ([]kube.Ref, error) {
	o.mu.Lock()
	known, refs := u.manifest == manifest, u.refs
	o.mu.Unlock()
	if known {
		return refs, nil
	}
	objs, err := render.DecodeApplied(strings.NewReader(manifest)) // Helm applied what Decode refuses
	if err != nil {
		return nil, err
	}
	all := make([]kube.Ref, 0, len(objs))
	for _, obj := range objs {
		all = append(all, kube.RefOf(obj))
	}
	return all, nil
}

// identity names an object in any version. Hooks and charts may leave the namespace out.
func (o *Operator) identity(ref kube.Ref) kube.Ref {
	ref.Version, ref.Namespace = "", cmp.Or(ref.Namespace, o.options.Namespace)
	return ref
}

// noteDeleted notes which objects of charts hooks delete.
func (o *Operator) noteDeleted(refs []kube.Ref) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ofCharts := map[kube.Ref]bool{}
	for _, u := range o.units {
		for _, ref := range u.refs {
			ofCharts[o.identity(ref)] = true
		}
	}
	for _, ref := range refs {
		if ref = o.identity(ref); ofCharts[ref] {
			o.gone[ref] = true
		}
	}
}

// noteMade notes that objects exist again.
func (o *Operator) noteMade(refs []kube.Ref) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, ref := range refs {
		delete(o.gone, o.identity(ref))
	}
}

// keep records a module's current objects in the cluster. Objects that its chart has restored are no longer missing. A module
// under maintenance was not rendered, and nobody checks its objects.
func (o *Operator) keep(u *unit, done helm.Ensured) error {
	refs, err := o.refs(u, done.Manifest)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	u.manifest, u.refs = done.Manifest, refs
	if done.Upgraded {
		for _, ref := range refs {
			delete(o.gone, o.identity(ref))
		}
	}
	return nil
}
