// Package online opens the bundle of a server as an archive that is read in place: each file by range requests when it is
// needed, verified while it is used.
//
// The package knows the URL of an Installer's bundle on a server. It stores nothing and installs nothing.
package online

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/internal/outage"
	"github.com/sealift/sealift/store"
)

// archiveSuffix is the suffix of bundle names.
const archiveSuffix = ".tar.gz"

// BundleURL returns the URL of the bundle for an Installer's URL, https://host/<id> or https://host/version/<release>/<id>.
// The URL of an archive is returned unchanged.
func BundleURL(from string) (*url.URL, error) {
	u, err := url.Parse(from)
	if err != nil {
		return nil, fmt.Errorf("%q is not a URL: %w", from, err)
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q is not the URL of an Installer, such as https://host/abc1234, or of a bundle", u.Redacted())
	}
	u.Path = path.Clean("/" + u.Path)
	u.RawPath = ""
	if strings.HasSuffix(u.Path, archiveSuffix) {
		return u, nil
	}
	dir, id := path.Split(strings.TrimSuffix(u.Path, "/install.sh"))
	if id == "" {
		return nil, fmt.Errorf("%q is not the URL of an Installer, such as https://host/abc1234", u.Redacted())
	}
	root, release := path.Split(strings.TrimSuffix(dir, "/"))
	if base, ok := strings.CutSuffix(root, "/version/"); ok && release != "" {
		u.Path = base + "/bundle/version/" + release + "/" + id + archiveSuffix
	} else {
		u.Path = path.Join(dir, "bundle", id+archiveSuffix)
	}
	return u, nil
}

// Open opens the bundle at a URL; see BundleURL. Reads end with ctx.
func Open(ctx context.Context, from string, opener store.Opener, trusted ...signature.PublicKey) (*bundle.Archive, error) {
	u, err := BundleURL(from)
	if err != nil {
		return nil, err
	}
	folder := *u
	folder.Path = path.Dir(u.Path)
	server, err := opener.Open(folder.String())
	if err != nil {
		return nil, err
	}
	object, err := server.Get(ctx, path.Base(u.Path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the server has no bundle at %s; open that address to see why: %w", u.Redacted(), err)
	}
	if err != nil && outage.Passes(err) {
		err = fmt.Errorf("%w; check that the server runs and that this host can reach it", err)
	}
	if err != nil {
		return nil, err
	}
	archive, err := bundle.OpenSource(object, trusted...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u.Redacted(), err)
	}
	return archive, nil
}
