package bundle_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/released"
)

// releasedNoise is content that is stored, as layers are. The numbers differ from byte to byte.
func releasedNoise() []byte {
	data := make([]byte, 6000)
	for i := range data {
		data[i] = byte(i * i >> 3)
	}
	copy(data, []byte{0x1f, 0x8b})
	return data
}

const releasedDir = "addons/greeter/1.0.0/"

// writeReleased writes a signed package and a signed bundle of it, and the key that verifies both.
func writeReleased(t *testing.T, file string) {
	key, public := fixture.SigningKey(t)
	p := write(t, bundle.Package{
		Name: "greeter", Version: "1.0.0", Platforms: []string{"linux/amd64"}, Targets: []string{"debian-12"},
		Files: []bundle.File{
			bundle.BytesFile(releasedDir+"Manifest", 0o644, []byte("image app example.org/app:1\n")),
			bundle.BytesFile(releasedDir+"install.sh", 0o755, bytes.Repeat([]byte("echo hello\n"), 100)),
			bundle.BytesFile(releasedDir+"empty", 0o644, nil),
			bundle.BytesFile(releasedDir+"images/layer", 0o644, releasedNoise()),
			bundle.BytesFile(releasedDir+"images/again", 0o644, releasedNoise()),
		},
	}, bundle.WriteOptions{Key: key})
	var whole bytes.Buffer
	if _, err := bundle.WriteBundle(t.Context(), &whole, bundle.Bundle{
		Members:  render(t, bundle.BytesFile("install.sh", 0o755, []byte("#!/bin/sh\n")), bundle.BytesFile("bin/sealift", 0o755, []byte("a program\n"))),
		Packages: []*bundle.Archive{open(t, p)}, Key: key,
	}); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(file)
	released.Put(t, filepath.Join(dir, "release.pub"), public.Marshal())
	released.Put(t, filepath.Join(dir, "package.tar.gz"), p)
	released.Put(t, filepath.Join(dir, "bundle.tar.gz"), whole.Bytes())
}

// TestArchivesOfReleasesAreRead: packages stay in stores for years, and bundles on carried disks.
func TestArchivesOfReleasesAreRead(t *testing.T) {
	released.Test(t, released.Format{Name: "package.tar.gz", Write: writeReleased, Read: func(t *testing.T, file string) {
		key, err := signature.ParsePublicKey(released.Data(t, filepath.Join(filepath.Dir(file), "release.pub")))
		if err != nil {
			t.Fatal(err)
		}
		readReleased(t, file, key)
		whole := readReleased(t, filepath.Join(filepath.Dir(file), "bundle.tar.gz"), key)
		if whole.Index.Kind != bundle.KindBundle || string(read(t, whole, "install.sh")) != "#!/bin/sh\n" || string(read(t, whole, "bin/sealift")) != "a program\n" {
			t.Errorf("the bundle has %+v", whole.Index)
		}
		if since, err := whole.Since(); err != nil || since == nil {
			t.Errorf("nothing can be added to the bundle: %v", err)
		}
	}})
}

// readReleased checks all of an archive with the package greeter.
func readReleased(t *testing.T, file string, key signature.PublicKey) *bundle.Archive {
	t.Helper()
	a, err := bundle.Open(file, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	if err := a.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	trust, err := a.VerifySignature(key)
	if err != nil || trust.Signer != key.Fingerprint() {
		t.Errorf("%+v %v", trust, err)
	}
	p, ok := a.Package("greeter", "1.0.0")
	if !ok || !slices.Equal(p.Targets, []string{"debian-12"}) || !slices.Equal(a.Index.Platforms, []string{"linux/amd64"}) {
		t.Errorf("%+v", a.Index)
	}
	for name, want := range map[string]string{
		"Manifest": "image app example.org/app:1\n", "empty": "", "install.sh": string(bytes.Repeat([]byte("echo hello\n"), 100)),
		"images/layer": string(releasedNoise()), "images/again": string(releasedNoise()),
	} {
		if got := string(read(t, a, releasedDir+name)); got != want {
			t.Errorf("%s has %d bytes, not %d", name, len(got), len(want))
		}
	}
	if e, _ := a.Entry(releasedDir + "install.sh"); e.Mode != 0o755 {
		t.Errorf("install.sh has mode %o", e.Mode)
	}
	unpack(t, released.Data(t, file))
	return a
}
