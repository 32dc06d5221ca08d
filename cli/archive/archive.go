// Package archive opens packages and bundles for commands, wherever they are, and has the command that verifies them.
package archive

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/parts"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/transfer"
	"github.com/sealift/sealift/store"
)

// Open opens a package or a bundle. location is a path as bundle.Open takes it, or the URL of a file in a store. From a URL, only
// the parts that are used are read. If there are trusted keys, an archive that none of them signed is refused before its index is
// parsed.
func Open(ctx context.Context, opener store.Opener, location string, trusted ...signature.PublicKey) (*bundle.Archive, error) {
	if !strings.Contains(location, "://") {
		return bundle.Open(location, trusted...)
	}
	parent, key, err := splitURL(location)
	if err != nil {
		return nil, err
	}
	s, err := opener.Open(parent)
	if err != nil {
		return nil, err
	}
	object, err := s.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	archive, err := bundle.OpenSource(object, trusted...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", location, err)
	}
	return archive, nil
}

// OpenWithBase is Open for an archive that may leave out files of an earlier bundle, which is named by base. Closing the archive closes both.
func OpenWithBase(ctx context.Context, opener store.Opener, location, base string, trusted ...signature.PublicKey) (*bundle.Archive, error) {
	opened, err := Open(ctx, opener, location, trusted...)
	if err != nil {
		return nil, err
	}
	if err := AddBase(opened, base); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return opened, nil
}

// AddBaseFlag adds the flag for the earlier bundle of AddBase to a command.
func AddBaseFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "base", "", "the earlier bundle with the files that the archive leaves out")
	_ = cmd.MarkFlagFilename("base")
}

// AddBase adds the earlier bundle to an archive that leaves out files. An empty path adds nothing.
func AddBase(a *bundle.Archive, path string) error {
	if path == "" {
		return nil
	}
	base, err := bundle.Open(path)
	if err != nil {
		return fmt.Errorf("--base: %w", err)
	}
	if err := a.WithBase(base); err != nil {
		return errors.Join(fmt.Errorf("--base %s: %w", path, err), base.Close())
	}
	return nil
}

// splitURL splits the URL of a file into the URL of its store and the file's key.
func splitURL(location string) (parent, key string, err error) {
	u, err := url.Parse(location)
	if err != nil {
		return "", "", app.UsageError("%q is not a URL: %v", location, err)
	}
	dir, key := path.Split(u.Path)
	if key == "" {
		return "", "", app.UsageError("%s names no file; give the URL of an archive, such as https://host/packages/flannel-0.26.7.tar.gz", u.Redacted())
	}
	u.Path, u.RawPath = dir, ""
	return u.String(), key, nil
}

// Summary is the output of inspect for an archive.
type Summary struct {
	Path   string `json:"path"`
	Digest string `json:"digest"` // of the index
	Size   int64  `json:"size"`   // bytes of the archive; zero for an unpacked one
	Signed bool   `json:"signed"` // by any key
	// Parts describes the parts of an archive that is not in one piece.
	Parts *parts.Set `json:"parts,omitempty"`
	// PlatformSizes are the parts of an archive for several platforms.
	PlatformSizes []PlatformSize `json:"platformSizes,omitempty"`
	bundle.Index
}

// Summarize describes an archive at a path.
func Summarize(a *bundle.Archive, path string) (Summary, error) {
	s := Summary{Path: transfer.Shown(path), Digest: a.Digest, Size: a.Size(), Signed: a.Signed(), Index: a.Index}
	if p := a.Parts(); p != nil {
		set := p.Set()
		s.Parts = &set
	}
	var err error
	s.PlatformSizes, err = platformSizes(a)
	return s, err
}
