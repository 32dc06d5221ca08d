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
)

// signatureSuffix makes the name of a signature from the name of the index that it is for.
const signatureSuffix = ".sig"

// writeSignature writes the signature of an index as the member behind it. It is no entry of the index, which could not
// have the digest of its own signature.
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

// readSignatureMember reads the member behind that of an index, and returns the path of the index that the signature is
// for. It returns nothing, having read anything, when that member is not a signature.
func readSignatureMember(in *countingReader) (indexPath string, sig []byte, err error) {
	gz, err := gzip.NewReader(in)
	if err != nil {
		return "", nil, nil //nolint:nilerr // what is missing or damaged there is found by its length, or when it is read
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

// checkSigner refuses a signature of a stranger before its index is parsed, which takes memory.
func checkSigner(index, sig []byte, trusted []signature.PublicKey) error {
	if len(trusted) == 0 || sig == nil || signer(index, sig, trusted) != "" {
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

// readSignatureFile reads the signature of an unpacked bundle, nil when it has none.
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

// Trust says whose signatures an archive bears, of the keys that it was held against.
type Trust struct {
	// Signer is the fingerprint of the key that signed the archive's index, and so all of the archive; or empty.
	Signer string `json:"signer,omitempty"`
	// Packages has one element for each package of a bundle.
	Packages []PackageTrust `json:"packages,omitempty"`
	// Uncovered are the files of a bundle that no signature covers, because its own index is not signed.
	Uncovered []string `json:"uncovered,omitempty"`
}

// PackageTrust says who signed a package that is inside a bundle.
type PackageTrust struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Signer  string `json:"signer,omitempty"` // a fingerprint; empty when none of the keys signed it
}

// ErrUntrusted says that an archive lacks a signature of any of the keys that it was held against.
var ErrUntrusted = errors.New("not signed with a given key")

// Signed says whether the archive's own index has a signature, by whomever.
func (a *Archive) Signed() bool { return a.signature != nil }

// VerifySignature holds the indexes of an archive against keys. The content is not read: OpenEntry and Verify hold it
// against the index.
//
// A package, or a bundle that is signed itself, must be signed with one of the keys; who signed a bundle vouches for all
// that is in it. In a bundle that is not signed itself every package must be: then whoever assembled it could change none
// of them, and Trust names the files that he could change. What fails wraps ErrUntrusted.
func (a *Archive) VerifySignature(trusted ...signature.PublicKey) (Trust, error) {
	var t Trust
	if a.signature != nil || a.Index.Kind == KindPackage {
		if t.Signer = signer(a.index, a.signature, trusted); t.Signer == "" {
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
	if t.Signer == "" && len(t.Packages) == 0 { // nothing vouches for anything
		return Trust{}, untrusted(string(a.Index.Kind), nil)
	}
	if t.Signer == "" {
		t.Uncovered = a.outsidePackages()
	}
	return t, nil
}

// signer gives the fingerprint of the key that made a signature, or nothing.
func signer(data, sig []byte, trusted []signature.PublicKey) string {
	for _, key := range trusted {
		if sig != nil && key.Verify(data, sig) {
			return key.Fingerprint()
		}
	}
	return ""
}

func untrusted(what string, sig []byte) error {
	if sig == nil {
		return fmt.Errorf("the %s is %w: it has no signature", what, ErrUntrusted)
	}
	return fmt.Errorf("the %s is %w: its signature is another's, or its index was changed", what, ErrUntrusted)
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
	if t.Signer = signer(index, sig, trusted); t.Signer == "" {
		return t, untrusted(fmt.Sprintf("package %s %s", p.Name, p.Version), sig)
	}
	return t, nil
}

// packageIndex reads the index that a package of a bundle brought along, and holds against it all that the bundle says of
// the package.
func (a *Archive) packageIndex(p PackageInfo) ([]byte, error) {
	name := path.Join(p.Dir(), IndexName)
	data, err := a.ReadFile(name, maxIndexSize)
	if err != nil {
		return nil, err
	}
	if got := sha256Hex(data); got != p.Index {
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

// matches says how a bundle's index differs from a package's.
func (a *Archive) matches(p PackageInfo, x Index) error {
	p.Index = ""
	if x.Kind != KindPackage || !reflect.DeepEqual(p, x.Packages[0]) {
		return errors.New("it describes it otherwise")
	}
	for _, want := range x.Entries {
		got, ok := a.entries[want.Path]
		if !ok {
			return fmt.Errorf("it lacks %s", want.Path)
		}
		if got.Mode != want.Mode || got.Size != want.Size || got.SHA256 != want.SHA256 {
			return fmt.Errorf("it has another %s", want.Path)
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

// outsidePackages lists the files that no package of a bundle has.
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
