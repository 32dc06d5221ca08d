package channel

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // the hash that old indexes declare
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/kube/render"
)

// maxPackageFile bounds the files of a package that its objects may be made of. Images and the like are not among them.
const maxPackageFile = 8 << 20

// maxKustomizationFiles and maxKustomizationSize, in bytes, bound how much one kustomization may make a channel fetch, from a
// server or out of a package.
const (
	maxKustomizationFiles = 500
	maxKustomizationSize  = 256 << 20
)

// Objects reads the objects of an entry's manifest: a file of YAML documents; a kustomization, which is a folder or a location
// that ends in a slash or in kustomization.yaml; or a package of Sealift, which ends in .tar.gz.
func (s Source) Objects(ctx context.Context, e Entry) ([]*unstructured.Unstructured, error) {
	at, err := url.Parse(e.Location)
	if err != nil {
		return nil, fmt.Errorf("manifest %q is not a location: %w", shown(e.Location), withoutURL(err))
	}
	var objs []*unstructured.Unstructured
	switch {
	case len(s.Trusted) > 0 && !isPackage(at):
		err = fmt.Errorf("%w: only packages are signed", bundle.ErrUntrusted)
	case isPackage(at):
		objs, err = s.packaged(ctx, at, e)
	case isKustomization(at):
		objs, err = s.kustomized(ctx, at, e)
	default:
		objs, err = s.plain(ctx, at, e)
	}
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", redacted(at), err)
	}
	return objs, nil
}

func isPackage(at *url.URL) bool { return strings.HasSuffix(at.Path, ".tar.gz") }

func isKustomization(at *url.URL) bool {
	if strings.HasSuffix(at.Path, "/") || path.Base(at.Path) == kustomizationFile {
		return true
	}
	info, err := os.Stat(at.Path)
	return isLocal(at) && err == nil && info.IsDir()
}

func (s Source) plain(ctx context.Context, at *url.URL, e Entry) ([]*unstructured.Unstructured, error) {
	data, err := s.read(ctx, at)
	if err != nil {
		return nil, err
	}
	if err := checkHash(data, e.ManifestHash); err != nil {
		if s.Verify {
			return nil, err
		}
		// Only a hash that could be one of this manifest, and is not, is worth a word.
		if len(e.ManifestHash) == len(ManifestHash(nil)) {
			s.log().WarnContext(ctx, "the index and the manifest do not agree; --verify would refuse it", "addon", e.Name, "error", err)
		}
	}
	return render.Decode(bytes.NewReader(data))
}

// checkHash holds a manifest against its declared hash: sha256, or sha1 as in old indexes.
func checkHash(data []byte, declared string) error {
	sum := sha1.Sum(bytes.TrimSpace(data)) //nolint:gosec // as above
	switch declared {
	case ManifestHash(data), hex.EncodeToString(sum[:]):
		return nil
	case "":
		return errors.New("its index declares no manifestHash")
	}
	return fmt.Errorf("its index declares manifestHash %s, and it has %s", declared, ManifestHash(data))
}

const kustomizationFile = "kustomization.yaml"

