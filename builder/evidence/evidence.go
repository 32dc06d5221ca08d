// Package evidence states what is in a bundle, for people who have to let it through a door: a bill of materials down to the packages inside
// of image layers and the modules of programs, and a statement that binds it to the digest of the bundle's index.
//
// The same bundle gives the same evidence, byte for byte. The package judges nothing.
package evidence

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/sealift/sealift/builder/comparison"
	"github.com/sealift/sealift/builder/inventory"
	"github.com/sealift/sealift/builder/licensing"
	"github.com/sealift/sealift/builder/sbom"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
)

// Format names the form of a statement.
const Format = "sealift.dev/evidence/v1"

// The ends of the names of files with evidence. What they begin with is up to the caller.
const (
	StatementName = "evidence.json"
	SignatureName = StatementName + ".sig"
	SPDXName      = "spdx.json"
	CycloneDXName = "cdx.json"
	LicensesName  = "licenses.tar.gz"
	// The difference to an earlier bundle, and a page of it.
	DifferenceName     = "difference.json"
	DifferencePageName = "difference.html"
)

// MaxSize is the largest file of evidence, in bytes. A document has about a kilobyte for each component.
const MaxSize = 256 << 20

// maxMaterials is the largest bill of materials of a package, in bytes.
const maxMaterials = 64 << 20

// Statement says what evidence there is, and for which bundle.
type Statement struct {
	Format string `json:"format"`
	// Index is the digest of the bundle's index, sha256:<hex>. The index has the digests of all files.
	Index     string     `json:"index"`
	Documents []Document `json:"documents"`
	// Known and Unknown count images. One is unknown if content of it may be missing in the documents.
	Known   int     `json:"known"`
	Unknown int     `json:"unknown"`
	Images  []Image `json:"images"`
	// Licenses counts components by what they state.
	Licenses Licenses `json:"licenses"`
	// UnknownFiles are files outside of images whose content may be missing in the documents.
	UnknownFiles []UnknownFile `json:"unknownFiles,omitempty"`
}

// Document is a bill of materials, the archive with the texts of licenses, or the difference to an earlier bundle.
type Document struct {
	Name   string `json:"name"` // the end of its file's name, such as spdx.json
	SHA256 string `json:"sha256"`
}

// Licenses counts the components that state a license, those that do not, and the texts of licenses and notices.
type Licenses struct {
	Known   int `json:"known"`
	Unknown int `json:"unknown"`
	Texts   int `json:"texts"`
}

// Image says what is known about an image.
type Image struct {
	Ref      string   `json:"ref"`
	Platform string   `json:"platform"`
	Manifest string   `json:"manifest"` // digest
	System   string   `json:"system,omitempty"`
	Packages int      `json:"packages"`
	Programs int      `json:"programs"`
	Modules  int      `json:"modules"`
	Unknown  []string `json:"unknown,omitempty"` // why content may be missing
}

// UnknownFile is a file of a bundle that cannot be read.
type UnknownFile struct {
	Path    string   `json:"path"`
	Unknown []string `json:"unknown"`
}

// Options say what to write.
type Options struct {
	// CycloneDX adds the bill of materials in that format.
	CycloneDX bool
	// Since is an earlier bundle, unless it is nil. The difference to it is added. Public leaves out secrets of Installers.
	Since  *bundle.Archive
	Public func(settings map[string]any) map[string]any
	// Key signs the statement, if it is not nil.
	Key *signature.Key
}

// Evidence is a statement and the files that belong to it.
type Evidence struct {
	Statement Statement
	// Files maps the ends of names to contents, the statement and its signature included. The archive of licenses is not among them.
	Files map[string][]byte

	texts    *licensing.Texts
	licenses *licensing.Report
}

// Close frees what the archive of licenses is written from.
func (e *Evidence) Close() error { return e.texts.Close() }

// WriteLicenses writes the archive with the texts of licenses and the list of components: each text once. It needs the memory of the list.
func (e *Evidence) WriteLicenses(w io.Writer) error { return e.texts.WriteArchive(w, e.licenses) }

