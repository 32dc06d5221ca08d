package hostpkg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/internal/filelock"
)

// maxKeys bounds a file of keys, in bytes.
const maxKeys = 1 << 20

// keysOf is the kind of fact that the cache keeps of keys: that a path or URL had those with a digest.
const keysOf = "keys"

// key brings the keys at a path or URL into the cache and returns their digest.
func (o Options) key(ctx context.Context, from string) (string, error) {
	stored, err := o.Fetcher.Fetch(ctx, fetch.Blob{
		Name: "keys " + from, Limit: maxKeys,
		Open: func(ctx context.Context) (io.ReadCloser, int64, error) {
			if !isHTTP(from) {
				f, err := os.Open(from)
				return f, -1, err
			}
			resp, err := o.Client.Get(ctx, o.Mirrors.URL(from), nil)
			if err != nil {
				return nil, 0, err
			}
			return resp.Body, resp.ContentLength, nil
		},
	})
	if err != nil {
		return "", fmt.Errorf("keys %s: %w; name others with signedBy in sealift.yaml", from, err)
	}
	data, err := o.Cache.Read(stored.SHA256, maxKeys)
	if err != nil {
		return "", fmt.Errorf("keys %s: %w", from, err)
	}
	if !bytes.Contains(data, []byte("-----BEGIN PGP PUBLIC KEY BLOCK-----")) {
		return "", fmt.Errorf("keys %s: not an armored OpenPGP key, such as gpg --export --armor writes", from)
	}
	return stored.SHA256, o.Cache.Remember(keysOf, from+" "+stored.SHA256, true)
}

// hadKey reports whether keys with this digest came from a path or URL before, and are still cached.
func (o Options) hadKey(from, digest string) bool {
	var had bool
	_, there := o.Cache.Use(digest)
	return there && o.Cache.Recall(keysOf, from+" "+digest, &had) && had
}

// fetchKey makes sure that the cache has the keys of a package, which a lock names by their digest only, and that they are
// keys of its target. The cache has other files that call themselves keys: every asset that was ever fetched.
func (o Options) fetchKey(ctx context.Context, r Resolved) error {
	var errs []error
	for _, t := range o.Targets {
		for _, a := range t.Sources {
			if t.Name != r.Target {
				continue
			}
			if o.hadKey(a.SignedBy, r.Key) {
				return nil
			}
			got, err := o.key(ctx, a.SignedBy)
			if err == nil && got == r.Key {
				return nil
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, fmt.Errorf("the keys of %s differ from the locked ones, sha256 %s; lock the add-on again with sealift lock --update", r.Target, r.Key))...)
}

// checked is the kind of fact that the cache keeps of a package whose signature was good.
const checked = "rpm-signatures"

// signatures checks rpms with rpm's own program, in private databases.
type signatures struct {
	options Options
	dir     string // has a database of rpm for each set of keys
	rpmkeys string
}

func (o Options) signatures() (signatures, error) {
	rpmkeys, err := find("rpmkeys", "", "rpm")
	if err != nil {
		return signatures{}, err
	}
	dir, err := o.Cache.Sub("rpm-keys")
	return signatures{options: o, dir: dir, rpmkeys: rpmkeys}, err
}

// check lets rpm check the signature of a package in the cache with the keys of its repository. dnf trusts a repository's index
// for the dependencies of packages. Only the signature vouches for their content.
func (s signatures) check(ctx context.Context, r Resolved) error {
	fact := r.SHA256 + " " + r.Key
	var good bool
	if s.options.Cache.Recall(checked, fact, &good) && good {
		return nil
	}
	database, err := s.database(ctx, r.Key)
	if err != nil {
		return fmt.Errorf("keys of %s: %w", r.Target, err)
	}
	// The cache may have had the file for long.
	if err := s.options.Cache.Verify(r.SHA256); err != nil {
		if errors.Is(err, cache.ErrMismatch) {
			err = fmt.Errorf("%w; the cached file was damaged and has been removed: build again", err)
		}
		return err
	}
	args := []string{"--dbpath", database, "--define", "_pkgverify_level all", "--checksig", "--verbose", s.options.Cache.Path(r.SHA256)}
	if said, err := s.run(ctx, args...); err != nil {
		return fmt.Errorf("package %s %s: its signature is invalid: %w: %s; the repository or a mirror serves a package that the distribution did not sign, or signedBy in sealift.yaml names other keys",
			r.Name, r.Version, err, said)
	}
	return s.options.Cache.Remember(checked, fact, true)
}

// database returns the directory of an rpm database that trusts exactly the given keys.
func (s signatures) database(ctx context.Context, key string) (string, error) {
	unlock, err := filelock.WaitFile(ctx, filepath.Join(s.dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	dir := filepath.Join(s.dir, key)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	temporary := dir + ".new"
	if err := os.RemoveAll(temporary); err != nil {
		return "", err
	}
	if err := os.MkdirAll(temporary, 0o755); err != nil {
		return "", err
	}
	if said, err := s.run(ctx, "--dbpath", temporary, "--import", s.options.Cache.Path(key)); err != nil {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	return dir, os.Rename(temporary, dir)
}

// run runs rpmkeys and returns its output in one line.
func (s signatures) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.rpmkeys, args...)
	cmd.Env = append(environment(os.Environ()), "HOME="+s.dir)
	var out []byte
	err := execute(ctx, cmd, func([]byte) []string { return nil }, func(r io.Reader) (err error) {
		out, err = io.ReadAll(io.LimitReader(r, 64<<10))
		return err
	})
	if failed, ok := errors.AsType[*toolError](err); ok {
		err = failed.err
	}
	var bad []string
	for line := range strings.Lines(string(out)) {
		// Headers, digests and signatures have a line each.
		if line = strings.TrimSpace(line); !strings.HasSuffix(line, ": OK") && !strings.HasSuffix(line, ":") {
			bad = append(bad, line)
		}
	}
	return strings.Join(bad, "; "), err
}

// atOnce is how many packages are fetched and checked concurrently.
const atOnce = 4

func forEach(ctx context.Context, packages []Resolved, do func(context.Context, *Resolved) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range packages {
		group.Go(func() error { return do(ctx, &packages[i]) })
	}
	return group.Wait()
}
