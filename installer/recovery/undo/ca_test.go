package undo_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/internal/testing/fixture"
)

func TestUndoSetNamesClusterCA(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	if set := h.keep(first); set.CA != "" {
		t.Errorf("without a CA: %q", set.CA)
	}
	file := filepath.Join(fixture.CA(t), "ca.crt")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := identity.ReadCA(file)
	if err != nil {
		t.Fatal(err)
	}
	h.write("/etc/kubernetes/pki/ca.crt", string(text), 0o644)
	h.keep(second)
	if set, err := h.Newest(); err != nil || set.CA != identity.CAHash(ca) {
		t.Errorf("%q, %v", set.CA, err)
	}
	h.Folder, h.Files = t.TempDir(), []string{"/etc/kubernetes/*.conf"}
	if set := h.keep(third); set.CA != "" {
		t.Errorf("a set of another operation: %q", set.CA)
	}
	h.Folder, h.Files = "", nil
	h.write("/etc/kubernetes/pki/ca.crt", "damaged", 0o644)
	if set, err := h.Keep(third, "1.35.4", time.Now()); err == nil {
		t.Errorf("with a damaged CA: %+v", set)
	}
}
