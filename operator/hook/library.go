package hook

import (
	"bytes"
	_ "embed"
	"os"
	"path/filepath"
)

// FrameworkDir is the variable that tells hooks where shell_lib.sh lies (S-18).
const FrameworkDir = "FRAMEWORK_DIR"

//go:embed shell_lib.sh
var shellLibrary []byte

// ShellLibrary is shell_lib.sh, for an image that has it at its root.
func ShellLibrary() []byte { return bytes.Clone(shellLibrary) }

// WriteShellLibrary puts shell_lib.sh, which many hooks in bash source, into a folder that hooks may read.
func WriteShellLibrary(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil { // hooks of another user read it, too
		return err
	}
	return os.WriteFile(filepath.Join(dir, "shell_lib.sh"), shellLibrary, 0o644)
}
