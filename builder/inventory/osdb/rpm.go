package osdb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sealift/sealift/builder/component"
	"github.com/sealift/sealift/builder/hostpkg/repodata"
)

// maxHeader is the largest header of an installed package, in bytes. Kernels have some megabytes.
const maxHeader = 16 << 20

// ErrBerkeley reports rpm's database in the format of Berkeley DB, which rpm wrote before version 4.16.
var ErrBerkeley = errors.New("rpm's database is in the old format of Berkeley DB, which is not read")

// RPM reads rpm's database, in the format that its first bytes have.
func RPM(r io.ReaderAt, size int64) ([]component.Component, error) {
	all, err := rpm(r, size)
	if err != nil {
		return nil, fmt.Errorf("read rpm's database: %w", err)
	}
	return all, nil
}

func rpm(r io.ReaderAt, size int64) ([]component.Component, error) {
	start := make([]byte, 16)
	if n, err := r.ReadAt(start, 0); err != nil && (!errors.Is(err, io.EOF) || n < len(start)) {
		return nil, err
	}
	var all []component.Component
	add := func(header []byte) error {
		c, err := installed(header)
		if err != nil {
			return err
		}
		if len(c.Name)+len(c.Version)+len(c.Arch)+len(c.Source)+len(c.SourceVersion)+len(strings.Join(c.Licenses, "")) > maxField {
			return errTooLong
		}
		if c.Name == "gpg-pubkey" { // a key that rpm trusts, not software
			return nil
		}
		if all = append(all, c); len(all) > MaxPackages {
			return errTooMany
		}
		return nil
	}
	switch {
	case bytes.Equal(start, []byte(sqliteMagic)):
		err := sqliteBlobs(r, size, "Packages", 1, add)
		return all, err
	case bytes.HasPrefix(start, []byte(ndbMagic)):
		err := ndbBlobs(r, size, add)
		return all, err
	case bytes.Equal(start[12:], []byte{0x61, 0x15, 0x06, 0}), bytes.Equal(start[12:], []byte{0, 0x06, 0x15, 0x61}):
		return nil, ErrBerkeley
	}
	return nil, errors.New("it is in no format that is known")
}

func installed(header []byte) (component.Component, error) {
	p, err := repodata.Installed(header)
	if err != nil {
		return component.Component{}, err
	}
	return Header(p), nil
}

// Header names the package that an rpm's header describes.
func Header(p *repodata.Package) component.Component {
	c := component.Component{Kind: component.RPM, Name: p.Name, Version: p.Version + "-" + p.Release, Arch: p.Arch}
	if p.Epoch > 0 {
		c.Version = fmt.Sprintf("%d:%s", p.Epoch, c.Version)
	}
	if p.License != "" {
		c.Licenses = []string{p.License}
	}
	c.Source, c.SourceVersion = source(p.Source)
	return c
}

// source splits the file name of a source package, <name>-<version>-<release>.src.rpm.
func source(file string) (name, version string) {
	file = strings.TrimSuffix(strings.TrimSuffix(file, ".rpm"), ".src")
	release := strings.LastIndexByte(file, '-')
	if release <= 0 {
		return "", ""
	}
	at := strings.LastIndexByte(file[:release], '-')
	if at <= 0 {
		return "", ""
	}
	return file[:at], file[at+1:]
}
