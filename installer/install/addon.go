package install

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/ocilayout"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/catalog/commands"
	"github.com/sealift/sealift/catalog/script"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/hooks/hook"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/manifest"
	"github.com/sealift/sealift/spec"
)

// kubernetesCapability is provided by the add-on around whose hooks kubeadm runs.
const kubernetesCapability = "kubernetes"

// maxScriptSize bounds install.sh and Manifest; the longest of kURL's has 80 KiB.
const maxScriptSize = 4 << 20

// maxTextSize bounds the files that are searched for the names of variables; a larger file is data.
const maxTextSize = 256 << 10

// addOn is one package of the bundle, with the facts that the plan needs.
type addOn struct {
	info     bundle.PackageInfo
	meta     catalog.Meta
	manifest *manifest.File
	layout   *runtime.Layout
	options  string         // digest of its options in the Installer
	needed   bool           // by an add-on that installs later
	fromKURL bool           // may be one of kURL's: it has no addon.yaml
	hooks    []string       // the functions that its install.sh declares
	script   *script.Script // its install.sh
	calls    commands.Calls // of its install.sh
	texts    [][]byte       // its scripts and templates
	checks   []byte         // its host-preflight.yaml; nil if it has none

	platforms map[string][]string // of its files that nodes of some platforms alone use, by path
}

// foreign reports whether a file is for nodes of other platforms.
func (a addOn) foreign(path, platform string) bool {
	only, some := a.platforms[path]
	return some && !slices.Contains(only, platform)
}

func (a addOn) name() string { return a.info.Name }

// provides reports whether the add-on is, or declares to be, a capability. kURL's containerd declares nothing.
func (a addOn) provides(capability string) bool {
	return a.name() == capability || slices.Contains(a.meta.Provides, capability) ||
		capability == catalog.ContainerRuntime && a.name() == "containerd"
}

// reads returns the variables whose names occur in the add-on's scripts and templates. Others cannot change what its hooks do.
func (a addOn) reads(variables map[string]string) map[string]string {
	read := make(map[string]string)
	for name, value := range variables {
		if slices.ContainsFunc(a.texts, func(text []byte) bool { return bytes.Contains(text, []byte(name)) }) {
			read[name] = value
		}
	}
	return read
}

func (a addOn) hasHook(function string) bool { return slices.Contains(a.hooks, function) }

// kubernetes returns the add-on of the cluster's Kubernetes.
func kubernetes(addOns []addOn) (addOn, bool) {
	for _, a := range addOns {
		if a.provides(kubernetesCapability) {
			return a, true
		}
	}
	return addOn{}, false
}

