package install

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/encryption"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/packages"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/preflight"
)

// keepBinary copies the running sealift to where hooks and people find it, and the other programs to the install root.
func (i *Install) keepBinary(ctx context.Context) (lifecycle.State, error) {
	if err := errors.Join(i.keepProgram(ctx), i.keepConsole(ctx)); err != nil {
		return nil, err
	}
	if err := files.MkdirAll(filepath.Dir(node.Binary), 0o755); err != nil {
		return nil, err
	}
	return nil, files.Copy(node.Binary, 0o755, i.options.Binary)
}

// onNode reports whether an entry of an add-on is extracted. Images go into containerd from where they are, and other
// distributions' packages go nowhere. A control plane keeps everything for hosts that join, but the blobs of images that its containerd
// has.
func (j *job) onNode(a addOn, e bundle.Entry) bool {
	below, ok := strings.CutPrefix(e.Path, a.info.Dir()+"/")
	foreign := a.foreign(e.Path, host.Platform)
	if !ok || strings.HasPrefix(below, "images/blobs/") && !foreign {
		return false
	}
	if j.ControlPlane() {
		return true
	}
	if foreign || strings.HasPrefix(below, "images/") {
		return false
	}
	return !strings.HasPrefix(below, "packages/") || strings.HasPrefix(below, "packages/"+j.facts.Target()+"/")
}

func (i *Install) extract(a addOn) func(context.Context) (lifecycle.State, error) {
	return func(ctx context.Context) (lifecycle.State, error) {
		root, err := files.OpenRoot(i.options.Root)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		return lifecycle.State{addOnVersion: a.info.Version}, i.archive.Extract(ctx, root, func(e bundle.Entry) bool { return i.onNode(a, e) })
	}
}

// installPackages gives the host's package manager repositories that were just written, each file verified against the index of
// the bundle: no signature covers the lists that it reads, and older files may have changed, or have foreign files beside them.
func (i *Install) installPackages(names []string) func(context.Context) (lifecycle.State, error) {
	return func(ctx context.Context) (_ lifecycle.State, err error) {
		packages := packages.Manager{Dir: filepath.Join(i.options.Root, "host-packages"), Before: i.before, Output: i.Log}
		fresh := filepath.Join(packages.Dir, "repositories")
		if err := files.RemoveAll(fresh); err != nil {
			return nil, err
		}
		if err := files.MkdirAll(fresh, 0o700); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, files.RemoveAll(fresh)) }()
		root, err := files.OpenRoot(fresh)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		from, err := files.OpenRoot(i.options.Root)
		if err != nil {
			return nil, err
		}
		defer from.Close()
		repositories := i.hostRepositories()
		for _, r := range repositories {
			packages.Repositories = append(packages.Repositories, filepath.Join(fresh, r.folder))
		}
		wanted := func(e bundle.Entry) bool {
			return slices.ContainsFunc(repositories, func(r hostRepository) bool { return strings.HasPrefix(e.Path, r.folder+"/") })
		}
		if err := i.archive.ExtractAgain(ctx, root, from, wanted); err != nil {
			return nil, err
		}
		return nil, packages.Install(ctx, names)
	}
}

// hostRepository is a folder of the bundle with packages for this host.
type hostRepository struct {
	folder string // relative to the install root
	Index  string `json:"index"` // digest of the list of its packages
}

func (j *job) hostRepositories() (found []hostRepository) {
	for _, a := range j.addOns {
		folder := path.Join(a.info.Dir(), "packages", j.facts.Target())
		for _, index := range []string{packages.AptIndex, packages.YumIndex} {
			if e, ok := j.archive.Entry(path.Join(folder, index)); ok {
				found = append(found, hostRepository{folder, e.SHA256})
			}
		}
	}
	return found
}

// packagesCheck asks the host's package manager whether it could install the packages beside the existing ones. The indexes of
// their repositories are enough for that.
func (i *Install) packagesCheck(ctx context.Context, r *preflight.Reporter) {
	pending := slices.ContainsFunc(i.Pending(), func(s lifecycle.Step) bool { return s.ID == packagesStep })
	switch {
	case !pending:
		r.Passf("none are to be installed")
		return
	case slices.Contains(i.Journal.Open(), packagesStep):
		r.Passf("not checked: an earlier run was interrupted while it installed them")
		return
	}
	found, err := i.packageObstacles(ctx)
	if err != nil {
		r.Warnf("see why; the install would stop at its step "+packagesStep+" if they cannot be installed", "cannot tell whether they can be installed: %v", err)
		return
	}
	for _, o := range found {
		r.Failf(o.Hint, "%s", strings.TrimPrefix(o.Package+": "+o.Reason, ": "))
	}
	if len(found) == 0 {
		names, _ := i.packagesToInstall()
		r.Passf("%s can be installed", strings.Join(names, ", "))
	}
}

