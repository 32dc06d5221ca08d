package adopt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/short"
)

func TestConsoleBesideSealiftIsKept(t *testing.T) {
	short.AsRoot(t, "keeping sealift-console")
	beside, root := t.TempDir(), t.TempDir()
	sealift, program := filepath.Join(beside, "sealift"), filepath.Join(beside, "sealift-console")
	if c, err := consoleOf(sealift, root); err != nil || c.from != "" {
		t.Errorf("without a console: %+v, %v", c, err)
	}
	if err := os.WriteFile(program, []byte("console"), 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := consoleOf(sealift, root)
	if err != nil || c.from != program || c.digest == "" {
		t.Fatalf("got %+v, %v", c, err)
	}
	if err := c.keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(root, "bin/sealift-console")
	text, err := os.ReadFile(kept)
	if info, failed := os.Stat(kept); err != nil || failed != nil || string(text) != "console" || info.Mode().Perm() != 0o755 {
		t.Errorf("kept %q, %v, %v", text, err, failed)
	}
	if err := os.Chown(program, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if _, err := consoleOf(sealift, root); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
		t.Errorf("a program of somebody else: %v", err)
	}
}
