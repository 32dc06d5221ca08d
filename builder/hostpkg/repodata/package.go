package repodata

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// Tags of the header that are read, as rpm's rpmtag.h numbers them.
const (
	tagName         = 1000
	tagVersion      = 1001
	tagRelease      = 1002
	tagEpoch        = 1003
	tagSummary      = 1004
	tagDescription  = 1005
	tagBuildTime    = 1006
	tagSize         = 1009
	tagVendor       = 1011
	tagLicense      = 1014
	tagGroup        = 1016
	tagURL          = 1020
	tagArch         = 1022
	tagOldFilenames = 1027
	tagFileModes    = 1030
	tagFileFlags    = 1037
	tagSourceRPM    = 1044
	tagArchiveSize  = 1046
	tagDirIndexes   = 1116
	tagBasenames    = 1117
	tagDirnames     = 1118
	tagLongSize     = 5009
	tagModularity   = 5096

	signatureArchiveSize = 1007
)

// relationTags are the tags of one kind of relation: name, flags and version.
type relationTags struct{ name, flags, version uint32 }

var (
	provides  = relationTags{1047, 1112, 1113}
	requires  = relationTags{1049, 1048, 1050}
	conflicts = relationTags{1054, 1053, 1055}
	obsoletes = relationTags{1090, 1114, 1115}
)

// Package is the header of an rpm.
type Package struct {
	Name, Version, Release, Arch string
	Epoch                        uint64
	Summary, Description         string
	License, Vendor, Group, URL  string
	Source                       string // file name of the source package
	BuildTime                    uint64 // seconds since 1970
	Installed, Payload           uint64 // bytes
	HeaderStart, HeaderEnd       int64  // offset of the header in the file
	// Module is the stream that it was built for, <name>:<stream>:<version>:<context>, or empty.
	Module string

	Provides, Requires, Conflicts, Obsoletes []Relation
	Files                                    []File
}

// Relation is a capability, with or without a condition on its version.
type Relation struct {
	Name                    string
	Comparison              string // LT, LE, EQ, GE or GT, or empty
	Epoch, Version, Release string
	Before                  bool // it must be installed before the package's scripts run
}

// File is a path that a package owns.
type File struct {
	Path       string
	Dir, Ghost bool // a ghost is owned without being in the payload
}

// Read reads the headers of an rpm, and nothing of its payload.
func Read(r io.Reader) (*Package, error) {
	signature, h, err := readHeaders(r)
	if err != nil {
		return nil, fmt.Errorf("not an rpm: %w", err)
	}
	start := leadSize + signature.size + padding(signature.size)
	p := &Package{
		Name: h.text(tagName), Version: h.text(tagVersion), Release: h.text(tagRelease), Arch: h.text(tagArch), Epoch: h.number(tagEpoch),
		Summary: h.text(tagSummary), Description: h.text(tagDescription), License: h.text(tagLicense), Vendor: h.text(tagVendor),
		Group: h.text(tagGroup), URL: h.text(tagURL), Source: h.text(tagSourceRPM), BuildTime: h.number(tagBuildTime),
		Installed: max(h.number(tagSize), h.number(tagLongSize)), Payload: max(h.number(tagArchiveSize), signature.number(signatureArchiveSize)),
		HeaderStart: start, HeaderEnd: start + h.size, Module: h.text(tagModularity),
	}
	if p.Name == "" || p.Version == "" || p.Release == "" || p.Arch == "" {
		return nil, errors.New("not an rpm: its header has no name, version, release or architecture")
	}
	for _, kind := range []struct {
		tags relationTags
		into *[]Relation
	}{{provides, &p.Provides}, {requires, &p.Requires}, {conflicts, &p.Conflicts}, {obsoletes, &p.Obsoletes}} {
		if *kind.into, err = relations(h, kind.tags); err != nil {
			return nil, err
		}
	}
	p.Files, err = files(h)
	return p, err
}

// Flags of relations, as rpm's rpmds.h has them.
const (
	flagLess    = 1 << 1
	flagGreater = 1 << 2
	flagEqual   = 1 << 3
	flagBefore  = 1<<6 | 1<<9 | 1<<10 // prerequisite of any script, of the pre script or of the post script
)

func relations(h header, tags relationTags) ([]Relation, error) {
	names, flags, versions := h.texts[tags.name], h.numbers[tags.flags], h.texts[tags.version]
	if len(flags) != len(names) || len(versions) != len(names) {
		return nil, fmt.Errorf("damaged header: %d names, %d flags and %d versions of relations", len(names), len(flags), len(versions))
	}
	var list []Relation
	seen := make(map[Relation]bool)
	for i, name := range names {
		if strings.HasPrefix(name, "rpmlib(") { // a feature of rpm itself, which no package provides
			continue
		}
		r := Relation{Name: name, Comparison: comparison(flags[i]), Before: flags[i]&flagBefore != 0}
		if r.Comparison != "" {
			r.Epoch, r.Version, r.Release = splitVersion(versions[i])
		}
		if !seen[r] {
			seen[r] = true
			list = append(list, r)
		}
	}
	return list, nil
}

func comparison(flags uint64) string {
	switch flags & (flagLess | flagGreater | flagEqual) {
	case flagLess:
		return "LT"
	case flagLess | flagEqual:
		return "LE"
	case flagEqual:
		return "EQ"
	case flagGreater | flagEqual:
		return "GE"
	case flagGreater:
		return "GT"
	}
	return ""
}

// splitVersion takes apart [epoch:]version[-release].
func splitVersion(s string) (epoch, version, release string) {
	epoch, version, found := strings.Cut(s, ":")
	if !found {
		epoch, version = "0", s
	}
	if i := strings.LastIndexByte(version, '-'); i >= 0 {
		version, release = version[:i], version[i+1:]
	}
	return epoch, version, release
}

// Bits of a file's mode and flags, as stat(2) and rpm's rpmfi.h have them.
const (
	modeType  = 0o170000
	modeDir   = 0o040000
	flagGhost = 1 << 6
)

func files(h header) ([]File, error) {
	names, dirs, index := h.texts[tagBasenames], h.texts[tagDirnames], h.numbers[tagDirIndexes]
	if len(names) != len(index) {
		return nil, fmt.Errorf("damaged header: %d names of files in %d directories", len(names), len(index))
	}
	var list []File
	for i, name := range names {
		if index[i] >= uint64(len(dirs)) {
			return nil, fmt.Errorf("damaged header: file %s has no directory", name)
		}
		list = append(list, File{Path: dirs[index[i]] + name})
	}
	for _, path := range h.texts[tagOldFilenames] { // rpm before version 4
		list = append(list, File{Path: path})
	}
	modes, flags := h.numbers[tagFileModes], h.numbers[tagFileFlags]
	for i := range list {
		list[i].Dir = i < len(modes) && modes[i]&modeType == modeDir
		list[i].Ghost = i < len(flags) && flags[i]&flagGhost != 0
	}
	return list, nil
}
