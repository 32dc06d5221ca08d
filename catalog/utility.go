package catalog

import (
	"path"
	"regexp"
	"strings"
)

// UtilityAddOn is the add-on that carries kURL's image of programs that add-ons run in pods. Hooks find the image's name in
// KURL_UTIL_IMAGE (kURL §1.5). No Manifest names the image.
const UtilityAddOn = "kurl-util"

// IsUtilityImage reports whether a reference names that image.
func IsUtilityImage(ref string) bool {
	name, _, _ := strings.Cut(path.Base(ref), ":")
	return name == UtilityAddOn
}

// pluginsWithUtility matches a list of plug-ins that ends with that image, as velero has it.
var pluginsWithUtility = regexp.MustCompile(`,\$\{?KURL_UTIL_IMAGE\b`)

// NeedsUtilityImage reports whether a script fails without that image: its list of plug-ins would have one without a name.
// Scripts that only move data from one storage to another do not need it, because Sealift does not move data.
func NeedsUtilityImage(script []byte) bool { return pluginsWithUtility.Match(script) }
