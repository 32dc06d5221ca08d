package bundle

import (
	"path"
	"slices"
	"strings"
)

// ProgramPath returns the path of a program for nodes, BinaryName, PreflightName or ConsoleName, in a bundle with programs for several
// platforms, such as bin/linux-arm64/sealift. In a bundle with programs for one platform, the path is the name.
func ProgramPath(name, platform string) string {
	return path.Join(path.Dir(name), strings.ReplaceAll(platform, "/", "-"), path.Base(name))
}

// IsProgram reports whether a path in a bundle is that of a program, BinaryName, PreflightName or ConsoleName, for nodes of any platform.
func IsProgram(name, at string) bool {
	dir, base := path.Split(at)
	dir = path.Clean(dir)
	return base == path.Base(name) && (dir == path.Dir(name) || path.Dir(dir) == path.Dir(name))
}

// Program returns the program, BinaryName, PreflightName or ConsoleName, for nodes of a platform.
func (a *Archive) Program(name, platform string) (Entry, bool) {
	if e, ok := a.Entry(ProgramPath(name, platform)); ok {
		return e, true
	}
	return a.Entry(name)
}

// Platform returns the platform whose nodes alone use an asset of a package for several platforms, or "". Its name has the platform's
// architecture as a word: the builder demands that of a file that differs between platforms.
func (p PackageInfo) Platform(a Asset, platforms []string) string {
	if len(platforms) < 2 {
		return ""
	}
	words := strings.FieldsFunc(a.Name, func(r rune) bool { return strings.ContainsRune("-_.", r) })
	for _, platform := range platforms {
		if slices.Contains(words, strings.Split(platform, "/")[1]) {
			return platform
		}
	}
	return ""
}
