// Package license finds out what packages of an operating system say of their licenses: an rpm in its header, a Debian
// package in its copyright file where that is written for machines (https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/).
// What they say is turned into an SPDX license expression. The package judges nothing: it repeats.
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

// maxCopyright bounds a copyright file, in bytes; the largest in Debian has some hundred thousand.
const maxCopyright = 1 << 20

// OfRPM reads what the header of an rpm says; empty when it says nothing.
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

// OfDeb reads the names of licenses in the copyright file of a Debian package, each once and in order. It is empty when
// the package has none, has only a link to another's, or has one that is written for people.
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
