package bundle

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"reflect"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/sha256hex"
)

// signatureSuffix makes the name of a signature from the name of the index that it is for.
const signatureSuffix = ".sig"

// writeSignature writes the signature of an index as the next member. It has no entry in the index, because an index cannot
// contain the digest of its own signature.
func writeSignature(w io.Writer, indexPath string, index []byte, key *signature.Key) error {
	sig, err := key.Sign(index)
	if err != nil {
		return err
	}
	return writeSignatureMember(w, indexPath+signatureSuffix, sig)
}

func writeSignatureMember(w io.Writer, name string, sig []byte) error {
	header, err := tarHeader(Entry{Path: name, Mode: 0o644, Size: int64(len(sig))})
	if err != nil {
		return err
	}
	return storeMember(w, header, bytes.NewReader(sig), int64(len(sig)))
}

// readSignatureMember reads the member after the index. It returns the path of the signed index and the signature, or
// nothing if that member is not a signature.
func readSignatureMember(in *countingReader) (indexPath string, sig []byte, err error) {
	gz, err := gzip.NewReader(in)
	if err != nil {
		return "", nil, nil //nolint:nilerr // the length check or a later read reports what is missing or damaged
	}
	gz.Multistream(false)
	entry := tar.NewReader(gz)
	header, err := entry.Next()
	if err != nil || path.Base(header.Name) != SignatureName {
		return "", nil, nil //nolint:nilerr // as above
	}
	if sig, err = readSignature(entry); err != nil {
		return "", nil, fmt.Errorf("%s: %w", header.Name, err)
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(gz, blockSize)); err != nil || n >= blockSize {
		return "", nil, errors.Join(fmt.Errorf("%s: does not fill its gzip member", header.Name), err)
	}
	return strings.TrimSuffix(header.Name, signatureSuffix), sig, nil
}

// checkSigner refuses a signature of an unknown key before the index is parsed, because parsing takes memory.
func checkSigner(index, sig []byte, trusted []signature.PublicKey) error {
	if len(trusted) == 0 || sig == nil || signature.Signer(index, sig, trusted) != "" {
		return nil
	}
	return untrusted("archive", sig)
}

func readSignature(r io.Reader) ([]byte, error) {
	sig, err := io.ReadAll(io.LimitReader(r, signature.MaxSize+1))
	if err == nil && len(sig) > signature.MaxSize {
		err = fmt.Errorf("larger than %d bytes", signature.MaxSize)
	}
	return sig, err
}

// readSignatureFile reads the signature of an unpacked bundle. It returns nil if there is none.
func readSignatureFile(dir *os.Root) ([]byte, error) {
	f, err := regularfile.OpenIn(dir, SignatureName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readSignature(f)
}

// Trust says which of the given keys signed an archive and its packages.
type Trust struct {
	// Signer is the fingerprint of the key that signed the archive's index, and thereby the whole archive. Empty if none
	// did.
	Signer string `json:"signer,omitempty"`
	// Packages has one element for each package of a bundle.
	Packages []PackageTrust `json:"packages,omitempty"`
	// Uncovered lists the files of a bundle that no signature covers, because the bundle's own index is not signed.
	Uncovered []string `json:"uncovered,omitempty"`
}

// PackageTrust names the signer of a package in a bundle.
type PackageTrust struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Signer  string `json:"signer,omitempty"` // a fingerprint; empty if none of the keys signed it
}

// ErrUntrusted reports that none of the given keys signed the archive.
var ErrUntrusted = errors.New("not signed with a given key")

// Signed reports whether the archive's own index has a signature of any key.
func (a *Archive) Signed() bool { return a.signature != nil }

// VerifySignature verifies the signatures of an archive's indexes against keys. It does not read the content: OpenEntry and
// Verify compare that with the index.
//
// A package must be signed with one of the keys. A bundle must either be signed itself, which covers everything in it, or
// all of its packages must be signed. In the second case the person who assembled the bundle can have changed none of the
// packages; Trust lists the other files, which the signatures do not cover. Failures wrap ErrUntrusted.
func (a *Archive) VerifySignature(trusted ...signature.PublicKey) (Trust, error) {
	var t Trust
	if a.signature != nil || a.Index.Kind == KindPackage {
		if t.Signer = signature.Signer(a.index, a.signature, trusted); t.Signer == "" {
			return Trust{}, untrusted(string(a.Index.Kind), a.signature)
		}
	}
	var errs []error
	for _, p := range a.Index.Packages {
		if a.Index.Kind == KindPackage {
			break
		}
		one, err := a.packageTrust(p, trusted)
		if t.Signer == "" || !errors.Is(err, ErrUntrusted) {
			errs = append(errs, err)
		}
		t.Packages = append(t.Packages, one)
	}
	if err := errors.Join(errs...); err != nil {
		return Trust{}, err
	}
	if t.Signer == "" && len(t.Packages) == 0 { // no signature covers anything
		return Trust{}, untrusted(string(a.Index.Kind), nil)
	}
	if t.Signer == "" {
		t.Uncovered = a.outsidePackages()
	}
	return t, nil
}

