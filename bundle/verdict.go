package bundle

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sealift/sealift/bundle/parts"
	"github.com/sealift/sealift/bundle/verdict"
)

// Verdict returns the verdict about the archive that came with it, unverified. The error wraps fs.ErrNotExist if none did.
func (a *Archive) Verdict() (verdict.Signed, error) {
	if a.verdict == nil {
		return verdict.Signed{}, fmt.Errorf("a verdict of the bundle: %w", fs.ErrNotExist)
	}
	return a.verdict()
}

// SetVerdict sets how Verdict reads the verdict. An archive that Open opened reads the file of VerdictFile.
func (a *Archive) SetVerdict(read func() (verdict.Signed, error)) { a.verdict = read }

// VerdictFile returns where the verdict about an archive lies: for cluster.tar.gz, in cluster.verdict.json beside it. For a folder and for parts of
// an archive, it is verdict.json in the folder, the first one of several.
func VerdictFile(name string) string {
	if names := folders(name); len(names) > 0 {
		name = names[0]
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return filepath.Join(name, verdict.Name)
	}
	if parts.IsPart(name) {
		return filepath.Join(filepath.Dir(name), verdict.Name)
	}
	return Stem(name) + "." + verdict.Name
}

// Stem returns what the names of the files begin with that lie beside an archive, such as its evidence: its path without .tar.gz.
func Stem(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "/"), ".tar.gz"), ".tgz")
}
