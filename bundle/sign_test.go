package bundle_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// signer is a key with its public half.
type signer struct {
	key    *signature.Key
	public signature.PublicKey
}

func newSigner(t *testing.T) signer {
	t.Helper()
	key, public := fixture.SigningKey(t)
	return signer{key, public}
}

// assembleWith makes a bundle of packages, signed unless key is nil.
func assembleWith(t *testing.T, key *signature.Key, packages ...[]byte) []byte {
	t.Helper()
	b := bundle.Bundle{Members: render(t, bundle.BytesFile("install.sh", 0o755, []byte("#!/bin/sh\n"))), Key: key}
	for _, p := range packages {
		b.Packages = append(b.Packages, open(t, p))
	}
	var buf bytes.Buffer
	if _, err := bundle.WriteBundle(t.Context(), &buf, b); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestSignedPackageIsReadLikeUnsigned(t *testing.T) {
	s := newSigner(t)
	unsigned := open(t, write(t, demo("app"), bundle.WriteOptions{}))
	data := write(t, demo("app"), bundle.WriteOptions{Key: s.key})
	a := open(t, data)
	if a.Digest != unsigned.Digest || !a.Signed() || unsigned.Signed() {
		t.Error("the signature changed the index, or is not seen")
	}
	if err := a.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if again := write(t, demo("app"), bundle.WriteOptions{Key: s.key}); !bytes.Equal(again, data) {
		t.Error("signed again, other bytes")
	}
	for n := len(data) - 3000; n < len(data); n += 777 {
		if _, err := bundle.NewArchive(bytes.NewReader(data[:n]), int64(n)); err == nil {
			t.Errorf("truncated to %d of %d bytes and accepted", n, len(data))
		}
	}
}

func TestOpensslVerifiesUnpackedSignature(t *testing.T) {
	s := newSigner(t)
	dir := filepath.Join(unpack(t, write(t, demo("app"), bundle.WriteOptions{Key: s.key})), "addons/app/1.0.0")
	text, err := os.ReadFile(filepath.Join(dir, bundle.SignatureName))
	if err != nil {
		t.Fatal(err)
	}
	der, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"der": der, "pub": s.public.Marshal()} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "openssl", "dgst", "-sha256", "-verify", "pub", "-signature", "der", bundle.IndexName)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "Verified OK" {
		t.Errorf("%v: %s", err, out)
	}
}

