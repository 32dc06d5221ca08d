// Package repodata describes rpm packages as a repository that dnf and yum install from: it reads the headers of the
// packages and writes repomd.xml, and the lists that it names.
//
// The same packages yield the same bytes: they have no timestamps and no trace of their author. The package checks no
// signatures and resolves no dependencies.
package repodata

import (
	"bytes"
	"crypto/sha256"
	"encoding/xml"
	"fmt"
	"strings"
)

// Dir is the folder of a repository that has the lists.
const Dir = "repodata"

// Document is one file of a repository.
type Document struct {
	Path string // relative to the repository
	Data []byte
}

// Writer collects packages. Its zero value is empty and ready.
type Writer struct {
	primary, filelists bytes.Buffer
	packages           int
	modules            modules
}

// Add adds a package, whose file is at location, relative to the repository. Packages are listed in the order in which they are
// added.
func (w *Writer) Add(p *Package, location, sha256 string, size int64) error {
	if err := encode(&w.primary, primaryOf(p, location, sha256, size)); err != nil {
		return err
	}
	if err := encode(&w.filelists, filesOf(p, sha256)); err != nil {
		return err
	}
	w.packages++
	return w.modules.add(p)
}

func encode(to *bytes.Buffer, v any) error {
	e := xml.NewEncoder(to)
	e.Indent("  ", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	to.WriteByte('\n')
	return e.Close()
}

// Documents returns the repository's lists and, as the last, repomd.xml, which vouches for them. They are not compressed:
// what carries them does that.
func (w *Writer) Documents() []Document {
	list := []Document{
		{Dir + "/primary.xml", w.wrap("metadata", `xmlns="http://linux.duke.edu/metadata/common" xmlns:rpm="http://linux.duke.edu/metadata/rpm"`, &w.primary)},
		{Dir + "/filelists.xml", w.wrap("filelists", `xmlns="http://linux.duke.edu/metadata/filelists"`, &w.filelists)},
	}
	if text := w.modules.document(); len(text) > 0 {
		list = append(list, Document{Dir + "/modules.yaml", text})
	}
	var b bytes.Buffer
	b.WriteString(xml.Header + `<repomd xmlns="http://linux.duke.edu/metadata/repo">` + "\n  <revision>0</revision>\n")
	for _, d := range list {
		name := strings.TrimPrefix(d.Path, Dir+"/")
		kind, _, _ := strings.Cut(name, ".")
		sum := sha256.Sum256(d.Data)
		fmt.Fprintf(&b, "  <data type=%q>\n    <checksum type=\"sha256\">%x</checksum>\n    <open-checksum type=\"sha256\">%x</open-checksum>\n"+
			"    <location href=%q/>\n    <timestamp>0</timestamp>\n    <size>%d</size>\n    <open-size>%d</open-size>\n  </data>\n",
			kind, sum, sum, d.Path, len(d.Data), len(d.Data))
	}
	b.WriteString("</repomd>\n")
	return append(list, Document{Dir + "/repomd.xml", b.Bytes()})
}

func (w *Writer) wrap(element, attributes string, content *bytes.Buffer) []byte {
	start := fmt.Sprintf("%s<%s %s packages=\"%d\">\n", xml.Header, element, attributes, w.packages)
	return append(append([]byte(start), content.Bytes()...), "</"+element+">\n"...)
}
