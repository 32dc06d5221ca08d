package upstream

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
	"golang.org/x/mod/module"
	"pault.ag/go/debian/version"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/catalog/origin"
)

// numbered matches a version of kURL's order: a number, alone or with more behind a separator. A commit is not one.
var numbered = regexp.MustCompile(`^v?[0-9]+([.+_-].*)?$`)

// judge reports whether a tag is a version in an order, and whether it is a pre-release.
func judge(order origin.Order, tag string) (preRelease, ok bool) {
	switch order {
	case origin.SemVer:
		v, err := semver.StrictNewVersion(strings.TrimPrefix(tag, "v"))
		return err == nil && v.Prerelease() != "" && !pseudo(tag), err == nil
	case origin.Debian:
		_, err := version.Parse(tag)
		return strings.Contains(tag, "~rc") || strings.Contains(tag, "~beta") || strings.Contains(tag, "~alpha"), err == nil
	}
	return catalog.Unstable(tag), numbered.MatchString(tag)
}

// pseudo reports whether a version is what Go calls a commit without a tag.
func pseudo(tag string) bool { return module.IsPseudoVersion("v" + strings.TrimPrefix(tag, "v")) }

// compare is negative if a is older than b. If the order cannot read one of them, it compares them as kURL does.
func compare(order origin.Order, a, b string) int {
	switch order {
	case origin.SemVer:
		x, errX := semver.StrictNewVersion(strings.TrimPrefix(a, "v"))
		y, errY := semver.StrictNewVersion(strings.TrimPrefix(b, "v"))
		if errX == nil && errY == nil {
			return cmp.Or(x.Compare(y), catalog.CompareVersions(x.Metadata(), y.Metadata()))
		}
	case origin.Debian:
		x, errX := version.Parse(a)
		y, errY := version.Parse(b)
		if errX == nil && errY == nil {
			return version.Compare(x, y)
		}
	}
	return catalog.CompareVersions(a, b)
}

// lineOf returns the name of a version's line, such as 1.36, and "" if there are no lines. A version without two numbers is a line of
// its own.
func lineOf(l origin.Line, version string) string {
	major, minor := catalog.MajorMinor(strings.TrimPrefix(version, "v"))
	switch {
	case l == "":
		return ""
	case major < 0:
		return version
	case l == origin.MajorLine:
		return strconv.Itoa(major)
	}
	return fmt.Sprintf("%d.%d", major, minor)
}