// readAddOns reads the declarations of the bundle's packages, in installation order. It gives the options of the Installer that came as
// words the types of the declarations.
func readAddOns(a *bundle.Archive, s *spec.Installer) ([]addOn, error) {
	var errs []error
	byName := make(map[string]addOn)
	var metas []catalog.Meta
	for n := range s.AddOns {
		wanted := &s.AddOns[n]
		one, err := readAddOn(a, wanted)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		byName[wanted.Name] = one
		metas = append(metas, one.meta)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	names, err := catalog.Order(metas)
	if err != nil {
		return nil, err
	}
	needed, err := catalog.Needed(metas)
	if err != nil {
		return nil, err
	}
	var ordered []addOn
	for _, name := range names {
		one := byName[name]
		one.needed = needed[name]
		ordered = append(ordered, one)
	}
	return ordered, nil
}

func readAddOn(a *bundle.Archive, wanted *spec.AddOn) (addOn, error) {
	info, ok := a.Package(wanted.Name, wanted.Version)
	if !ok {
		return addOn{}, fmt.Errorf("%s: the Installer asks for %s %s, which the bundle does not have; make the bundle again", wanted.Pos, wanted.Name, wanted.Version)
	}
	one := addOn{info: info}
	_, declared := a.Entry(path.Join(info.Dir(), "addon.yaml"))
	one.fromKURL = !declared
	var err error
	if one.meta, err = catalog.Read(a.FS(), info.Name, info.Version); err != nil {
		return addOn{}, err
	}
	if *wanted, err = one.meta.Typed(*wanted); err != nil {
		return addOn{}, fmt.Errorf("%s: %w", wanted.Pos, err)
	}
	one.options = optionsDigest(wanted.Name, wanted.Options)
	text, err := a.ReadFile(path.Join(info.Dir(), "Manifest"), maxScriptSize)
	if err != nil {
		return addOn{}, err
	}
	parse := manifest.Parse
	if one.fromKURL {
		parse = manifest.ParseKURL
	}
	if one.manifest, err = parse(path.Join(info.Dir(), "Manifest"), bytes.NewReader(text)); err != nil {
		return addOn{}, err
	}
	if one.layout, err = runtime.OpenLayout(a, path.Join(info.Dir(), "images")); err != nil {
		return addOn{}, err
	}
	if one.platforms, err = ocilayout.Platforms(a, info); err != nil {
		return addOn{}, err
	}
	one.layout.Skip = func(path string) bool { return one.foreign(path, host.Platform) }
	if err := one.readScript(a); err != nil {
		return addOn{}, err
	}
	if one.texts, err = readTexts(a, one); err != nil {
		return addOn{}, err
	}
	if one.checks, err = a.ReadFile(path.Join(info.Dir(), preflightFile), maxTextSize); errors.Is(err, fs.ErrNotExist) {
		return one, nil
	}
	return one, err
}

// optionsDigest tells whether the Installer says the same of an add-on as before. A running cluster takes another kubernetes.oidc, which has a
// step of its own.
func optionsDigest(name string, o spec.Options) string {
	if _, login := o["oidc"]; login && name == kubernetesCapability {
		o = maps.Clone(o)
		delete(o, "oidc")
	}
	if len(o) == 0 {
		o = nil
	}
	return lifecycle.Digest(o)
}

// readScript reads the functions of install.sh and finds the programs that they call.
func (a *addOn) readScript(archive *bundle.Archive) error {
	file := path.Join(a.info.Dir(), script.Name)
	text, err := archive.ReadFile(file, maxScriptSize)
	if err != nil {
		return err
	}
	if a.hooks, err = hook.Functions(file, bytes.NewReader(text)); err != nil {
		return err
	}
	if a.script, err = script.Parse(bytes.NewReader(text), file, a.name(), a.info.Version); err != nil {
		return err
	}
	a.calls = commands.Of(a.script, commands.Facts{Assets: a.manifest.Assets(), Empty: []string{internalBalancer}})
	return nil
}

// readTexts reads the files in which hooks may use variables.
func readTexts(a *bundle.Archive, one addOn) (texts [][]byte, err error) {
	for _, e := range a.Below(one.info.Dir()) {
		if !one.isText(e) {
			continue
		}
		text, err := a.ReadFile(e.Path, maxTextSize)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// isText reports whether an entry is one of the small files that come from the add-on's directory.
func (a addOn) isText(e bundle.Entry) bool {
	below, ok := strings.CutPrefix(e.Path, a.info.Dir()+"/")
	folder, _, inside := strings.Cut(below, "/")
	fetched := inside && slices.Contains([]string{"images", "assets", "packages"}, folder)
	return ok && !fetched && e.Size <= maxTextSize
}

// carriesHostPackages reports whether the package has repositories for what its Manifest names. One that kURL built has not: its hooks
// install them from files, where it has those.
func (a addOn) carriesHostPackages() bool {
	return len(a.manifest.HostPackages()) > 0 && len(a.info.Targets) > 0
}

// hostPackages are the packages that the Manifests name for a target, each once.
func hostPackages(addOns []addOn, target string) []string {
	var names []string
	for _, a := range addOns {
		if !a.carriesHostPackages() {
			continue
		}
		for _, p := range a.manifest.HostPackages() {
			if p.Kind.Reaches(target) && !slices.Contains(names, p.Name) {
				names = append(names, p.Name)
			}
		}
	}
	return names
}
