// Package lifecycle runs modules: it switches them on and off, runs their hooks and their charts in order, and does so again
// when values change.
//
// Everything happens in the main queue of the hooks' engine, one step after the other: global hooks at the start, then
// "reload of all": hooks before all modules, discovery of modules, their definitions, deletions and runs, and hooks after all
// modules. Its own state is in memory only, since a start finds the rest: values in a ConfigMap, releases in the cluster.
// Charts are behind the interface Releases; the package knows no Helm.
package lifecycle

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/engine"
	"github.com/sealift/sealift/operator/module"
	"github.com/sealift/sealift/operator/schema"
	"github.com/sealift/sealift/operator/values"
)

// Options of an Operator.
type Options struct {
	// Options are those of the engine. HooksDir has no effect.
	engine.Options

	ModulesDir     string // a path list
	GlobalHooksDir string
	DefaultOrder   int // of modules without a number
	// Extenders may switch modules on and off, in order; nil are all. Strict requires values.yaml beside the modules.
	Extenders []module.Extender
	Strict    bool
	// Monitor is the client for finding absent objects of charts; nil means Cluster.
	Monitor *kube.Cluster

	Namespace string
	ConfigMap string
	Releases  Releases
	// HealEvery is the time between two checks for absent objects of charts; 0 is four and a half minutes. Up to a fifth of it is
	// added by chance.
	HealEvery time.Duration
	// HooksChanged is called when hooks of modules were added or removed. It may be nil.
	HooksChanged func()
	// IgnoreRelease names a release that belongs to no module: the operator's own.
	IgnoreRelease string
	// DefinitionLabels are put on CustomResourceDefinitions of modules. Files below crds/ with these prefixes, which
	// are separated by commas, are left out.
	DefinitionLabels   map[string]string
	DefinitionPrefixes string
}

// Releases are the Helm releases of one namespace.
type Releases interface {
	// List returns the known state of each release without reading it.
	List(ctx context.Context) (map[string]helm.Record, error)
	// Prepare reads the files of a chart ahead of Ensure, and renders it. It returns nil if they cannot be read.
	Prepare(ctx context.Context, wanted helm.Wanted) (files map[string][]byte)
	// Ensure installs or upgrades a release if necessary, and otherwise writes nothing.
	Ensure(ctx context.Context, wanted helm.Wanted) (helm.Ensured, error)
	// Uninstall removes a release and its objects. A release that does not exist is removed.
	Uninstall(ctx context.Context, name string) error
	// Refresh makes the next look-up of a kind ask the cluster.
	Refresh()
}

// Operator runs the modules of some folders.
type Operator struct {
	options   Options
	log       *slog.Logger
	engine    *engine.Engine
	telemetry *telemetry
	store     *store
	units     []*unit // in the order in which they run
	global    []*engine.Hook
	following bool              // the ConfigMap, since it stood by
	given     [sha256.Size]byte // the values that charts were last looked ahead with
	stopAhead context.CancelFunc

	configMu sync.Mutex // one check of the ConfigMap at a time

	mu    sync.Mutex // guards the fields below and the guarded fields of units
	state state
	// gone are objects that hooks have deleted: they do not count as absent until hooks create them or their chart is applied again.
	gone map[kube.Ref]bool
	// purged means that releases of removed modules were purged.
	purged bool
}

// unit is a running module. The fields without a comment are the main queue's.
type unit struct {
	*module.Module

	owner *owner
	chart bool // there is one

	enabled bool   // guarded by Operator.mu
	why     string // who switched it on or off; guarded by Operator.mu
	waiting bool   // a run is queued that has not begun; guarded by Operator.mu

	prepared  []*engine.Hook // loaded while another operator led, until the first discovery
	hooks     []*engine.Hook // guarded by Operator.mu
	loaded    bool           // its hooks are known
	defined   bool           // its definitions are applied
	started   bool           // hooks with onStartup have run
	watched   bool           // its hooks have seen what exists
	scheduled bool           // its schedules tick
	ready     bool           // it has run completely once
	released  bool           // the last discovery found a release
	known     *helm.Record   // the result, until the release is touched
	survey    *kube.Survey   // of the reload that runs it, until then
	ahead     *ahead         // its chart, as above
	manifest  string         // what its chart renders to; guarded by Operator.mu
	refs      []kube.Ref     // the objects of manifest; guarded by Operator.mu
}

