package repodata

import (
	"encoding/xml"
	"slices"
	"strings"
)

// The elements of primary.xml and filelists.xml, as createrepo_c writes them and libsolv reads them.

type xmlVersion struct {
	Epoch   uint64 `xml:"epoch,attr"`
	Version string `xml:"ver,attr"`
	Release string `xml:"rel,attr"`
}

type xmlPackage struct {
	XMLName     xml.Name    `xml:"package"`
	Type        string      `xml:"type,attr"`
	Name        string      `xml:"name"`
	Arch        string      `xml:"arch"`
	Version     xmlVersion  `xml:"version"`
	Checksum    xmlChecksum `xml:"checksum"`
	Summary     string      `xml:"summary"`
	Description string      `xml:"description"`
	Packager    string      `xml:"packager"`
	URL         string      `xml:"url"`
	Time        xmlTime     `xml:"time"`
	Size        xmlSize     `xml:"size"`
	Location    xmlLocation `xml:"location"`
	Format      xmlFormat   `xml:"format"`
}

type xmlChecksum struct {
	Type  string `xml:"type,attr"`
	PkgID string `xml:"pkgid,attr"`
	Hex   string `xml:",chardata"`
}

type xmlTime struct {
	File  uint64 `xml:"file,attr"`
	Build uint64 `xml:"build,attr"`
}

type xmlSize struct {
	Package   int64  `xml:"package,attr"`
	Installed uint64 `xml:"installed,attr"`
	Archive   uint64 `xml:"archive,attr"`
}

type xmlLocation struct {
	Href string `xml:"href,attr"`
}

type xmlFormat struct {
	License   string        `xml:"rpm:license"`
	Vendor    string        `xml:"rpm:vendor"`
	Group     string        `xml:"rpm:group"`
	Source    string        `xml:"rpm:sourcerpm"`
	Header    xmlRange      `xml:"rpm:header-range"`
	Provides  *xmlRelations `xml:"rpm:provides"`
	Requires  *xmlRelations `xml:"rpm:requires"`
	Conflicts *xmlRelations `xml:"rpm:conflicts"`
	Obsoletes *xmlRelations `xml:"rpm:obsoletes"`
	Files     []xmlFile     `xml:"file"`
}

type xmlRange struct {
	Start int64 `xml:"start,attr"`
	End   int64 `xml:"end,attr"`
}

type xmlRelations struct {
	Entries []xmlRelation `xml:"rpm:entry"`
}

type xmlRelation struct {
	Name    string `xml:"name,attr"`
	Flags   string `xml:"flags,attr,omitempty"`
	Epoch   string `xml:"epoch,attr,omitempty"`
	Version string `xml:"ver,attr,omitempty"`
	Release string `xml:"rel,attr,omitempty"`
	Pre     string `xml:"pre,attr,omitempty"`
}

type xmlFile struct {
	Type string `xml:"type,attr,omitempty"`
	Path string `xml:",chardata"`
}

type xmlFiles struct {
	XMLName xml.Name   `xml:"package"`
	PkgID   string     `xml:"pkgid,attr"`
	Name    string     `xml:"name,attr"`
	Arch    string     `xml:"arch,attr"`
	Version xmlVersion `xml:"version"`
	Files   []xmlFile  `xml:"file"`
}

func primaryOf(p *Package, location, sha256 string, size int64) xmlPackage {
	return xmlPackage{
		Type: "rpm", Name: p.Name, Arch: p.Arch, Version: xmlVersion{p.Epoch, p.Version, p.Release},
		Checksum: xmlChecksum{Type: "sha256", PkgID: "YES", Hex: sha256},
		Summary:  p.Summary, Description: p.Description, URL: p.URL,
		// The time of a file says when someone fetched it.
		Time: xmlTime{File: p.BuildTime, Build: p.BuildTime}, Size: xmlSize{size, p.Installed, p.Payload}, Location: xmlLocation{location},
		Format: xmlFormat{
			License: p.License, Vendor: p.Vendor, Group: p.Group, Source: p.Source, Header: xmlRange{p.HeaderStart, p.HeaderEnd},
			Provides: relationsOf(p.Provides), Requires: relationsOf(p.Requires), Conflicts: relationsOf(p.Conflicts), Obsoletes: relationsOf(p.Obsoletes),
			Files: elementsOf(slices.DeleteFunc(slices.Clone(p.Files), func(f File) bool { return !isPrimary(f.Path) })),
		},
	}
}

// isPrimary reports whether a path is among those that packages may depend on without the list of all files, by the
// convention of createrepo.
func isPrimary(path string) bool {
	return strings.HasPrefix(path, "/etc/") || strings.Contains(path, "bin/") || path == "/usr/lib/sendmail"
}

func relationsOf(list []Relation) *xmlRelations {
	if len(list) == 0 {
		return nil
	}
	var r xmlRelations
	for _, one := range list {
		entry := xmlRelation{Name: one.Name, Flags: one.Comparison, Epoch: one.Epoch, Version: one.Version, Release: one.Release}
		if one.Before {
			entry.Pre = "1"
		}
		r.Entries = append(r.Entries, entry)
	}
	return &r
}

func filesOf(p *Package, sha256 string) xmlFiles {
	return xmlFiles{PkgID: sha256, Name: p.Name, Arch: p.Arch, Version: xmlVersion{p.Epoch, p.Version, p.Release}, Files: elementsOf(p.Files)}
}

func elementsOf(files []File) []xmlFile {
	var list []xmlFile
	for _, f := range files {
		element := xmlFile{Path: f.Path}
		switch {
		case f.Dir:
			element.Type = "dir"
		case f.Ghost:
			element.Type = "ghost"
		}
		list = append(list, element)
	}
	return list
}
