// Package source fetches the archives of Helm charts: from OCI registries, from repositories that are served over HTTPS, and
// from files: a folder of archives, a Sealift package, or a bundle.
//
// Everything that a fetch may use is in its arguments. It uses no files of the user who runs the program, no helper
// programs and no environment but proxies, and a certificate authority or a password that is given for one chart is
// used for no other.
//
// The index of a repository is read in a child process, within limits: a program that fetches charts has to serve Tasks.
package source

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/sealift/sealift/internal/sha256hex"
)

// MaxSize bounds the archive of a chart, and maxIndex the list of charts of a repository, in bytes.
const (
	MaxSize  = 64 << 20
	maxIndex = 64 << 20
)

// Chart says which chart is wanted.
type Chart struct {
	Repository string // https://…, oci://…, or file:///…
	Name       string
	// Version is a version, or a range such as ~1.2. Empty means the newest one that is not a pre-release. It may end with
	// @sha256:… , and then only content with this digest is accepted: of the archive, or in a registry of the manifest.
	Version string
}

// String names the chart.
func (c Chart) String() string {
	return strings.TrimSpace(fmt.Sprintf("chart %s %s of %s", c.Name, c.Version, c.Repository))
}

// Access configures what a fetch may use.
type Access struct {
	// CA has certificates in PEM that are trusted in addition to those of the system.
	CA []byte
	// Insecure trusts any certificate.
	Insecure bool
	// Credentials come from a docker config file: its key auths. A password is sent only to the host that it is for.
	Credentials []byte
	// Schemes are allowed in addition to https and oci: file, and http, which also applies to registries.
	Schemes []string
	// Tenant names who chose the repository. An index of one tenant does not delay those of others.
	Tenant string `json:"-"`
}

// Archive is a chart that was fetched.
type Archive struct {
	Content []byte // of a .tgz file
	Version string
	Digest  string // sha256:… of the content
}

// ErrDigest means that a chart exists, but with another digest than the given one.
var ErrDigest = errors.New("the content has another digest")

// Fetch returns the archive of a chart.
func Fetch(ctx context.Context, want Chart, access Access) (Archive, error) {
	found, err := fetch(ctx, want, access)
	if err != nil {
		return Archive{}, fmt.Errorf("fetch %s: %w", want, err)
	}
	return found, nil
}

func fetch(ctx context.Context, want Chart, access Access) (Archive, error) {
	version, digest, pinned := strings.Cut(want.Version, "@")
	want.Version = version
	if pinned && !isDigest(digest) {
		return Archive{}, fmt.Errorf("%q is not a digest: give sha256: and 64 hexadecimal digits", digest)
	}
	at, err := url.Parse(want.Repository)
	if err != nil {
		return Archive{}, err
	}
	if at.Scheme != "https" && at.Scheme != "oci" && !slices.Contains(access.Schemes, at.Scheme) {
		return Archive{}, fmt.Errorf("scheme %q is not allowed here: use https or oci", at.Scheme)
	}
	if at.Scheme == "file" {
		return fromFiles(at.Path, want, digest)
	}
	client, err := newClient(access)
	if err != nil {
		return Archive{}, err
	}
	defer client.CloseIdleConnections()
	if at.Scheme == "oci" {
		return fromRegistry(ctx, client, access, want, digest)
	}
	return fromRepository(ctx, client, access, want, digest)
}

func isDigest(text string) bool {
	sum, found := strings.CutPrefix(text, "sha256:")
	decoded, err := hex.DecodeString(sum)
	return found && err == nil && len(decoded) == sha256.Size && sum == strings.ToLower(sum)
}

// pack makes an Archive of content whose digest is right, if one is given.
func pack(content []byte, version string, digests ...string) (Archive, error) {
	a := Archive{Content: content, Version: version, Digest: "sha256:" + sha256hex.Of(content)}
	for _, want := range digests {
		if want != "" && strings.TrimPrefix(want, "sha256:") != strings.TrimPrefix(a.Digest, "sha256:") {
			return Archive{}, fmt.Errorf("%w: %s, want %s", ErrDigest, a.Digest, want)
		}
	}
	return a, nil
}

// pick returns the index of the version that is wanted: of all that match, the newest.
func pick(want string, have []string) (int, error) {
	if at := slices.Index(have, want); at >= 0 && want != "" {
		return at, nil
	}
	constraint, err := semver.NewConstraint(cmp.Or(want, "*"))
	if err != nil {
		return 0, fmt.Errorf("version %q: %w", want, err)
	}
	best, newest := -1, (*semver.Version)(nil)
	for i, text := range have {
		v, err := semver.NewVersion(text)
		if err != nil || !constraint.Check(v) || newest != nil && !v.GreaterThan(newest) {
			continue
		}
		best, newest = i, v
	}
	if best < 0 {
		const shown = 5
		return 0, fmt.Errorf("no version matches %q; available: %s", cmp.Or(want, "*"), strings.Join(have[:min(shown, len(have))], ", "))
	}
	return best, nil
}

// exact reports whether a version is exact, not a range.
func exact(version string) bool {
	_, err := semver.StrictNewVersion(strings.TrimPrefix(version, "v"))
	return err == nil
}
