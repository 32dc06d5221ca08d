package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/engine"
	"github.com/sealift/sealift/operator/hook"
	"github.com/sealift/sealift/operator/module"
	"github.com/sealift/sealift/operator/values"
)

// The variables of an enabled script.
const (
	resultFile = "MODULE_ENABLED_RESULT"
	reasonFile = "MODULE_ENABLED_REASON"
)

// plan is the result of a discovery: modules to run and to delete, in order, and releases of modules that no longer exist.
type plan struct {
	run, remove []*unit
	purge       []string
}

// verdict is whether a module is switched on, and why.
type verdict struct {
	on  bool
	why string
	// said is the reason of its enabled script.
	said string
}

// discover decides which modules are switched on, and loads the hooks of those that are new. It changes nothing if it fails.
func (o *Operator) discover(ctx context.Context, activation string) (*plan, error) {
	verdicts, enabled, err := o.judge(ctx, activation)
	if err != nil {
		return nil, err
	}
	if err := o.lookAhead(ctx, verdicts); err != nil {
		return nil, err
	}
	p, survey := &plan{}, o.newSurvey()
	known, err := o.look(ctx, survey, verdicts)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, u := range o.units {
		record, released := known[u.Name]
		u.known, u.survey, u.released = &record, survey, released
		switch {
		case verdicts[u].on:
			p.run = append(p.run, u)
			errs = append(errs, o.loadHooks(ctx, u))
		case released, u.loaded:
			p.remove = append(p.remove, u)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	o.mu.Lock()
	told := map[*unit]bool{}
	for u, v := range verdicts {
		told[u] = u.why == v.why
		u.watched = u.watched && (u.enabled || !v.on) // its hooks missed events while it was off, and it was not deleted
		u.enabled, u.why = v.on, v.why
	}
	purged := o.purged
	o.mu.Unlock()
	o.dropPrepared()
	o.store.setEnabled(enabled)
	if !purged {
		p.purge = o.foreignReleases(known)
	}
	for _, u := range o.units {
		if v := verdicts[u]; v.said != "" && !told[u] {
			o.log.InfoContext(ctx, "an enabled script gave its reason", "module", u.Name, "enabled", v.on, "reason", v.said)
		}
	}
	o.log.InfoContext(ctx, "modules are discovered", "enabled", strings.Join(enabled, " "))
	return p, nil
}

// look reads which releases exist. At the same time the survey learns of the objects that the modules had after their last run.
func (o *Operator) look(ctx context.Context, survey *kube.Survey, verdicts map[*unit]verdict) (known map[string]helm.Record, err error) {
	if o.options.Releases == nil {
		return map[string]helm.Record{}, nil
	}
	var refs []kube.Ref
	o.mu.Lock()
	for _, u := range o.units {
		if verdicts[u].on {
			refs = append(refs, u.refs...)
		}
	}
	o.mu.Unlock()
	var prepared sync.WaitGroup
	prepared.Go(func() { survey.Prepare(ctx, o.options.Namespace, refs) })
	known, err = o.options.Releases.List(ctx)
	prepared.Wait()
	if err != nil {
		return nil, err
	}
	delete(known, o.options.IgnoreRelease)
	return known, nil
}

// foreignReleases are releases without a module, in reverse order like all deletions. Global hooks keep those that they switch on.
func (o *Operator) foreignReleases(known map[string]helm.Record) (names []string) {
	flags := o.store.hookFlags()
	for name := range known {
		if !flags[values.Key(name)] && !slices.ContainsFunc(o.units, func(u *unit) bool { return u.Name == name }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	return names
}

// judge evaluates flags and enabled scripts, which can only disable. A script sees the modules that are on before its own (A-7,
//
func (o *Operator) judge(ctx context.Context, activation string) (verdicts map[*unit]verdict, enabled []string, err error) {
	flags, config := o.store.hookFlags(), o.store.inForce()
	verdicts, enabled = map[*unit]verdict{}, []string{}
	var errs []error
	for _, u := range o.units {
		v := verdict{why: "no flag switches it on"}
		for _, e := range o.store.found.Extenders {
			if flag, by := o.store.found.Flag(e, u.Module, flags, config); flag != nil {
				v = verdict{on: *flag, why: fmt.Sprintf("%s says %t", by, *flag)}
			}
			if e != module.ScriptEnabled || !v.on || o.lacks(u, verdicts) != "" {
				continue
			}
			if v, err = o.askScript(ctx, u, v, enabled, activation); err != nil || !v.on {
				errs = append(errs, err)
				break // a script that switches off has the last word
			}
		}
		if why := o.lacks(u, verdicts); v.on && why != "" {
			v = verdict{why: why}
		}
		if verdicts[u] = v; v.on {
			enabled = append(enabled, u.Name)
		}
	}
	return verdicts, enabled, errors.Join(errs...)
}

// lacks names the module that disables another one: one that it requires, and that is disabled. It has been judged before.
func (o *Operator) lacks(u *unit, verdicts map[*unit]verdict) string {
	for _, need := range u.Requires {
		providers := o.store.found.Providers(need)
		on := slices.ContainsFunc(o.units, func(other *unit) bool { return verdicts[other].on && slices.Contains(providers, other.Module) })
		if len(providers) > 0 && !on {
			return fmt.Sprintf("it requires %s, and module %s is off", need, providers[0].Name)
		}
	}
	return ""
}

// askScript runs the enabled script of a module. A file that is not executable is not a script.
func (o *Operator) askScript(ctx context.Context, u *unit, before verdict, enabled []string, activation string) (verdict, error) {
	path := filepath.Join(u.Path, "enabled")
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && info.IsDir() {
		return before, nil // there is none
	}
	if err != nil {
		return before, err
	}
	if info.Mode().Perm()&0o111 == 0 {
		o.log.WarnContext(ctx, "an enabled script is not executable, so it is not asked; run chmod +x", "file", path)
		return before, nil
	}
	if path, err = filepath.Abs(path); err != nil {
		return before, err
	}
	config, all, err := o.store.forHooks(u.Key, enabled)
	if err != nil {
		return before, fmt.Errorf("values for %s/enabled: %w", u.Name, err)
	}
	name := filepath.Join(filepath.Base(u.Path), "enabled")
	result, err := o.engine.Program(ctx, hook.Command{
		Name: name, Path: path,
		In:  map[string][]byte{configFile: config, valuesFile: all},
		Out: []string{resultFile, reasonFile},
	}, u.Name, activation)
	if err != nil {
		return before, err
	}
	reason := strings.TrimSpace(string(result.Out[reasonFile]))
	because := func(why string) string {
		if reason != "" {
			why += ": " + reason
		}
		return why
	}
	switch text := strings.TrimSpace(string(result.Out[resultFile])); text {
	case "true":
		return verdict{true, because(before.why), reason}, nil
	case "false":
		return verdict{false, because("its enabled script says false"), reason}, nil
	default:
		return before, fmt.Errorf("hook %s: bad enabled result %q; write true or false to $%s", name, text, resultFile)
	}
}

// loadHooks asks the hooks of a module for their configurations, once.
func (o *Operator) loadHooks(ctx context.Context, u *unit) error {
	if u.loaded {
		return nil
	}
	folder, ok := u.folder()
	if !ok {
		u.loaded = true
		return nil
	}
	hooks := u.prepared
	if hooks == nil {
		var err error
		if hooks, err = o.engine.Add(ctx, folder); err != nil {
			return err
		}
	}
	o.mu.Lock()
	u.hooks = hooks
	o.mu.Unlock()
	u.loaded, u.prepared = true, nil
	o.hooksChanged()
	return nil
}

// folder is that of the module's hooks, if any.
func (u *unit) folder() (f engine.Folder, ok bool) {
	f = engine.Folder{
		Dir: filepath.Join(u.Path, "hooks"), Prefix: filepath.Join(filepath.Base(u.Path), "hooks"),
		Module: u.Name, Scope: binding.Module, Owner: u.owner,
	}
	return f, exists(f.Dir)
}

func (o *Operator) hooksChanged() {
	if o.options.HooksChanged != nil {
		o.options.HooksChanged()
	}
}
