// Package hostpath decides where programs of a host are found, whatever shell started sealift.
package hostpath

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Folders are the folders of programs on every distribution, in the order of precedence, as a value of PATH.
const Folders = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Extended returns a value of PATH with Folders first and the other absolute folders of path behind them. The PATH of a caller can lack
// any of Folders: sudo of RHEL has no /usr/local/bin, su of Debian no /sbin. A folder relative to the working directory is omitted:
// programs there must not run as root.
func Extended(path string) string {
	folders := filepath.SplitList(Folders)
	for _, folder := range filepath.SplitList(path) {
		if filepath.IsAbs(folder) && !slices.Contains(folders, filepath.Clean(folder)) {
			folders = append(folders, filepath.Clean(folder))
		}
	}
	return strings.Join(folders, string(filepath.ListSeparator))
}

// Temporary directs temporary files of this process and its children to the system's folder if TMPDIR names a missing one, such as that
// of an ended session. It returns the name of that folder, or "".
func Temporary() (lost string, err error) {
	folder := os.Getenv("TMPDIR")
	if info, err := os.Stat(folder); folder == "" || err == nil && info.IsDir() {
		return "", nil
	}
	return folder, os.Unsetenv("TMPDIR")
}

// Extend gives this process, and the programs that it starts, the PATH of Extended.
func Extend() error { return os.Setenv("PATH", Extended(os.Getenv("PATH"))) }
