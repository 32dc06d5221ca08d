// Package license reads the license statements of operating system packages: from the header of an rpm, and from the
// machine-readable copyright file of a Debian package (https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/). It knows the
// texts of licenses by their words. It converts what it reads to SPDX license expressions, and holds these against a policy.
//
// It repeats what is stated, and never guesses: what it cannot read is unknown.
package license

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
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
		return Copyright(string(text)), nil
	}
}

// Copyright returns the license names in a machine-readable copyright file: the first lines of the License fields in the
// header and in Files paragraphs. Stand-alone License paragraphs only explain a name.
func Copyright(text string) []string {
	var names []string
	for i, paragraph := range paragraphs(text) {
		switch {
		case i == 0 && !strings.Contains(paragraph["format"], "copyright-format"):
			return nil
		case i > 0 && paragraph["files"] == "":
			continue
		}
		if name := strings.Join(strings.Fields(paragraph["license"]), " "); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// paragraphs splits a file into paragraphs. Each maps lower-case field names to their first lines.
func paragraphs(text string) []map[string]string {
	var all []map[string]string
	var current map[string]string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		if line == "" {
			current = nil
			continue
		}
		if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "#") {
			continue // a continuation line, or a comment
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		if current == nil {
			current = make(map[string]string)
			all = append(all, current)
		}
		current[strings.ToLower(name)] = strings.TrimSpace(value)
	}
	return all
}