func untrusted(what string, sig []byte) error {
	if sig == nil {
		return fmt.Errorf("the %s is %w: it has no signature", what, ErrUntrusted)
	}
	return fmt.Errorf("the %s is %w: another key signed it, or its index was changed", what, ErrUntrusted)
}

func (a *Archive) packageTrust(p PackageInfo, trusted []signature.PublicKey) (PackageTrust, error) {
	t := PackageTrust{Name: p.Name, Version: p.Version}
	index, err := a.packageIndex(p)
	if err != nil {
		return t, err
	}
	var sig []byte
	name := path.Join(p.Dir(), SignatureName)
	if _, ok := a.entries[name]; ok {
		if sig, err = a.ReadFile(name, signature.MaxSize); err != nil {
			return t, err
		}
	}
	if t.Signer = signature.Signer(index, sig, trusted); t.Signer == "" {
		return t, untrusted(fmt.Sprintf("package %s %s", p.Name, p.Version), sig)
	}
	return t, nil
}

// packageIndex reads a package's own index from a bundle and compares it with everything that the bundle's index says about
// the package.
func (a *Archive) packageIndex(p PackageInfo) ([]byte, error) {
	name := path.Join(p.Dir(), IndexName)
	data, err := a.ReadFile(name, maxIndexSize)
	if err != nil {
		return nil, err
	}
	if got := sha256hex.Of(data); got != p.Index {
		return nil, &DigestError{Path: name, Got: got, Want: p.Index}
	}
	x, err := parseIndex(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := a.matches(p, x); err != nil {
		return nil, fmt.Errorf("the bundle differs from the package %s %s: %w; make the bundle again", p.Name, p.Version, err)
	}
	return data, nil
}

// matches returns an error that names the first difference between a bundle's index and a package's.
func (a *Archive) matches(p PackageInfo, x Index) error {
	p.Index = ""
	if x.Kind != KindPackage || !reflect.DeepEqual(p, x.Packages[0]) {
		return errors.New("it describes the package differently")
	}
	for _, want := range x.Entries {
		got, ok := a.entries[want.Path]
		if !ok && a.hasForm(want) {
			continue
		}
		if !ok {
			return fmt.Errorf("it lacks %s", want.Path)
		}
		if got.Mode != want.Mode || got.Size != want.Size || got.SHA256 != want.SHA256 || !reflect.DeepEqual(got.Layer, want.Layer) {
			return fmt.Errorf("it has a different %s", want.Path)
		}
	}
	known := len(x.Entries)
	for _, own := range []string{IndexName, SignatureName} {
		if _, ok := a.entries[path.Join(p.Dir(), own)]; ok {
			known++
		}
	}
	if n := len(a.Below(p.Dir())); n > known {
		return fmt.Errorf("it adds %d files", n-known)
	}
	return nil
}

// hasForm reports whether a bundle has another form of a layer of a package: lean, made by a patch, or as the manifest names it. The signed
// configuration of the image, by its diff_ids, says what each form must unpack to.
func (a *Archive) hasForm(want Entry) bool {
	if want.Layer == nil {
		got, ok := a.lean[want.Path]
		return ok && got.Mode == want.Mode && got.Layer.Blob == want.SHA256
	}
	named := path.Join(path.Dir(want.Path), want.Layer.Blob)
	if got, ok := a.lean[named]; ok {
		return got.Mode == want.Mode && got.Layer.Blob == want.Layer.Blob && got.Layer.DiffID == want.Layer.DiffID
	}
	got, ok := a.entries[named]
	return ok && got.Mode == want.Mode && got.SHA256 == want.Layer.Blob && got.Layer == nil
}

// outsidePackages lists the files of a bundle that belong to no package.
func (a *Archive) outsidePackages() []string {
	var outside []string
	for _, e := range a.Index.Entries {
		covered := false
		for _, p := range a.Index.Packages {
			covered = covered || strings.HasPrefix(e.Path, p.Dir()+"/")
		}
		if !covered {
			outside = append(outside, e.Path)
		}
	}
	return outside
}
