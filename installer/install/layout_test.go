package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sealift/sealift/internal/testing/fixture"
)

// hostileNames are names of folders that a shell or systemd would make something of.
var hostileNames = []string{
	"plain", "with space", "q$(touch OWNED)", "q`touch OWNED`", `it's "quoted"`, "$HOME", `back\slash`, "a;touch OWNED", "new\nline", "-n", "%h", "ünï*[?]", "'$(touch OWNED)'",
}

// TestHookProgramsFindTheirBinaryInAnyFolder runs the programs in $DIR/bin for a binary whose path is hostile.
func TestHookProgramsFindTheirBinaryInAnyFolder(t *testing.T) {
	for _, name := range hostileNames {
		t.Run(name, func(t *testing.T) {
			work := t.TempDir()
			root, folder := filepath.Join(work, "root"), filepath.Join(work, name)
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			binary := filepath.Join(folder, "sealift")
			if err := fixture.WriteProgram(binary, "#!/bin/sh\nprintf '[%s]' \"$@\"\n"); err != nil {
				t.Fatal(err)
			}
			if err := layOut(root, binary); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "kurl"), "an argument", "$(touch OWNED)")
			cmd.Dir = work
			out, err := cmd.CombinedOutput()
			if want := "[hook][kurl][an argument][$(touch OWNED)]"; err != nil || string(out) != want {
				t.Errorf("got %q, %v; want %q", out, err, want)
			}
			if _, err := os.Lstat(filepath.Join(work, "OWNED")); err == nil {
				t.Error("the name was executed")
			}
		})
	}
}