func TestRequiredSignaturesAreChecked(t *testing.T) {
	vendor, site, stranger := newSigner(t), newSigner(t), newSigner(t)
	one := write(t, demo("one"), bundle.WriteOptions{Key: vendor.key})
	two := write(t, demo("two"), bundle.WriteOptions{Key: vendor.key})
	bare := write(t, demo("bare"), bundle.WriteOptions{})
	for name, row := range map[string]struct {
		archive   []byte
		trusted   []signer
		want      string // part of the error
		signer    *signer
		uncovered string
	}{
		"a package signed with the key":             {one, []signer{vendor}, "", &vendor, ""},
		"with one of several keys":                  {one, []signer{stranger, vendor}, "", &vendor, ""},
		"a package signed by another":               {one, []signer{stranger}, "another key signed it", nil, ""},
		"a package without signature":               {bare, []signer{vendor}, "it has no signature", nil, ""},
		"an archive and no keys":                    {one, nil, "not signed with a given key", nil, ""},
		"a bundle signed with the key":              {assembleWith(t, site.key, one, bare), []signer{site}, "", &site, ""},
		"a bundle signed by another":                {assembleWith(t, stranger.key, one), []signer{vendor}, "another key signed it", nil, ""},
		"an unsigned bundle of signed packages":     {assembleWith(t, nil, one, two), []signer{vendor}, "", nil, "install.sh"},
		"an unsigned bundle with a bare package":    {assembleWith(t, nil, one, bare), []signer{vendor}, "package bare 1.0.0 is not signed", nil, ""},
		"an unsigned bundle with another's package": {assembleWith(t, nil, one), []signer{site}, "package one 1.0.0 is not signed", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var keys []signature.PublicKey
			for _, s := range row.trusted {
				keys = append(keys, s.public)
			}
			got, err := open(t, row.archive).VerifySignature(keys...)
			if row.want != "" {
				if !errors.Is(err, bundle.ErrUntrusted) || !strings.Contains(err.Error(), row.want) {
					t.Errorf("got %v, want an error with %q", err, row.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			if row.signer != nil {
				want = row.signer.public.Fingerprint()
			}
			if got.Signer != want || strings.Join(got.Uncovered, " ") != row.uncovered {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestUnpackedBundleKeepsItsSignature(t *testing.T) {
	s := newSigner(t)
	data := assembleWith(t, s.key, write(t, demo("one"), bundle.WriteOptions{Key: s.key}))
	unpacked, err := bundle.Open(unpack(t, data))
	if err != nil {
		t.Fatal(err)
	}
	defer unpacked.Close()
	got, err := unpacked.VerifySignature(s.public)
	if err != nil || got.Signer != s.public.Fingerprint() || len(got.Packages) != 1 || got.Packages[0].Signer != got.Signer {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := unpacked.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAssemblerCannotChangeSignedPackages changes one field of a signed package in an unsigned bundle, and all digests with it.
func TestAssemblerCannotChangeSignedPackages(t *testing.T) {
	vendor := newSigner(t)
	const dir = "addons/one/1.0.0/"
	for name, row := range map[string]struct {
		change func(x *bundle.Index, unpacked string)
		want   string
	}{
		"nothing": {func(*bundle.Index, string) {}, ""},
		"a file's content": {func(x *bundle.Index, unpacked string) {
			data := []byte("rm -rf /\n")
			if err := os.WriteFile(filepath.Join(unpacked, dir, "Manifest"), data, 0o600); err != nil {
				t.Fatal(err)
			}
			f := bundle.BytesFile("", 0, data)
			e := entry(x, dir+"Manifest")
			e.SHA256, e.Size, e.Encoding, e.Length = f.SHA256, f.Size, bundle.Deflate, 1
		}, "different " + dir + "Manifest"},
		"a file's mode":     {func(x *bundle.Index, _ string) { entry(x, dir+"Manifest").Mode = 0o755 }, "different " + dir + "Manifest"},
		"an image's digest": {func(x *bundle.Index, _ string) { x.Packages[0].Images = []bundle.Image{{ID: "evil"}} }, "describes the package differently"},
		"one file less": {func(x *bundle.Index, _ string) {
			x.Entries = slices.DeleteFunc(x.Entries, func(e bundle.Entry) bool { return e.Path == dir+"empty" })
		}, "lacks " + dir + "empty"},
		"one file more": {func(x *bundle.Index, unpacked string) {
			if err := os.WriteFile(filepath.Join(unpacked, dir, "more"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			more := *entry(x, dir+"empty")
			more.Path = dir + "more"
			x.Entries = append(x.Entries, more)
		}, "adds 1 files"},
		"the package's index": {func(x *bundle.Index, _ string) { x.Packages[0].Index = strings.Repeat("0", 64) }, "index.json: content has sha256"},
	} {
		t.Run(name, func(t *testing.T) {
			unpacked := unpack(t, assembleWith(t, nil, write(t, demo("one"), bundle.WriteOptions{Key: vendor.key})))
			rewriteIndex(t, unpacked, row.change)
			a, err := bundle.Open(unpacked)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			_, trust := a.VerifySignature(vendor.public)
			for what, err := range map[string]error{"VerifySignature": trust, "Verify": a.Verify(t.Context())} {
				if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
					t.Errorf("%s: got %v, want %q", what, err, row.want)
				}
			}
		})
	}
}

func entry(x *bundle.Index, path string) *bundle.Entry {
	return &x.Entries[slices.IndexFunc(x.Entries, func(e bundle.Entry) bool { return e.Path == path })]
}

// rewriteIndex changes the index of an unpacked bundle and makes its offsets add up again.
func rewriteIndex(t *testing.T, unpacked string, change func(*bundle.Index, string)) {
	t.Helper()
	name := filepath.Join(unpacked, bundle.IndexName)
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var x bundle.Index
	if err := json.Unmarshal(data, &x); err != nil {
		t.Fatal(err)
	}
	change(&x, unpacked)
	var offset int64
	for i := range x.Entries {
		x.Entries[i].Offset = offset
		offset += x.Entries[i].Length
	}
	if data, err = json.Marshal(x); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFlippedByteAnywhereIsFound flips every third byte of a small signed bundle, one at a time, and looks whether tar's
// view of it or ours could differ unseen.
func TestFlippedByteAnywhereIsFound(t *testing.T) {
	s := newSigner(t)
	layer := randomBytes(5000)
	small := bundle.Package{Name: "a", Version: "1", Platforms: []string{"linux/amd64"}, Files: []bundle.File{
		bundle.BytesFile("addons/a/1/Manifest", 0o644, []byte("image app example.org/app:1\n")),
		bundle.BytesFile("addons/a/1/empty", 0o644, nil),
		bundle.BytesFile("addons/a/1/layer", 0o644, layer),
		bundle.BytesFile("addons/a/1/same", 0o644, layer),
		bundle.BytesFile("addons/a/1/text", 0o644, bytes.Repeat([]byte("text "), 500)),
	}}
	data := assembleWith(t, s.key, write(t, small, bundle.WriteOptions{Key: s.key}))
	within := bytes.Index(data, layer)
	for i := 0; i < len(data); i += 3 {
		if i > within+100 && i < within+len(layer)-100 { // one content is like another
			continue
		}
		broken := bytes.Clone(data)
		broken[i] ^= 0xff
		a, err := bundle.NewArchive(bytes.NewReader(broken), int64(len(broken)))
		if err == nil {
			_, err = a.VerifySignature(s.public)
		}
		if err == nil {
			err = a.Verify(t.Context())
		}
		if err == nil {
			t.Errorf("byte %d of %d flipped, and not found", i, len(data))
		}
	}
}

func TestUnsignedBundleIsNotTrusted(t *testing.T) {
	var out bytes.Buffer
	if _, err := bundle.WriteBundle(t.Context(), &out, bundle.Bundle{}); err != nil {
		t.Fatal(err)
	}
	if trust, err := open(t, out.Bytes()).VerifySignature(newSigner(t).public); !errors.Is(err, bundle.ErrUntrusted) {
		t.Errorf("an empty bundle: %+v, %v", trust, err)
	}
}
