// Package packages opens, resolves and lists the packages of a store, for assembling bundles and for serving.
package packages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/internal/platform"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/store/release"
)

// Source is a source of packages.
type Source struct {
	Store store.Store
	// Folder is the folder of a release. Empty means the store itself.
	Folder string
	// Overrides are the URL prefixes from which an Installer may take packages with s3Override. If empty, s3Override is
	// refused, because the author of an Installer must not decide where a server sends requests. Redirects are limited to
	// the same prefixes.
	Overrides []string
	// Opener opens the URLs of overrides.
	Opener store.Opener
	// Signers are public keys. One of them must have signed each package, wherever it comes from. If empty, signatures are
	// not checked.
	Signers []signature.PublicKey
}

// UnknownError reports that an Installer asks for something that does not exist or is not allowed. Either the Installer or the
// store must change.
type UnknownError struct{ Message string }

func (e *UnknownError) Error() string { return e.Message }

// UnusableError reports that a package exists but cannot be bundled. The operator of the store must replace it.
type UnusableError struct{ Message string }

func (e *UnusableError) Error() string { return e.Message }

// Suffix is the suffix of package keys.
const Suffix = ".tar.gz"

// Key is the key of a file among the packages.
func (s Source) Key(name string) string { return path.Join(s.Folder, name) }

// Place returns the location of an add-on's package.
func (s Source) Place(a spec.AddOn) (Source, string, error) {
	override, ok := a.Options["s3Override"].(string)
	if !ok || override == "" {
		key, err := store.PackageKey(a.Name, a.Version)
		return s, s.Key(key), err
	}
	u, err := url.Parse(override)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || path.Clean(u.Path) != u.Path {
		return s, "", &UnknownError{a.Name + ": s3Override must be the URL of a package"}
	}
	check := func(at *url.URL) error {
		if s.allows(at) {
			return nil
		}
		return &UnknownError{fmt.Sprintf("%s: packages may not be taken from %s://%s: leave out s3Override, or allow that address with --allow-override", a.Name, at.Scheme, at.Host)}
	}
	if err := check(u); err != nil {
		return s, "", err
	}
	key := path.Base(u.Path)
	u.Path = path.Dir(u.Path)
	opener := s.Opener
	opener.Redirect = check
	other, err := opener.Open(u.String())
	return Source{Store: other, Signers: s.Signers}, key, err
}

// allows reports whether packages may come from a URL. Its query may be the signature of a bucket.
func (s Source) allows(at *url.URL) bool {
	bare := url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path, RawPath: at.RawPath}
	return at.User == nil && path.Clean(at.Path) == at.Path && slices.ContainsFunc(s.Overrides, func(prefix string) bool {
		return strings.HasPrefix(bare.String(), strings.TrimSuffix(prefix, "/")+"/")
	})
}

// Others names the versions that the store has instead.
func (s Source) Others(ctx context.Context, name string) string {
	infos, err := s.Store.List(ctx, s.Key(name+"-"))
	switch {
	case err == nil && len(infos) > 0:
	case name == "kubernetes":
		return "; Sealift needs Kubernetes of its own, not kURL's: build it with 'sealift build addons/kubernetes/VERSION' and put it there"
	default:
		return "; build it with 'sealift build' and put it there"
	}
	var keys []string
	for _, info := range infos {
		keys = append(keys, path.Base(info.Key))
	}
	return "; it has " + strings.Join(keys, ", ")
}

var (
	// pattern matches a version that stands for the newest of a line, such as 1.36.x.
	pattern = regexp.MustCompile(`^([0-9A-Za-z.+-]*\.)x$`)
	// versionStart separates an add-on's version from a longer name: kubernetes-1.36.3 and kubernetes-conformance-1.36.3.
	versionStart = regexp.MustCompile(`^v?[0-9]`)
)

// Resolve returns the add-ons with versions instead of patterns (latest, 1.36.x), according to the packages in the store. One
// error names everything that could not be resolved.
func (s Source) Resolve(ctx context.Context, addOns []spec.AddOn) ([]spec.AddOn, error) {
	resolved := slices.Clone(addOns)
	var errs []error
	for n, a := range resolved {
		line := pattern.FindStringSubmatch(a.Version)
		if a.Version != catalog.Latest && line == nil {
			continue
		}
		have, err := s.Versions(ctx, a.Name)
		if err != nil {
			return nil, fmt.Errorf("find the versions of %s: %w", a.Name, err)
		}
		have = slices.DeleteFunc(have, func(v string) bool {
			return catalog.Unstable(v) || line != nil && !strings.HasPrefix(v, line[1])
		})
		if len(have) == 0 {
			errs = append(errs, &UnknownError{fmt.Sprintf("%s: the store has no package %s of version %s%s", a.Pos, a.Name, a.Version, s.Others(ctx, a.Name))})
			continue
		}
		resolved[n].Version = slices.MaxFunc(have, catalog.CompareVersions)
	}
	return resolved, errors.Join(errs...)
}

