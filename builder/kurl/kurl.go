// Package kurl imports packages that kURL's CI built, and airgap bundles of kURL's server. Both are plain tars
// (docs/reference/kurl.md, kURL §1.5 and §6.1). Each add-on in one becomes a Sealift package with an index, so that everything
// after the import is verified.
//
// The files stay unchanged: images are docker-archives, host packages are in folders by kURL's names. Of kURL's other content, the
// image of its programs becomes an add-on. Kubernetes, whose hooks are in kURL's own scripts, and other programs are left out, and
// the output names them.
package kurl

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/manifest"
	"github.com/sealift/sealift/store"
)

// Platform is the platform of everything from kURL.
const Platform = "linux/amd64"

// Options says where packages go.
type Options struct {
	Dir   string         // of the packages, each <name>-<version>.tar.gz
	Spool string         // for the files of one archive while it is read; "" for Dir
	Key   *signature.Key // signs the packages, if it is not nil
	// What an archive may unpack to, in bytes and in entries: 0 for the defaults, negative for no bound.
	MaxSize, MaxFiles int64
}

// Result is the content of an archive.
type Result struct {
	Archive  string   `json:"archive,omitempty"` // its name, for callers that read several
	Packages []Made   `json:"packages"`
	LeftOut  []string `json:"leftOut,omitempty"` // folders that hold no add-ons
}

// Made is a package that was written.
type Made struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	File    string `json:"file"`
	Index   string `json:"index"` // sha256 of its index
	Images  int    `json:"images"`
}

// spools are the names of folders in which archives are unpacked.
const spools = ".kurl-*"

// Import reads an archive of kURL's and writes the packages that are in it. An add-on that cannot become a package does not stop the
// others; the error names each. An archive without an add-on is a NoAddOnError.
func Import(ctx context.Context, r io.Reader, o Options) (_ Result, err error) {
	if o.Spool == "" {
		o.Spool = o.Dir
	}
	for _, dir := range []string{o.Dir, o.Spool} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return Result{}, err
		}
	}
	if err := atomicfile.Sweep(o.Spool, spools); err != nil {
		return Result{}, err
	}
	spool, err := atomicfile.MkdirTemp(o.Spool, spools)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, spool.Remove()) }()
	from := &source{r: r}
	r = from
	u := &unpacked{from: from, spool: spool.Path, addOns: map[string]map[string]bundle.File{}, leftOut: map[string]bool{}, maxFiles: bound(o.MaxFiles, DefaultMaxFiles),
		maxSize: func() int64 { return bound(o.MaxSize, DefaultMaxSize) }}
	if o.MaxSize == 0 {
		archive := &counted{r: r}
		r, u.maxSize = archive, archive.allowed
	}
	if err := u.read(ctx, r); err != nil {
		return Result{}, err
	}
	if err := u.addUtility(); err != nil {
		return Result{}, err
	}
	result := Result{LeftOut: slices.Sorted(maps.Keys(u.leftOut))}
	if len(u.addOns) == 0 {
		return result, &NoAddOnError{slices.DeleteFunc(slices.Clone(result.LeftOut), func(dir string) bool {
			root, _, _ := strings.Cut(dir, "/")
			return !slices.Contains(roots(), root)
		})}
	}
	var errs []error
	for _, dir := range slices.Sorted(maps.Keys(u.addOns)) {
		made, err := o.write(ctx, dir, u.addOns[dir])
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", dir, err))
			continue
		}
		result.Packages = append(result.Packages, made)
	}
	return result, errors.Join(errs...)
}

// unpacked is the content read from an archive.
type unpacked struct {
	from    *source
	spool   string
	addOns  map[string]map[string]bundle.File // by folder, addons/<name>/<version>, and path
	links   []link
	utility *bundle.File // kURL's image of programs, nil without one
	leftOut map[string]bool
	entries int64

	maxFiles int64
	maxSize  func() int64
	written  int64 // bytes: a sparse entry has more than the archive inflates to
}

// link is an entry that has the content of another.
type link struct{ dir, path, target string }

