package license

import (
	"path"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// MaxText is the largest text of a license that is read, in bytes. The texts of a large browser's parts have ten million.
const MaxText = 16 << 20

// coverage is how much of a file known texts must cover for it to be the text of licenses, in percent. pkg.go.dev asks for as much.
const coverage = 75

// textNames are the prefixes of names of files with licenses and notices. They may also follow a dash or a dot.
func textNames() []string {
	return []string{"license", "licence", "licenses", "licences", "unlicense", "copying", "copyright", "notice", "notices"}
}

// IsText reports whether a file has the text of a license or a notice, by its path: the copyright file of a Debian package, what lies in
// /usr/share/licenses and /usr/share/common-licenses, and files that are named as usual, such as LICENSE.txt, COPYING.LESSER or tool.NOTICE.
func IsText(name string) bool {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if strings.HasPrefix(name, "usr/share/licenses/") || IsCommon(name) {
		return true
	}
	base := strings.ToLower(path.Base(name))
	if slices.Contains([]string{".go", ".py", ".pyc", ".js", ".mjs", ".ts", ".map", ".json", ".yaml", ".yml", ".h", ".hpp", ".c", ".cc", ".o", ".so", ".rb", ".pl", ".pm", ".sh",
		".class", ".java", ".jar", ".gz", ".xz", ".bz2", ".zip", ".png", ".svg", ".css", ".lua", ".rs", ".exe"}, path.Ext(base)) {
		return false
	}
	for _, end := range []string{".txt", ".md", ".rst", ".html"} {
		base = strings.TrimSuffix(base, end)
	}
	words := strings.FieldsFunc(base, func(r rune) bool { return r == '-' || r == '.' || r == '_' })
	return len(words) > 0 && (slices.Contains(textNames(), words[0]) || slices.Contains(textNames(), words[len(words)-1]))
}

// IsCommon reports whether a file is in the folder where Debian has the texts that copyright files refer to. That they are there says nothing
// about the software in an image.
func IsCommon(name string) bool {
	return strings.HasPrefix(strings.TrimPrefix(path.Clean("/"+name), "/"), "usr/share/common-licenses/")
}

// OfText returns the names of the licenses whose words a text has, in order, or nothing if it has many others, too.
func OfText(text []byte) []string {
	found := licensecheck.Scan(text)
	if found.Percent < coverage {
		return nil
	}
	var names []string
	for _, m := range found.Match {
		names = append(names, m.ID)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