// Versions lists the versions of an add-on in the store. Archives of several packages, as kURL's server makes them, do not count.
func (s Source) Versions(ctx context.Context, name string) ([]string, error) {
	infos, err := s.Store.List(ctx, s.Key(name+"-"))
	if err != nil {
		return nil, err
	}
	var versions []string
	for _, info := range infos {
		file := strings.TrimPrefix(info.Key, s.Key(name+"-"))
		if version, ok := strings.CutSuffix(file, Suffix); ok && spec.IsVersion(version) && versionStart.MatchString(version) {
			versions = append(versions, version)
		}
	}
	return versions, nil
}

// List returns the index of the published packages. If nothing was published, it lists the packages in the folder, without
// their digests.
func (s Source) List(ctx context.Context) (release.Index, error) {
	index, err := release.In(s.Store, s.Folder).Index(ctx)
	if err != nil || len(index.Packages) > 0 {
		return index, err
	}
	infos, err := s.Store.List(ctx, s.Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return index, nil
	}
	index.Packages = []release.Package{}
	for _, info := range infos {
		file := strings.TrimPrefix(strings.TrimPrefix(info.Key, s.Folder), "/")
		name, version, ok := splitName(strings.TrimSuffix(file, Suffix))
		if ok && strings.HasSuffix(file, Suffix) && !strings.Contains(file, "/") && spec.IsVersion(version) {
			index.Packages = append(index.Packages, release.Package{Name: name, Version: version, Key: file, Size: info.Size, Stored: info.Version})
		}
	}
	return index, err
}

// splitName splits the name of a package into name and version.
func splitName(s string) (name, version string, ok bool) {
	for i := range s {
		if s[i] == '-' && i > 0 && versionStart.MatchString(s[i+1:]) {
			return s[:i], s[i+1:], true
		}
	}
	return "", "", false
}

// Get opens a package by its file name.
func (s Source) Get(ctx context.Context, file string) (store.Object, error) {
	return s.get(ctx, s.Key(file))
}

func (s Source) get(ctx context.Context, key string) (store.Object, error) {
	object, err := s.Store.Get(ctx, key)
	if errors.Is(err, bundle.ErrForeign) { // an archive of kURL's that cannot be imported
		return nil, &UnusableError{err.Error()}
	}
	return object, err
}

// Presign returns a temporary URL at which the store itself serves a package, or "" if the store cannot presign.
func (s Source) Presign(ctx context.Context, file string, valid time.Duration) (string, error) {
	p, ok := store.As[store.Presigner](s.Store)
	if !ok {
		return "", nil
	}
	return p.Presign(ctx, s.Key(file), valid)
}

// Reachable reports whether the store responds.
func (s Source) Reachable(ctx context.Context) error {
	o, err := s.Get(ctx, store.ListingName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return o.Close()
}

func unsigned(key string, err error) error {
	return &UnusableError{fmt.Sprintf("package %s: %v; publish one that its vendor signed, or leave out --require-signed", key, err)}
}

// Trust refuses a package that none of the signers has signed.
func (s Source) Trust(key string, archive *bundle.Archive) error {
	if len(s.Signers) == 0 {
		return nil
	}
	if _, err := archive.VerifySignature(s.Signers...); err != nil {
		return unsigned(key, err)
	}
	return nil
}

// Open opens a package for platforms, and refuses one that a bundle cannot have. The object, if there is one, is to be closed also after an error.
func (s Source) Open(ctx context.Context, key string, wanted ...string) (store.Object, *bundle.Archive, error) {
	object, err := s.get(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	archive, err := bundle.OpenPackage(object, object.Size(), s.Signers...)
	if errors.Is(err, bundle.ErrUntrusted) {
		return object, nil, unsigned(key, err)
	}
	if errors.Is(err, bundle.ErrForeign) || errors.Is(err, bundle.ErrNotPackage) {
		return object, nil, &UnusableError{fmt.Sprintf("package %s: %v", key, err)}
	}
	if err != nil {
		return object, nil, fmt.Errorf("package %s: %w", key, err)
	}
	if err := s.Trust(key, archive); err != nil {
		return object, nil, err
	}
	for _, one := range wanted {
		if !platform.Contains(archive.Index.Platforms, one) {
			info := archive.Index.Packages[0]
			return object, nil, &UnusableError{fmt.Sprintf("package %s is for %s, not for %s; build it with: sealift build %s --platform %s",
				key, strings.Join(archive.Index.Platforms, ", "), one, info.Dir(), strings.Join(wanted, ","))}
		}
	}
	return object, archive, nil
}
