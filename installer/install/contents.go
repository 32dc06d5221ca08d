package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/catalog/script"
	"github.com/sealift/sealift/installer/hooks/hook"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/hostpath"
	"github.com/sealift/sealift/kube/render"
	"github.com/sealift/sealift/manifest"
	"github.com/sealift/sealift/spec"
)

// Contents is a bundle or a package whose add-ons are rendered for a cluster that Sealift did not install. It changes nothing on this
// host but a folder for its work.
type Contents struct {
	job
	chosen *spec.Installer // the add-ons that were chosen, beside the Kubernetes of the cluster
}

// ReadContents opens a bundle or a package. It checks signatures and this host's policies as an install does. Of the options,
// it uses Bundle, Open, Adjust and Trusted. Close must be called.
func ReadContents(o Options) (_ *Contents, err error) {
	c := &Contents{job: job{options: o}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := c.openBundle(); err != nil {
		return nil, err
	}
	read := c.readSpec
	if c.archive.Index.Kind == bundle.KindPackage {
		read = c.readPackage
	}
	if err := read(); err != nil {
		return nil, fmt.Errorf("bundle %s: %w", o.Bundle, err)
	}
	return c, nil
}

// readPackage makes an Installer that has the add-on of a package.
func (c *Contents) readPackage() (err error) {
	c.spec = &spec.Installer{APIVersion: spec.APIVersion, Name: "package"}
	for _, p := range c.archive.Index.Packages {
		c.spec.AddOns = append(c.spec.AddOns, spec.AddOn{Name: p.Name, Key: spec.Key(p.Name), Version: p.Version})
	}
	if c.options.Adjust != nil {
		c.spec, err = c.options.Adjust(c.spec)
	}
	return err
}

// Close closes the archive.
func (c *Contents) Close() error {
	if c.archive == nil {
		return nil
	}
	return c.archive.Close()
}

// Provides returns the capabilities of an add-on of the bundle, with its name; nothing for another one.
func (c *Contents) Provides(name string) []string {
	for _, p := range c.archive.Index.Packages {
		if meta, err := catalog.Read(c.archive.FS(), p.Name, p.Version); err == nil && p.Name == name {
			return append([]string{name}, meta.Capabilities()...)
		}
	}
	return nil
}

// Images returns the references of the images of the chosen add-ons: as upstream names them, and by their digests.
func (c *Contents) Images() (refs []string) {
	for _, a := range c.addOns {
		for _, image := range a.info.Images {
			refs = append(refs, image.Ref)
			if repository, _, found := strings.Cut(image.Ref, "@"); !found {
				refs = append(refs, repository+"@"+image.Digest)
			}
		}
	}
	return refs
}

// Archive returns the opened archive, which Close closes.
func (c *Contents) Archive() *bundle.Archive { return c.archive }

// ClusterFacts is what Choose knows of the cluster.
type ClusterFacts struct {
	Kubernetes string          // its version, without a leading v
	Provided   map[string]bool // the names and capabilities that it has
}

// Choose reads add-ons of the bundle, in the order in which they are applied. The error names everything that refuses one of them: the
// bundle does not have it, an option is wrong, the cluster lacks a requirement or has a Kubernetes for which it is too old, or it needs
// a node.
func (c *Contents) Choose(names []string, cluster ClusterFacts) error {
	var errs []error
	var metas []catalog.Meta
	byName := map[string]addOn{}
	c.chosen = &spec.Installer{APIVersion: spec.APIVersion}
	for _, name := range names {
		one, wanted, err := c.readNamed(name)
		if _, twice := byName[one.name()]; err != nil || twice {
			errs = append(errs, err)
			continue
		}
		byName[one.name()], metas = one, append(metas, one.meta)
		c.chosen.AddOns = append(c.chosen.AddOns, wanted)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, meta := range metas {
		errs = append(errs, c.checkAddOn(byName[meta.Name], metas, cluster))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	ordered, err := catalog.Order(append(metas, clusterMeta(metas, cluster)))
	if err != nil {
		return err
	}
	for _, name := range ordered {
		if one, ok := byName[name]; ok {
			c.addOns = append(c.addOns, one)
		}
	}
	c.chosen.AddOns = append(c.chosen.AddOns, spec.AddOn{Name: kubernetesCapability, Key: kubernetesCapability, Version: cluster.Kubernetes})
	c.vars = c.clusterVariables()
	return nil
}

// readNamed reads one add-on of the Installer, with its default options.
func (c *Contents) readNamed(name string) (addOn, spec.AddOn, error) {
	var known []string
	for _, wanted := range c.spec.AddOns {
		if wanted.Name == name || wanted.Key == name {
			one, err := readAddOn(c.archive, &wanted)
			if err != nil {
				return addOn{}, wanted, err
			}
			wanted.Options = one.meta.WithDefaults(wanted.Options)
			return one, wanted, nil
		}
		known = append(known, wanted.Name)
	}
	return addOn{}, spec.AddOn{}, fmt.Errorf("%s has no add-on %s; it has %s", c.options.Bundle, name, strings.Join(known, ", "))
}

// checkAddOn returns why an add-on cannot be applied to the cluster.
func (c *Contents) checkAddOn(a addOn, chosen []catalog.Meta, cluster ClusterFacts) error {
	var errs []error
	templates, err := c.templates(a)
	if err != nil {
		return err
	}
	if needs := a.hostNeeds(c.nodeVariables(), templates); len(needs) > 0 {
		errs = append(errs, fmt.Errorf("add-on %s %s works only where Sealift installed the nodes; it needs:\n  %s", a.name(), a.info.Version, strings.Join(needs, "\n  ")))
	}
	for _, need := range a.meta.Requires {
		provided := cluster.Provided[need] || slices.ContainsFunc(chosen, func(m catalog.Meta) bool {
			return m.Name == need || slices.Contains(m.Capabilities(), need)
		})
		if !provided {
			errs = append(errs, fmt.Errorf("add-on %s requires %s, and nothing shows that the cluster has it: name an add-on that provides it, too, or give --provided %s if the cluster has it", a.name(), need, need))
		}
	}
	for _, f := range catalog.CheckVersions(map[string]string{a.name(): a.info.Version, kubernetesCapability: cluster.Kubernetes}) {
		if f.Severity == diag.Error && strings.HasPrefix(f.Message, spec.Key(a.name())+".") {
			errs = append(errs, fmt.Errorf("the cluster has Kubernetes %s: %s; %s", cluster.Kubernetes, f.Message, f.Hint))
		}
	}
	return errors.Join(errs...)
}

// clusterMeta stands for the cluster among the chosen add-ons: it provides what they do not.
func clusterMeta(chosen []catalog.Meta, cluster ClusterFacts) catalog.Meta {
	m := catalog.Meta{Name: "the cluster", Declared: true, Provides: slices.Sorted(maps.Keys(cluster.Provided))}
	for _, other := range chosen {
		m.Provides = slices.DeleteFunc(m.Provides, func(name string) bool { return name == other.Name })
	}
	return m
}

// nodeVariables are the variables of hooks that only an install on a node sets.
func (c *Contents) nodeVariables() map[string]bool {
	all := map[string]bool{}
	for name := range c.variables() {
		all[name] = true
	}
	for _, v := range c.spec.Variables() {
		delete(all, v.Name)
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(c.settings.variables())), node.NetworkVariables()) {
		all[name] = true // the node's own, whatever the Installer says
	}
	delete(all, "DIR")
	return all
}

// clusterVariables are the variables of hooks for a cluster that is known by its API alone: options of the chosen add-ons.
func (c *Contents) clusterVariables() map[string]string {
	vars := map[string]string{}
	for _, v := range c.chosen.Variables() {
		vars[v.Name] = v.Value
	}
	return vars
}

// templates reads the files of an add-on that its hooks may render.
func (c *Contents) templates(a addOn) (all [][]byte, err error) {
	for _, e := range c.archive.Below(a.info.Dir()) {
		below := strings.TrimPrefix(e.Path, a.info.Dir()+"/")
		if !a.isText(e) || slices.Contains([]string{script.Name, manifest.FileName, catalog.MetaFile, preflightFile, "troubleshoot.yaml", "testgrid.yaml"}, below) {
			continue
		}
		text, err := c.archive.ReadFile(e.Path, maxTextSize)
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

// Rendered is an add-on as objects.
type Rendered struct {
	Name string
	addon.Applied
	Objects    []*unstructured.Unstructured
	HostChecks bool // it has checks of hosts, which did not run
}

// Render runs the hooks that render the chosen add-ons, in an empty folder. Nothing that they print is a result; output gets it.
func (c *Contents) Render(ctx context.Context, dir string, output io.Writer) (all []Rendered, err error) {
	root, err := files.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, a := range c.addOns {
		if err := c.archive.Extract(ctx, root, func(e bundle.Entry) bool { return forHooks(a, e) }); err != nil {
			return nil, err
		}
	}
	vars := maps.Clone(c.vars)
	vars["DIR"] = dir
	hooks := newHooks(dir, c.addOns, vars, output)
	hooks.env = []string{"PATH=" + hostpath.Folders, "HOME=" + dir, "TMPDIR=" + dir, "LANG=C.UTF-8"}
	applied := map[string][]*unstructured.Unstructured{}
	hooks.verbs = map[string]hook.Verb{"apply": func(_ context.Context, args []string, _ io.Writer) error {
		if len(args) != 3 {
			return fmt.Errorf("apply: %d arguments given, 3 wanted", len(args))
		}
		objects, err := render.Build(args[1])
		applied[args[0]] = objects
		return err
	}}
	defer func() { err = errors.Join(err, hooks.close()) }()
	for _, a := range c.addOns {
		if err := a.render(ctx, hooks); err != nil {
			return nil, fmt.Errorf("render add-on %s %s: %w", a.name(), a.info.Version, err)
		}
		if len(applied[a.name()]) == 0 {
			return nil, fmt.Errorf("render add-on %s %s: its hook applies nothing under its name", a.name(), a.info.Version)
		}
		all = append(all, Rendered{Name: a.name(), Objects: applied[a.name()], HostChecks: a.checks != nil, Applied: addon.Applied{
			Version: a.info.Version, Digest: a.info.Index, Options: lifecycle.Digest(a.info.Index, a.reads(c.vars)),
			Provides: strings.Join(a.meta.Capabilities(), ","), Requires: strings.Join(a.meta.Requires, ","),
		}})
	}
	return all, nil
}

// render runs the hooks of one add-on.
func (a addOn) render(ctx context.Context, h *hooks) error {
	for _, function := range []string{a.name() + "_preflights", a.name()} {
		if !a.hasHook(function) {
			continue
		}
		if _, err := h.call(ctx, function); err != nil {
			return err
		}
	}
	return nil
}

// forHooks reports whether the hooks of an add-on can read an entry: not its images and host packages.
func forHooks(a addOn, e bundle.Entry) bool {
	below, ok := strings.CutPrefix(filepath.ToSlash(e.Path), path.Clean(a.info.Dir())+"/")
	return ok && !strings.HasPrefix(below, "images/") && !strings.HasPrefix(below, "packages/")
}