// Load finds modules and global hooks, and checks the values that administrators set. It starts nothing.
func Load(ctx context.Context, o Options) (*Operator, error) {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.Modules = true
	o.Monitor = cmp.Or(o.Monitor, o.Cluster)
	found, err := module.Find(o.ModulesDir, module.Options{DefaultOrder: o.DefaultOrder, Extenders: o.Extenders, Strict: o.Strict, Log: o.Log})
	if err != nil {
		return nil, err
	}
	op := &Operator{options: o, log: o.Log, store: newStore(found), gone: map[kube.Ref]bool{}}
	o.Removed, o.Made = op.noteDeleted, op.noteMade
	op.engine = engine.New(o.Options)
	op.telemetry = newTelemetry(o.MetricsPrefix)
	if err := op.loadModules(found); err != nil {
		return nil, err
	}
	if op.store.schemas[values.GlobalKey], err = schema.Load(filepath.Join(o.GlobalHooksDir, "openapi")); err != nil {
		return nil, err
	}
	if err := op.loadGlobalHooks(ctx); err != nil {
		return nil, err
	}
	return op, op.loadConfig(ctx)
}

func (o *Operator) loadModules(found *module.Found) error {
	var errs []error
	for _, m := range found.Modules {
		u := &unit{Module: m, chart: exists(filepath.Join(m.Path, "Chart.yaml")) || exists(filepath.Join(m.Path, "templates"))}
		u.owner = &owner{operator: o, key: m.Key, unit: u, changed: func() { o.queueRun(u, "moduleValuesChanged") }}
		schemas, err := schema.Load(filepath.Join(m.Path, "openapi"))
		if err == nil && u.chart && o.options.Releases == nil {
			err = fmt.Errorf("module %s has a chart, but this program cannot install charts", m.Name)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		o.store.schemas[m.Key] = schemas
		o.units = append(o.units, u)
	}
	return errors.Join(errs...)
}

// loadGlobalHooks looks in the folder hooks of the folder of global hooks, or in itself if there is none.
func (o *Operator) loadGlobalHooks(ctx context.Context) (err error) {
	dir := o.options.GlobalHooksDir
	if !exists(dir) {
		o.log.WarnContext(ctx, "the folder of global hooks does not exist, so there are none", "folder", dir)
		return nil
	}
	folder := engine.Folder{Dir: dir, Scope: binding.Global}
	if inner := filepath.Join(dir, "hooks"); exists(inner) {
		folder.Dir, folder.Prefix = inner, "hooks"
	}
	folder.Owner = &owner{operator: o, key: values.GlobalKey, changed: func() { o.reload("globalValuesChanged") }}
	o.global, err = o.engine.Add(ctx, folder)
	return err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func (o *Operator) cluster() *kube.Cluster { return o.options.Cluster }

// Discovered reports whether it is known which modules are on.
func (o *Operator) Discovered() bool { return o.store.discovered() }

// Engine is the engine of the hooks.
func (o *Operator) Engine() *engine.Engine { return o.engine }

// Metrics gathers the operator's own metrics, and those that hooks report.
func (o *Operator) Metrics() (own, hooks prometheus.Gatherer) {
	engines, hooks := o.engine.Metrics()
	return prometheus.Gatherers{engines, o.telemetry.registry}, hooks
}

// Run works until ctx ends: global hooks first, then all modules, and then what happens.
func (o *Operator) Run(ctx context.Context) {
	if err := o.configChanged(ctx); err != nil && ctx.Err() == nil { // a replica may have stood by for long
		o.log.ErrorContext(ctx, "the ConfigMap cannot be read, or has changed since the operator was loaded and is wrong", "error", err)
	}
	o.engine.Serve(ctx, func(ctx context.Context) {
		o.engine.WatchForWebhooks()
		o.engine.Start(o.global...)
		o.reload(string(binding.OnStartup))
		if !o.following {
			go o.followConfig(ctx)
		}
		go o.heal(ctx)
	})
}
