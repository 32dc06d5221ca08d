// Package license reads the license statements of operating system packages: from the header of an rpm, and from the
// machine-readable copyright file of a Debian package (https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/).
// It converts them to SPDX license expressions. It repeats what a package says and does not judge it.
package license

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/sealift/sealift/builder/debfile"
	"github.com/sealift/sealift/builder/hostpkg/repodata"
)

// maxCopyright is the largest copyright file, in bytes. The largest in Debian has a few hundred thousand.
const maxCopyright = 1 << 20

// OfRPM returns the license statement of an rpm's header. It is empty if there is none.
func OfRPM(r io.Reader) ([]string, error) {
	p, err := repodata.Read(r)
	if err != nil {
		return nil, err
	}
	if p.License == "" {
		return nil, nil
	}
	return []string{p.License}, nil
}

// OfDeb returns the license names in the copyright file of a Debian package, sorted and without repetitions. It is empty if
// the package has no copyright file, a link to another package's, or one that is not machine-readable.
func OfDeb(ctx context.Context, r io.ReaderAt) ([]string, error) {
	files, closer, err := debfile.Open(r, debfile.Data)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	for {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", debfile.Data, err)
		}
		name := path.Join("/", header.Name)
		if !strings.HasPrefix(name, "/usr/share/doc/") || path.Base(name) != "copyright" || !header.FileInfo().Mode().IsRegular() {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(files, maxCopyright))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		return copyright(string(text)), nil
	}
}
