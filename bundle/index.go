package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// The formats that this package writes and reads; docs/format.md describes them. FormatLean is that of an archive with lean
// layers, FormatPatch that of a bundle with patches of an earlier one, FormatWithin that of a bundle with patches of its own files: programs
// that know only earlier ones refuse it by its name.
const (
	Format       = "sealift.dev/archive/v1"
	FormatLean   = "sealift.dev/archive/v2"
	FormatPatch  = "sealift.dev/archive/v3"
	FormatWithin = "sealift.dev/archive/v4"
)

// Kind is the kind of an archive.
type Kind string

// The kinds of archive.
const (
	KindPackage Kind = "package"
	KindBundle  Kind = "bundle"
)

// Encoding is the encoding of an entry's content in its gzip member.
type Encoding string

// The encodings of an entry.
const (
	Stored  Encoding = "stored"  // deflate's stored blocks: the raw bytes, with five bytes before each 65,535
	Deflate Encoding = "deflate" // compressed
	Link    Encoding = "link"    // a tar hard link to an earlier entry, without content
	InBase  Encoding = "base"    // left out: the bundle named by Index.Base has it
	Patched Encoding = "patch"   // left out: a patch makes it of a file that this bundle has, or the one named by Index.Base
)

// maxIndexSize is the largest index that is read into memory before verification: 64 MiB is about 200,000 entries.
const maxIndexSize = 64 << 20

// Index is the first entry of an archive.
type Index struct {
	Format    string   `json:"format"`
	Kind      Kind     `json:"kind"`
	Platforms []string `json:"platforms,omitempty"`
	// Base is the digest of the index of the earlier bundle that has the files left out here.
	Base string `json:"base,omitempty"`
	// Packages has one element for a package. For a bundle it has all of its packages, in the order of the Installer.
	Packages []PackageInfo `json:"packages"`
	Entries  []Entry       `json:"entries"`
}

// PackageInfo describes one package in an archive.
type PackageInfo struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Targets []string `json:"targets,omitempty"`
	// Index is the sha256 of the package's own index. It is empty in that index itself.
	Index string `json:"index,omitempty"`
	Contents
}

// Dir returns the folder of the package's files below the install root.
func (p PackageInfo) Dir() string { return AddOnDir(p.Name, p.Version) }

// OfImage reports whether a file belongs to the images of a package.
func (x Index) OfImage(e Entry) bool {
	return slices.ContainsFunc(x.Packages, func(p PackageInfo) bool { return strings.HasPrefix(e.Path, path.Join(p.Dir(), "images")+"/") })
}

// Entry is one regular file of the archive.
type Entry struct {
	Path     string   `json:"path"`
	Mode     FileMode `json:"mode"`
	Size     int64    `json:"size"`
	SHA256   string   `json:"sha256"`
	Encoding Encoding `json:"encoding"`
	Link     string   `json:"link,omitempty"` // path of the entry with the bytes, in this archive or in the base
	Offset   int64    `json:"offset"`         // of the gzip member, from the end of the index's member
	Length   int64    `json:"length"`         // of the gzip member
	Header   int64    `json:"header"`         // bytes of tar header before the content, after inflating
	// Layer is set if the file is a lean layer of an image.
	Layer *Layer `json:"layer,omitempty"`
	// Patch is set if the encoding is Patched.
	Patch *Patch `json:"patch,omitempty"`
}

// absent reports whether the archive has no member for the entry.
func (e *Entry) absent() bool { return e.Encoding == InBase || e.Encoding == Patched }

// NeedsBase reports whether the content of the entry is in the bundle named by Index.Base, or is made of a file there.
func (e *Entry) NeedsBase() bool { return e.absent() && !e.Within() }

// Within reports whether a patch makes the entry of another file of the archive.
func (e *Entry) Within() bool { return e.Patch != nil && e.Patch.Within }

// Complete reports whether the archive has a member for each of its files.
func (x Index) Complete() bool {
	return !slices.ContainsFunc(x.Entries, func(e Entry) bool { return e.absent() })
}

// FileMode is permission bits. In JSON it is an octal string such as "0644".
type FileMode fs.FileMode

// MarshalText returns the octal form.
func (m FileMode) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%04o", uint32(m)), nil }

// UnmarshalText reads the octal form. It refuses everything but permission bits.
func (m *FileMode) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || v > 0o777 {
		return fmt.Errorf("mode %q is not an octal number up to 0777", text)
	}
	*m = FileMode(v)
	return nil
}

// ownPath returns the path of the index in its archive.
func (x Index) ownPath() string {
	if x.Kind == KindPackage {
		return path.Join(x.Packages[0].Dir(), IndexName)
	}
	return IndexName
}

// marshal returns the canonical bytes of an index. Their digest identifies the archive.
func (x Index) marshal() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(x); err != nil {
		return nil, fmt.Errorf("encode index: %w", err)
	}
	return buf.Bytes(), nil
}

// parseIndex reads and checks an index from an untrusted archive.
func parseIndex(data []byte) (Index, error) {
	x, err := decodeIndex(data)
	if err != nil {
		var probe struct{ Format string }
		if json.Unmarshal(data, &probe) == nil && probe.Format != "" && !known(probe.Format) {
			return Index{}, unknownFormat(probe.Format)
		}
		return Index{}, fmt.Errorf("index is not valid JSON: %w", err)
	}
	if !known(x.Format) {
		return Index{}, unknownFormat(x.Format)
	}
	return x, x.validate()
}

