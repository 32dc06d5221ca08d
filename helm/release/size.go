package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/sealift/sealift/internal/sandbox"
)

// Charts are read in this process, and small archives may have large files. These bound a chart with all its dependencies, in bytes: its
// files, and those of them that are parsed, which take some hundred times their size for a moment. Helm keeps the files of a release in a
// Secret, which has at most 1 MiB.
const (
	maxFiles  = 64 << 20
	maxParsed = 2 << 20
	maxNested = 8 // archives inside each other
)

// parsed are the files that are parsed when a chart is read.
var parsed = []string{"Chart.yaml", "values.yaml", "Chart.lock", "requirements.yaml", "requirements.lock"}

// room is how many bytes the archives of a chart may still have.
type room struct{ files, parsed int64 }

// fit refuses charts that are too large. Other faults of an archive are found when it is read.
func fit(archives ...[]byte) error {
	left := room{maxFiles, maxParsed}
	for _, archive := range archives {
		if err := left.take(archive, 0); errors.Is(err, sandbox.ErrLimit) {
			return err
		}
	}
	return nil
}

func (r *room) take(archive []byte, depth int) error {
	if depth > maxNested {
		return exceeded(fmt.Sprintf("%d archives inside each other", maxNested))
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return err
	}
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if r.files -= header.Size; r.files < 0 {
			return exceeded(fmt.Sprintf("%d MiB of files", maxFiles>>20))
		}
		if slices.Contains(parsed, path.Base(header.Name)) {
			if r.parsed -= header.Size; r.parsed < 0 {
				return exceeded(fmt.Sprintf("%d MiB of %s", maxParsed>>20, strings.Join(parsed, ", ")))
			}
		}
		if path.Ext(header.Name) != ".tgz" {
			continue
		}
		nested, err := io.ReadAll(files)
		if err == nil {
			err = r.take(nested, depth+1)
		}
		if errors.Is(err, sandbox.ErrLimit) {
			return err
		}
	}
}

func exceeded(limit string) error {
	return &sandbox.LimitError{Name: "the archive of the chart", Limit: limit}
}
