package builder_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/sealift/sealift/builder"
)

// TestFormatsAreStable compares the bytes of a lock and of its package with those of earlier builds. A commit that changes the
// digests here changes every user's lock and package.
func TestFormatsAreStable(t *testing.T) {
	w := newWorld(t, "debian-12")
	w.push(t, "one:1", layer(1, 1000), layer(2, 70_000))
	w.push(t, "two:1", layer(1, 1000))
	w.publish(t, "tool-amd64", "a program")
	dir := addOn(t, "demo", "# comment\nimage one registry.example.io/one:1 no_remote_load\nimage two registry.example.io/two:1\n"+
		"asset tool-{arch} https://files.example.com/tool-{arch}\nasset notes ./notes.txt\n")
	writeFile(t, filepath.Join(dir, "notes.txt"), "notes")
	b := w.builder(t, openCache(t), 2)
	if _, err := b.Lock(t.Context(), dir, builder.LockMissing); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(dir, "Manifest.lock"))
	if err != nil {
		t.Fatal(err)
	}
	const lockDigest, packageDigest = "8a81437874e9d4f568d5c805fc99568bf106c8bbd7c1198d615c74c9f435d609",
		"d437618e900930e8d08d5cd0ddaf23f4a47c1e3fceb478e6226e2a1538f9248d"
	if sum := sha256.Sum256(written); hex.EncodeToString(sum[:]) != lockDigest {
		t.Errorf("the lock has the digest %x:\n%s", sum, written)
	}
	if r := build(t, b, dir); r.SHA256 != packageDigest {
		t.Errorf("the package has the digest %s", r.SHA256)
	}
}