func known(format string) bool {
	return format == Format || format == FormatLean || format == FormatPatch || format == FormatWithin
}

func unknownFormat(format string) error {
	return fmt.Errorf("archive format %q is not known; this sealift reads %q, %q, %q and %q, so use the one that made the archive", format, Format, FormatLean, FormatPatch, FormatWithin)
}

func (x Index) validate() error {
	switch {
	case x.Kind != KindPackage && x.Kind != KindBundle:
		return fmt.Errorf("kind %q is neither package nor bundle", x.Kind)
	case x.Kind == KindPackage && len(x.Packages) != 1:
		return fmt.Errorf("a package describes itself, but %d packages are listed", len(x.Packages))
	}
	if x.Base != "" && (x.Kind != KindBundle || !validDigest(x.Base)) {
		return fmt.Errorf("base %q is not the digest of a bundle that this one adds to", x.Base)
	}
	for _, p := range x.Packages {
		if !validElement(p.Name) || !validElement(p.Version) {
			return fmt.Errorf("package %q version %q: not usable as folder names", p.Name, p.Version)
		}
	}
	seen := make(map[string]*Entry, len(x.Entries))
	var end int64
	for i := range x.Entries {
		e := &x.Entries[i]
		if err := e.validate(end, seen); err != nil {
			return fmt.Errorf("entry %q: %w", e.Path, err)
		}
		if e.Layer != nil && x.Format == Format {
			return fmt.Errorf("entry %q: is a lean layer, which format %q does not have", e.Path, x.Format)
		}
		if e.older(x.Format) {
			return fmt.Errorf("entry %q: is patched, which format %q does not have", e.Path, x.Format)
		}
		if e.NeedsBase() && x.Base == "" {
			return fmt.Errorf("entry %q: is in another bundle, but the index names none", e.Path)
		}
		if e.Path == x.ownPath() || e.Path == x.ownPath()+signatureSuffix {
			return fmt.Errorf("entry %q: has the path of the index or of its signature", e.Path)
		}
		if x.Kind == KindPackage && !strings.HasPrefix(e.Path, x.Packages[0].Dir()+"/") {
			return fmt.Errorf("entry %q: lies outside %s", e.Path, x.Packages[0].Dir())
		}
		seen[e.Path] = e
		end = e.Offset + e.Length
	}
	return x.validateWithin(seen)
}

// validDigest reports whether s is a sha256 in lower-case hex.
func validDigest(s string) bool {
	digest, err := hex.DecodeString(s)
	return err == nil && len(digest) == sha256.Size && strings.ToLower(s) == s
}

// validElement reports whether an untrusted name can be one element of a path.
func validElement(s string) bool {
	return s != "." && fs.ValidPath(s) && !strings.ContainsAny(s, "/\\\x00")
}

func (e *Entry) validate(end int64, seen map[string]*Entry) error {
	if err := checkPath(e.Path); err != nil {
		return err
	}
	if _, dup := seen[e.Path]; dup {
		return errors.New("listed twice")
	}
	if !validDigest(e.SHA256) {
		return fmt.Errorf("sha256 %q is not 64 lower-case hex digits", e.SHA256)
	}
	if e.Layer != nil {
		if err := e.validateLayer(); err != nil {
			return err
		}
	}
	if (e.Patch != nil) != (e.Encoding == Patched) {
		return fmt.Errorf("has the encoding %q and a patch, or lacks the patch", e.Encoding)
	}
	if e.absent() {
		return e.validateAbsent(end, seen)
	}
	if e.Size < 0 || e.Length <= 0 || e.Offset != end || end+e.Length < end || e.Header < blockSize || e.Header%blockSize != 0 || e.Header > maxStoredBlock {
		return fmt.Errorf("impossible extent: size %d, header %d, offset %d, length %d", e.Size, e.Header, e.Offset, e.Length)
	}
	switch e.Encoding {
	case Stored:
		if want := storedLength(e.Header, e.Size); e.Length != want {
			return fmt.Errorf("stored in %d bytes, want %d", e.Length, want)
		}
	case Deflate:
	case Link:
		target := seen[e.Link]
		if target == nil || target.Encoding == Link || target.absent() {
			return fmt.Errorf("links to %q, which is not an earlier file of the archive", e.Link)
		}
		if target.SHA256 != e.SHA256 || target.Size != e.Size {
			return fmt.Errorf("links to %q, which has other content", e.Link)
		}
		return nil
	default:
		return fmt.Errorf("encoding %q is not known", e.Encoding)
	}
	if e.Link != "" {
		return errors.New("is a link, but has content")
	}
	return nil
}

// validateAbsent checks an entry that has no member.
func (e *Entry) validateAbsent(end int64, seen map[string]*Entry) error {
	if e.Size < 0 || e.Offset != end || e.Length != 0 || e.Header != 0 {
		return fmt.Errorf("is in the base, but has an extent: size %d, header %d, offset %d, length %d", e.Size, e.Header, e.Offset, e.Length)
	}
	if e.Encoding == Patched {
		if err := e.validatePatch(seen); err != nil {
			return err
		}
	}
	return checkPath(e.Link)
}

// checkPath refuses paths that could leave the install root or hide in it.
func checkPath(p string) error {
	if !fs.ValidPath(p) || p == "." || strings.ContainsAny(p, "\\\x00\n") || path.Clean(p) != p {
		return errors.New("path is not a clean relative path")
	}
	return nil
}
