package packages

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeDpkg puts a dpkg into the PATH that says something and fails, but at its second call succeeds. Its calls are lines of a file.
func fakeDpkg(t *testing.T, says string) (calls string) {
	t.Helper()
	dir := t.TempDir()
	calls = filepath.Join(dir, "calls")
	write(t, filepath.Join(dir, "says"), says+"\n")
	write(t, filepath.Join(dir, "dpkg"), "#!/bin/sh\necho \"$*\" >>"+calls+"\n[ $(wc -l <"+calls+") -gt 1 ] || { cat "+dir+"/says >&2; exit 2; }\n")
	if err := os.Chmod(filepath.Join(dir, "dpkg"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return calls
}

// TestOnlyLocksOfOthersAreAwaited has what versions of dpkg say about locks, and other errors with the word in it.
func TestOnlyLocksOfOthersAreAwaited(t *testing.T) {
	for says, tries := range map[string]int{
		"dpkg: error: dpkg frontend lock was locked by another process with pid 4711\nNote: removing the lock file is always wrong":  2,
		"dpkg: error: dpkg frontend is locked by another process":                                                                    2,
		"dpkg: error: dpkg status database is locked by another process":                                                             2,
		"debconf: DbDriver \"config\": /var/cache/debconf/config.dat is locked by another process: Resource temporarily unavailable": 2,
		"dpkg: error processing archive /root/libblockdev3_3.0_amd64.deb (--unpack):\n unable to read block device":                  1,
		"dpkg: error processing package blocklists (--configure):\n installed blocklists package post-installation script failed":    1,
		"chattr: No block groups were locked by another process of mine\ndpkg: error: lock of the shelf is missing":                  1,
	} {
		t.Run(says, func(t *testing.T) {
			calls := fakeDpkg(t, says)
			err := APT{Output: io.Discard}.dpkg(t.Context(), "--unpack", "/root/libblockdev3_3.0_amd64.deb")
			if (err == nil) != (tries == 2) {
				t.Errorf("error %v", err)
			}
			if text, err := os.ReadFile(calls); err != nil || strings.Count(string(text), "\n") != tries {
				t.Errorf("dpkg was called %d times, want %d; %v", strings.Count(string(text), "\n"), tries, err)
			}
		})
	}
}
