package hook

import (
	"embed"
	"io/fs"
	"os"
	"path/filepath"
)

// FrameworkDir is the variable with the folder of shell_lib.sh for hooks (S-18).
const FrameworkDir = "FRAMEWORK_DIR"

//go:embed shell_lib.sh frameworks/shell/*.sh
var shellLibrary embed.FS

// ShellLibrary is shell_lib.sh and the files in frameworks/shell that it sources, for the root of an image.
func ShellLibrary() fs.FS { return shellLibrary }

// WriteShellLibrary writes shell_lib.sh, which many hooks in bash source, and its files into a folder that hooks may read.
func WriteShellLibrary(dir string) error {
	return fs.WalkDir(shellLibrary, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := filepath.Join(dir, path)
		if entry.IsDir() {
			if err := os.MkdirAll(at, 0o755); err != nil {
				return err
			}
			return os.Chmod(at, 0o755) // hooks of another user also read it
		}
		data, err := shellLibrary.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(at, data, 0o644); err != nil {
			return err
		}
		return os.Chmod(at, 0o644)
	})
}
