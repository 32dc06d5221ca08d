package builder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sealift/sealift/builder/asset"
	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
)

// LockMode says what Lock does with a lock that is there.
type LockMode int

// The modes.
const (
	LockMissing LockMode = iota // keep what is locked, add what is not
	LockUpdate                  // lock everything anew
	LockCheck                   // change nothing, and say what locking anew would change
)

// Locked tells of an add-on that was locked or checked.
type Locked struct {
	Name     string            `json:"name"`
	Version  string            `json:"version"`
	Path     string            `json:"path"` // of the lock
	Written  bool              `json:"written"`
	Changes  []manifest.Change `json:"changes"`
	Warnings []diag.Finding    `json:"warnings,omitempty"`
}

// Lock finds out what the Manifest of the add-on in dir stands for, and writes that to the Manifest.lock beside it. What
// is locked for targets and platforms other than those of the builder stays, unless the Manifest asks for it no more.
// What is wrong with the Manifest, and what cannot be had, is a diag.Errors with every fault.
func (b *Builder) Lock(ctx context.Context, dir string, mode LockMode) (Locked, error) {
	a, err := openAddOn(dir)
	if err != nil {
		return Locked{}, err
	}
	defer a.close()
	was, err := a.lock()
	var unreadable diag.Errors
	if mode == LockUpdate && errors.As(err, &unreadable) {
		was, err = lock.Lock{}, nil
	}
	if err != nil {
		return Locked{}, err
	}
	result := Locked{Name: a.name, Version: a.version, Path: filepath.Join(dir, lock.FileName), Warnings: b.unreached(a.manifest)}
	var p pins
	if mode == LockMissing {
		p.lock = was
	}
	b.log.Info("resolving", "add-on", a.name, "version", a.version)
	r, err := b.resolve(ctx, a, p)
	if err != nil {
		return Locked{}, err
	}
	now := lockOf(r)
	keep(&now, was, a.manifest)
	if len(b.wantedDockerouts(a.manifest)) < len(a.manifest.Dockerouts()) {
		keepImages(&now, was)
	}
	if result.Changes = lock.Diff(was, now); result.Changes == nil {
		result.Changes = []manifest.Change{}
	}
	if mode != LockCheck {
		result.Written, err = now.Save(result.Path)
	}
	return result, err
}

// lock reads the add-on's lock. One that is not there locks nothing.
func (a *addOn) lock() (lock.Lock, error) {
	f, err := a.open(lock.FileName)
	if errors.Is(err, fs.ErrNotExist) {
		return lock.Lock{}, nil
	}
	if err != nil {
		return lock.Lock{}, fmt.Errorf("read the lock: %w", err)
	}
	defer func() { _ = f.Close() }()
	l, err := lock.Parse(filepath.Join(a.named, lock.FileName), f)
	if err != nil {
		return lock.Lock{}, fmt.Errorf("%w\nlock the add-on again with sealift lock --update %s", err, a.named)
	}
	return l, nil
}

// pins is what a build of an add-on takes from its lock.
func (b *Builder) pins(a *addOn) (pins, error) {
	l, err := a.lock()
	return pins{lock: l, only: b.locked, dir: a.named}, err
}

// lockOf is the lock of a resolution. Files of the file system are not locked: they come with the Manifest.
func lockOf(r Resolution) lock.Lock {
	var l lock.Lock
	seen := make(map[string]bool)
	images := r.Images
	for _, d := range r.dockerouts {
		images = append(slices.Clip(images), d.bases...)
	}
	for _, one := range images {
		if seen[one.Ref] {
			continue
		}
		seen[one.Ref] = true
		l.Images = append(l.Images, lockedImage(one))
	}
	for _, one := range r.Assets {
		if asset.IsURL(one.Source) && !seen[one.Source] {
			seen[one.Source] = true
			l.Assets = append(l.Assets, lock.Asset{URL: one.Source, SHA256: one.SHA256, Size: one.Size})
		}
	}
	for _, s := range r.solutions {
		t := lock.Target{Name: s.target.Name, Platform: s.platform, Names: s.names}
		for _, one := range s.packages {
			t.Packages = append(t.Packages, lock.Package{
				Name: one.Name, Version: one.Version, Arch: one.Arch, URL: one.URL, SHA256: one.SHA256, Size: one.Size, Key: one.Key,
			})
		}
		l.Targets = append(l.Targets, t)
	}
	return l
}

func lockedImage(r image.Resolved) lock.Image {
	i := lock.Image{Ref: r.Ref, Digest: r.Root.Digest, MediaType: r.Root.MediaType, Size: r.Root.Size, Platforms: make(map[string]string)}
	for _, m := range r.Manifests {
		i.Platforms[m.Platform] = m.Digest
	}
	return i
}

// keep adds to a lock what an earlier one has for other targets and platforms, as far as the Manifest still asks for it.
func keep(now *lock.Lock, was lock.Lock, m *manifest.File) {
	for _, i := range now.Images {
		if before, ok := was.Image(i.Ref); ok && before.Digest == i.Digest {
			resolved := maps.Clone(i.Platforms)
			maps.Copy(i.Platforms, before.Platforms)
			maps.Copy(i.Platforms, resolved)
		}
	}
	for _, a := range was.Assets {
		if _, ok := now.Asset(a.URL); !ok && slices.ContainsFunc(m.Assets(), func(d manifest.Asset) bool { return isForSomeArch(d.Source, a.URL) }) {
			now.Assets = append(now.Assets, a)
		}
	}
	for _, t := range was.Targets {
		reached := func(d manifest.HostPackage) bool { return d.Kind.Reaches(t.Name) }
		if _, ok := now.Target(t.Name, t.Platform); !ok && slices.ContainsFunc(m.HostPackages(), reached) {
			now.Targets = append(now.Targets, t)
		}
	}
}

// keepImages adds the images that an earlier lock has beyond those of the Manifest: the base images of Dockerfiles which
// are not read now.
func keepImages(now *lock.Lock, was lock.Lock) {
	for _, i := range was.Images {
		if _, ok := now.Image(i.Ref); !ok {
			now.Images = append(now.Images, i)
		}
	}
}

// isForSomeArch says whether a URL is a source with an architecture filled in.
func isForSomeArch(source, url string) bool {
	parts := strings.Split(source, manifest.ArchWord)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, "[a-z0-9]+") + "$").MatchString(url)
}
