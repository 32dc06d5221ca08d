// Package debfile opens Debian packages: their control data and the files that they install.
package debfile

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"strings"

	"pault.ag/go/debian/deb"
)

// The archives of a package, in whatever way they are compressed (deb(5)).
const (
	Control = "control.tar"
	Data    = "data.tar"
)

// Open opens one of the archives of a package. Closing it leaves r open.
func Open(r io.ReaderAt, archive string) (*tar.Reader, io.Closer, error) {
	members, err := deb.LoadAr(r)
	if err != nil {
		return nil, nil, fmt.Errorf("not a package file: %w", err)
	}
	for {
		member, err := members.Next()
		if errors.Is(err, io.EOF) {
			return nil, nil, fmt.Errorf("not a package file: it has no %s", archive)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("not a package file: %w", err)
		}
		if !strings.HasPrefix(member.Name, archive) {
			continue
		}
		files, closer, err := member.Tarfile()
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", member.Name, err)
		}
		return files, closer, nil
	}
}