func (i *Install) packageObstacles(ctx context.Context) (_ []packages.Obstacle, err error) {
	dir, err := files.MkdirTemp(i.temporary(), ".sealift-packages-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, files.RemoveAll(dir)) }()
	root, err := files.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	manager := packages.Manager{Dir: filepath.Join(dir, "work"), Output: i.Log}
	repositories := i.hostRepositories()
	for _, one := range repositories {
		manager.Repositories = append(manager.Repositories, filepath.Join(dir, one.folder))
	}
	err = i.archive.Extract(ctx, root, func(e bundle.Entry) bool {
		return slices.ContainsFunc(repositories, func(r hostRepository) bool {
			below, ok := strings.CutPrefix(e.Path, r.folder+"/")
			return ok && !strings.HasSuffix(below, ".deb") && !strings.HasSuffix(below, ".rpm")
		})
	})
	if err != nil {
		return nil, err
	}
	names, _ := i.packagesToInstall()
	return manager.Obstacles(ctx, names)
}

func (i *Install) loadImages(a addOn) func(context.Context) (lifecycle.State, error) {
	return func(ctx context.Context) (lifecycle.State, error) {
		r, err := runtime.Connect(ctx, i.socket)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		var total runtime.Result
		for _, part := range i.imageParts(a) {
			result, err := loadLayout(ctx, r, i.socket, part, func(ref string) {
				fmt.Fprintf(i.Log, "loading %s\n", ref)
				lifecycle.Note(ctx, "loading "+ref)
			})
			if err != nil {
				return nil, err
			}
			lifecycle.Enough(ctx)
			total.Loaded += result.Loaded
			total.Present += result.Present
		}
		fmt.Fprintf(i.Log, "%s: %d images loaded, %d were there\n", a.name(), total.Loaded, total.Present)
		return nil, nil
	}
}

func (i *Install) initCluster(ctx context.Context) (lifecycle.State, error) {
	k, _ := kubernetes(i.addOns)
	state, by := lifecycle.State{versionState: k.info.Version}, i.kubeadm(k)
	if cluster.Encrypts(by.Variables) {
		if err := (encryption.Host{}).Make(); err != nil {
			return nil, err
		}
	}
	if by.Variables[cluster.Authenticates] != "" {
		if err := i.writeLogin(); err != nil {
			return nil, err
		}
	}
	if seed := i.options.Seed; seed != nil {
		state[seedState] = seed.ID
		by.Seed = func(ctx context.Context) error { return seed.Plant(ctx, i.facts.Hostname, i.settings.address, i.Log) }
	}
	if err := by.Init(ctx); err != nil {
		return nil, err
	}
	return state, cluster.LetAgentsApprove(ctx, i.Log)
}

func (i *Install) kubeadm(k addOn) cluster.Kubeadm {
	return cluster.Kubeadm{
		Base: filepath.Join(i.options.Root, k.info.Dir(), "kubeadm"), Work: filepath.Join(i.options.Root, "kustomize", "kubeadm"),
		Variables: i.hooks.values(), Output: i.Log,
	}
}

// inCluster makes a step wait first until the cluster's API is ready.
func inCluster(do action) action {
	return func(i *Install, ctx context.Context) (lifecycle.State, error) {
		if err := cluster.BringAPI(ctx, i.Log); err != nil {
			return nil, err
		}
		return do(i, ctx)
	}
}

func (i *Install) waitReady(ctx context.Context) (lifecycle.State, error) {
	var names []string
	for _, a := range i.addOns {
		names = append(names, a.name())
	}
	if err := cluster.WaitReady(ctx, names, i.Log); err != nil {
		return nil, err
	}
	return lifecycle.State{hooklessState: i.describeHookless()}, cluster.Remember(node.MemoryDir(i.options.Root))
}