func (u *unpacked) read(ctx context.Context, r io.Reader) (err error) {
	gz, err := gzip.NewReader(r)
	if err != nil {
		return u.from.blame(fmt.Errorf("not a kURL archive: %w", err))
	}
	defer gz.Close()
	inflated := &limited{gz, new(int64), u.maxSize}
	defer func() {
		if large, ok := errors.AsType[*tooLargeError](err); ok {
			err = large // the archive is not damaged, wherever reading ended
		}
	}()
	for entries := tar.NewReader(inflated); ; {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return u.from.blame(fmt.Errorf("damaged, or not a kURL archive: %w", err))
		}
		if u.entries++; u.entries > u.maxFiles {
			return faultf("has more than %d files; if you trust it, import it with 'sealift import --max-files'", u.maxFiles)
		}
		if u.entries == 1 && isOwn(header.Name) {
			return faultf("it is an archive of Sealift, which needs no import; publish or bundle it as it is")
		}
		err = u.entry(header, entries)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return u.from.blame(errors.New("damaged: it is truncated; copy it again"))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
	if _, err := io.Copy(io.Discard, inflated); err != nil { // the checksum is at the end
		return u.from.blame(fmt.Errorf("damaged: %w", err))
	}
	return u.resolve()
}

// isOwn reports whether the first entry of an archive is the index of Sealift's packages or bundles.
func isOwn(name string) bool {
	dirs := strings.Count(name, "/") // addons/<name>/<version>/index.json
	return path.Base(name) == bundle.IndexName && (dirs == 0 || dirs == 3 && strings.HasPrefix(name, "addons/"))
}

// errorFile is the file that kURL's server leaves in a bundle that it could not finish (kURL §6.1).
const errorFile = "ERROR.txt"

func (u *unpacked) entry(h *tar.Header, content io.Reader) error {
	name := path.Clean(strings.TrimPrefix(h.Name, "./"))
	name = strings.TrimPrefix(name, "kurl/") // of a bundle
	if name == errorFile {
		return faultf("the bundle is incomplete: kURL's server failed while creating it; download it again")
	}
	if name == utilityFile && h.Typeflag == tar.TypeReg {
		file, err := u.keep(name, h.FileInfo().Mode().Perm(), content)
		u.utility = &file
		return err
	}
	words := strings.SplitN(name, "/", 4)
	if len(words) < 4 || words[0] != "addons" {
		if h.Typeflag == tar.TypeReg {
			u.leftOut[folder(name)] = true
		}
		return nil
	}
	if !fs.ValidPath(name) || strings.ContainsAny(name, "\\\x00\n") {
		return faultf("has a path that leads out of its folder")
	}
	dir := path.Join(words[:3]...)
	switch h.Typeflag {
	case tar.TypeDir:
		return nil
	case tar.TypeReg, tar.TypeGNUSparse:
		file, err := u.keep(name, h.FileInfo().Mode().Perm(), content)
		if err != nil {
			return err
		}
		if u.addOns[dir] == nil {
			u.addOns[dir] = map[string]bundle.File{}
		}
		u.addOns[dir][name] = file
		return nil
	case tar.TypeSymlink:
		u.links = append(u.links, link{dir, name, path.Join(path.Dir(name), h.Linkname)})
		return nil
	case tar.TypeLink:
		u.links = append(u.links, link{dir, name, strings.TrimPrefix(path.Clean(h.Linkname), "kurl/")})
		return nil
	}
	return faultf("is neither a file nor a link to one")
}

// folder is the part of a path outside add-ons that messages show.
func folder(name string) string {
	words := strings.Split(name, "/")
	switch {
	case words[0] == "packages" && len(words) > 3:
		return path.Join(words[:3]...)
	case words[0] == "assets" && len(words) > 1: // a package that was not unpacked
		return path.Join(words[:2]...)
	}
	return words[0]
}

// keep writes the content of an entry to the spool.
func (u *unpacked) keep(name string, mode fs.FileMode, r io.Reader) (_ bundle.File, err error) {
	kept := filepath.Join(u.spool, strconv.FormatInt(u.entries, 10))
	w, err := os.Create(kept)
	if err != nil {
		return bundle.File{}, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(w, sum), &limited{content{r, u.from}, &u.written, u.maxSize})
	if err != nil {
		return bundle.File{}, err
	}
	return bundle.File{Path: name, Mode: mode, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil)),
		Open: func() (io.ReadCloser, error) { return os.Open(kept) }}, nil
}

// maxChain bounds how many links lead from one to the next, as the kernel does.
const maxChain = 40