// Collect makes the evidence of a bundle or a package. Close it.
func Collect(ctx context.Context, from *bundle.Archive, o Options) (_ *Evidence, err error) {
	e := &Evidence{Files: make(map[string][]byte)}
	if e.texts, err = licensing.NewTexts(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	listed, err := inventory.Read(ctx, from, inventory.Options{Keep: e.texts.Keep})
	if err != nil {
		return nil, err
	}
	if e.licenses, err = licensing.Of(from, listed); err != nil {
		return nil, err
	}
	whole := sbom.Whole{Digest: from.Digest, Packages: from.Index.Packages, Inventory: listed}
	for _, p := range from.Index.Packages {
		name := path.Join(p.Dir(), sbom.FileName)
		var data []byte
		if _, ok := from.Entry(name); ok {
			if data, err = from.ReadFile(name, maxMaterials); err != nil {
				return nil, err
			}
		}
		whole.Documents = append(whole.Documents, data)
	}
	materials, err := sbom.Collect(whole)
	if err != nil {
		return nil, err
	}
	e.Statement = state(from.Digest, listed)
	e.Statement.Licenses.Known, e.Statement.Licenses.Unknown = e.licenses.Count()
	e.Statement.Licenses.Texts = len(e.licenses.Texts)
	spdx, err := materials.SPDX()
	if err != nil {
		return nil, err
	}
	e.add(SPDXName, spdx)
	if o.CycloneDX {
		cyclone, err := materials.CycloneDX()
		if err != nil {
			return nil, err
		}
		e.add(CycloneDXName, cyclone)
	}
	if err := e.addDifference(ctx, from, o); err != nil {
		return nil, err
	}
	sum := sha256.New()
	if err := e.WriteLicenses(sum); err != nil {
		return nil, err
	}
	e.Statement.Documents = append(e.Statement.Documents, Document{LicensesName, hex.EncodeToString(sum.Sum(nil))})
	return e, e.finish(o.Key)
}

func (e *Evidence) add(name string, data []byte) {
	sum := sha256.Sum256(data)
	e.Files[name] = data
	e.Statement.Documents = append(e.Statement.Documents, Document{name, hex.EncodeToString(sum[:])})
}

// addDifference adds what changed since an earlier bundle, if there is one.
func (e *Evidence) addDifference(ctx context.Context, from *bundle.Archive, o Options) error {
	if o.Since == nil {
		return nil
	}
	d, err := comparison.Between(ctx, o.Since, from, comparison.Options{Public: o.Public})
	if err != nil {
		return err
	}
	document, err := encode(d)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := d.WritePage(&page); err != nil {
		return err
	}
	e.add(DifferenceName, document)
	e.add(DifferencePageName, page.Bytes())
	return nil
}

// encode writes JSON for people, too.
func encode(document any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		return nil, fmt.Errorf("encode the evidence: %w", err)
	}
	return out.Bytes(), nil
}

// finish encodes and signs the statement.
func (e *Evidence) finish(key *signature.Key) error {
	out, err := encode(e.Statement)
	if err != nil {
		return err
	}
	e.Files[StatementName] = out
	if key == nil {
		return nil
	}
	sig, err := key.Sign(out)
	e.Files[SignatureName] = sig
	return err
}

// state summarizes an inventory.
func state(digest string, listed *inventory.Inventory) Statement {
	s := Statement{Format: Format, Index: "sha256:" + digest, Images: []Image{}}
	for _, i := range listed.Images {
		one := Image{Ref: i.Ref, Platform: i.Platform, Manifest: i.Manifest, System: i.System, Packages: len(i.Packages), Programs: len(i.Programs), Unknown: i.Unknown}
		for _, p := range i.Programs {
			one.Modules += len(p.Modules)
		}
		s.Images = append(s.Images, one)
		if len(i.Unknown) > 0 {
			s.Unknown++
		} else {
			s.Known++
		}
	}
	for _, f := range listed.Files {
		if len(f.Unknown) > 0 {
			s.UnknownFiles = append(s.UnknownFiles, UnknownFile{f.Path, f.Unknown})
		}
	}
	return s
}

// Verify checks that evidence belongs to the bundle whose index has a digest, in hex, that one of the keys signed it, and that no document
// was changed. read returns the content of the file whose name has an end.
func Verify(digest string, keys []signature.PublicKey, read func(name string) ([]byte, error)) (*Statement, error) {
	data, err := read(StatementName)
	if err != nil {
		return nil, err
	}
	sig, err := read(SignatureName)
	if err != nil {
		return nil, fmt.Errorf("the evidence is not signed: %w", err)
	}
	if signature.Signer(data, sig, keys) == "" {
		return nil, errors.New("the evidence is not signed with a given key")
	}
	var s Statement
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("read the statement: %w", err)
	}
	if s.Format != Format {
		return nil, fmt.Errorf("the statement has the format %q, and this sealift reads %s", s.Format, Format)
	}
	if s.Index != "sha256:"+digest {
		return nil, fmt.Errorf("the evidence is for the bundle with the index %s, not for sha256:%s", s.Index, digest)
	}
	for _, d := range s.Documents {
		if !slices.Contains(documents(), d.Name) {
			return nil, fmt.Errorf("the statement names a document %q, which is not known", d.Name)
		}
		data, err := read(d.Name)
		if err != nil {
			return nil, err
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != d.SHA256 {
			return nil, fmt.Errorf("the document %s was changed: its sha256 is %x, and the statement has %s", d.Name, sum, d.SHA256)
		}
	}
	return &s, nil
}