// kustomized builds a kustomization. A remote one is copied here with the files that it names.
func (s Source) kustomized(ctx context.Context, at *url.URL, e Entry) ([]*unstructured.Unstructured, error) {
	if s.Verify {
		return nil, errors.New("a kustomization has many files and no single hash: without --verify it is applied unchecked")
	}
	dir := strings.TrimSuffix(at.Path, kustomizationFile)
	if isLocal(at) {
		return render.Build(dir)
	}
	root, err := os.MkdirTemp("", "sealift-channel-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(root)
	base := *at
	base.Path, base.RawPath = dir, ""
	f := &kustomizationFetch{Source: s, root: root, seen: map[string]bool{}, left: maxKustomizationSize}
	if err := f.folder(ctx, &base); err != nil {
		return nil, err
	}
	s.log().DebugContext(ctx, "copied a kustomization", "addon", e.Name, "files", len(f.seen))
	return render.BuildIn(root, dir)
}

func errTooLarge() error {
	return fmt.Errorf("its files have more than %d MiB together, too much for objects of a cluster", maxKustomizationSize>>20)
}

// kustomizationFetch copies a kustomization below root, at the paths that it has in its URLs.
type kustomizationFetch struct {
	Source
	root string
	seen map[string]bool
	left int64 // bytes
}

func (f *kustomizationFetch) folder(ctx context.Context, at *url.URL) error {
	file := at.JoinPath(kustomizationFile)
	if f.seen[file.Path] {
		return nil
	}
	data, err := f.file(ctx, file)
	if err != nil {
		return err
	}
	names, err := render.Included(data)
	if err != nil {
		return fmt.Errorf("%s: %w", redacted(file), err)
	}
	for _, name := range names {
		if path.IsAbs(name) || strings.Contains(name, "://") || strings.HasPrefix(name, "git@") {
			return fmt.Errorf("%s: %q is not beside the kustomization, and nothing else is fetched", redacted(file), name)
		}
		// A path without an extension is a folder, which saves a request.
		next := at.JoinPath(name)
		if path.Ext(strings.Trim(name, "./")) == "" {
			err = f.folder(ctx, next)
		} else if !f.seen[next.Path] {
			_, err = f.file(ctx, next)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *kustomizationFetch) file(ctx context.Context, at *url.URL) ([]byte, error) {
	f.seen[at.Path] = true
	if len(f.seen) > maxKustomizationFiles {
		return nil, fmt.Errorf("the kustomization names more than %d files", maxKustomizationFiles)
	}
	data, err := f.read(ctx, at)
	if err != nil {
		return nil, err
	}
	if f.left -= int64(len(data)); f.left < 0 {
		return nil, errTooLarge()
	}
	// An absolute path cannot climb above its root, so that a folder named ../.. ends there.
	name := filepath.Join(f.root, filepath.FromSlash(path.Clean("/"+at.Path)))
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	return data, os.WriteFile(name, data, 0o600)
}

// packaged builds the kustomization in a package, read in place: its images are not extracted.
func (s Source) packaged(ctx context.Context, at *url.URL, e Entry) ([]*unstructured.Unstructured, error) {
	o, err := s.open(ctx, at)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	archive, err := bundle.OpenPackage(o, o.Size())
	if err != nil {
		return nil, err
	}
	if e.ManifestHash != "" && e.ManifestHash != archive.Digest {
		return nil, &bundle.DigestError{Path: bundle.IndexName, Got: archive.Digest, Want: e.ManifestHash}
	}
	if s.Verify && e.ManifestHash == "" {
		return nil, errors.New("its index declares no manifestHash")
	}
	if len(s.Trusted) > 0 {
		if _, err := archive.VerifySignature(s.Trusted...); err != nil {
			return nil, err
		}
	}
	return buildPackage(ctx, archive)
}

// buildPackage renders the kustomization of a package, in its own folder or in yaml/. Every file is checked against the
// index of the package.
func buildPackage(ctx context.Context, archive *bundle.Archive) ([]*unstructured.Unstructured, error) {
	dir := archive.Index.Packages[0].Dir()
	places := []string{dir, path.Join(dir, "yaml")}
	i := slices.IndexFunc(places, func(place string) bool {
		_, ok := archive.Entry(path.Join(place, kustomizationFile))
		return ok
	})
	if i < 0 {
		return nil, errors.New("the package has no kustomization.yaml, neither in its folder nor in yaml/: its install.sh needs a host; install it with 'sealift install'")
	}
	tmp, err := os.MkdirTemp("", "sealift-channel-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	root, err := os.OpenRoot(tmp)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var size int64
	carried := []string{dir + "/images/", dir + "/assets/", dir + "/packages/"}
	wanted := func(entry bundle.Entry) bool {
		return entry.Size <= maxPackageFile && !slices.ContainsFunc(carried, func(prefix string) bool { return strings.HasPrefix(entry.Path, prefix) })
	}
	for _, entry := range archive.Index.Entries {
		if wanted(entry) {
			size += entry.Size
		}
		if size > maxKustomizationSize {
			return nil, errTooLarge()
		}
	}
	err = archive.Extract(ctx, root, wanted)
	if err != nil {
		return nil, err
	}
	objs, err := render.BuildIn(tmp, places[i])
	if err != nil {
		return nil, fmt.Errorf("%w; a package whose install.sh renders files first is installed with 'sealift install'", err)
	}
	return objs, nil
}