// resolve replaces links by the content of their targets, which must be files of the same add-on.
func (u *unpacked) resolve() error {
	targets := make(map[string]string)
	for _, l := range u.links {
		targets[l.path] = l.target
	}
	for _, l := range u.links {
		target := l.target
		for range maxChain {
			next, isLink := targets[target]
			if !isLink {
				break
			}
			target = next
		}
		file, ok := u.addOns[l.dir][target]
		if _, isLink := targets[target]; isLink || !ok {
			return faultf("%s: links to %s, which is not a file of its add-on", l.path, l.target)
		}
		file.Path = l.path
		u.addOns[l.dir][l.path] = file
	}
	return nil
}

// maxManifest bounds the size of a Manifest.
const maxManifest = 1 << 20

func (o Options) write(ctx context.Context, dir string, files map[string]bundle.File) (Made, error) {
	words := strings.Split(dir, "/")
	p := bundle.Package{Name: words[1], Version: words[2], Platforms: []string{Platform}, Files: slices.Collect(maps.Values(files))}
	for _, needed := range []string{"Manifest", "install.sh"} {
		if _, ok := files[path.Join(dir, needed)]; !ok {
			return Made{}, faultf("has no %s, which every kURL package has", needed)
		}
	}
	if name := path.Join(dir, bundle.IndexName); files[name].Path != "" {
		return Made{}, faultf("has a file %s, which the index takes the place of", name)
	}
	var err error
	if p.Contents.Images, err = images(dir, files); err != nil {
		return Made{}, err
	}
	key, err := store.PackageKey(p.Name, p.Version)
	if err != nil {
		return Made{}, &archiveError{err}
	}
	made := Made{Name: p.Name, Version: p.Version, File: filepath.Join(o.Dir, key), Images: len(p.Contents.Images)}
	err = atomicfile.Fill(made.File, 0o644, func(w *os.File) error {
		_, err := bundle.WritePackage(ctx, w, p, bundle.WriteOptions{Key: o.Key, Jobs: runtime.GOMAXPROCS(0)})
		return err
	})
	if err != nil {
		return Made{}, err
	}
	archive, err := bundle.Open(made.File)
	if err != nil {
		return Made{}, err
	}
	made.Index = archive.Digest
	return made, archive.Close()
}

// images are the Manifest's: the docker-archives do not say which of their names is meant. They have no digests: kURL does not
// keep the registry's.
func images(dir string, files map[string]bundle.File) ([]bundle.Image, error) {
	content, err := files[path.Join(dir, "Manifest")].Open()
	if err != nil {
		return nil, err
	}
	defer content.Close()
	m, err := manifest.ParseKURL(path.Join(dir, "Manifest"), io.LimitReader(content, maxManifest))
	if err != nil {
		return nil, err
	}
	var list []bundle.Image
	for _, image := range m.Images() {
		archive, ok := files[path.Join(dir, "images", image.ID+".tar.gz")]
		if !ok {
			return nil, faultf("%s: the package has no images/%s.tar.gz; rebuild it", image.Position(), image.ID)
		}
		list = append(list, bundle.Image{ID: image.ID, Ref: image.Ref, NoRemoteLoad: image.NoRemoteLoad, Size: archive.Size})
	}
	return list, nil
}

// NoAddOnError reports an archive of kURL's that has no add-on, such as a package of Kubernetes, or the archive that kURL's server makes
// of the Kubernetes releases between two versions.
type NoAddOnError struct {
	LeftOut []string // what it has instead; empty if it has nothing of kURL's
}

func (e *NoAddOnError) Error() string {
	if len(e.LeftOut) == 0 {
		return "has no add-on: a package or a bundle of kURL has folders addons/<name>/<version>"
	}
	return "has no add-on, only " + strings.Join(e.LeftOut, ", ") + KubernetesHint(e.LeftOut)
}

// KubernetesHint says what to do about kURL's Kubernetes if it was left out, and is empty otherwise.
func KubernetesHint(leftOut []string) string {
	var versions []string
	for _, dir := range leftOut {
		if version, ok := strings.CutPrefix(dir, "packages/kubernetes/"); ok {
			versions = append(versions, version)
		}
	}
	if len(versions) == 0 {
		return ""
	}
	return "; Sealift has Kubernetes of its own: 'sealift addon new-version kubernetes " + versions[len(versions)-1] + "' writes it, and 'sealift build' makes its package"
}

// roots are the folders and files of kURL's archives besides add-ons (kURL §1.5, §6.1).
func roots() []string {
	return []string{"assets", "bin", "helm", "image-overrides", "krew", "kurlkinds", "kustomize", "manifests", "packages", "shared",
		"install.sh", "join.sh", "upgrade.sh", "tasks.sh"}
}
