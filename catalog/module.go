package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// OperatorAddOn is the add-on that runs modules. A bundle with modules includes it, unless another of its add-ons provides
// ModuleOperator.
const OperatorAddOn = "operator"

// ModuleOperator is the capability of an add-on that runs modules. It installs after all of them.
const ModuleOperator = "module-operator"

// The parts of an add-on that is a module of addon-operator, beside its Manifest.
const (
	ChartFile    = "Chart.yaml"
	TemplatesDir = "templates"
	HooksDir     = "hooks"
	EnabledFile  = "enabled"
)

// IsModule reports whether the add-on in a folder is a module of addon-operator: it describes itself, and has a chart, hooks or an
// enabled script. kURL's add-ons are not modules, since they have no addon.yaml.
func IsModule(fsys fs.FS, dir string) bool {
	return has(fsys, dir, MetaFile) && (HasChart(fsys, dir) || has(fsys, dir, HooksDir) || has(fsys, dir, EnabledFile))
}

// HasChart reports whether a module has a chart. Chart.yaml may be missing.
func HasChart(fsys fs.FS, dir string) bool {
	return has(fsys, dir, MetaFile) && (has(fsys, dir, ChartFile) || has(fsys, dir, TemplatesDir))
}

func has(fsys fs.FS, dir, name string) bool {
	_, err := fs.Stat(fsys, path.Join(dir, name))
	return err == nil
}

var moduleName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// CheckModuleName returns why an operator does not start with a module of this name. The key of its values is the name in camel case.
func CheckModuleName(name string) error {
	switch {
	case !moduleName.MatchString(name):
		return fmt.Errorf("%q is not in kebab case; use lower-case letters and digits, and single dashes between them, such as cert-manager", name)
	case name == "global":
		return errors.New("its values key is the one of global values; rename the module")
	case strings.HasSuffix(name, "-enabled"), strings.HasSuffix(name, "-maintenance"):
		return errors.New("its values key is the one of a flag; rename the module")
	}
	return nil
}

// UtilityAddOn is the add-on that carries kURL's image of programs that add-ons run in pods. Hooks find the image's name in
// KURL_UTIL_IMAGE (kURL §1.5). No Manifest names the image.
const UtilityAddOn = "kurl-util"

// IsUtilityImage reports whether a reference names that image.
func IsUtilityImage(ref string) bool {
	name, _, _ := strings.Cut(path.Base(ref), ":")
	return name == UtilityAddOn
}

// pluginsWithUtility matches velero's list of plug-ins that ends with that image.
var pluginsWithUtility = regexp.MustCompile(`,\$\{?KURL_UTIL_IMAGE\b`)

// NeedsUtilityImage reports whether a script fails without that image: its list of plug-ins would have one without a name.
// Scripts that only move data from one storage to another do not need it, because Sealift does not move data.
func NeedsUtilityImage(script []byte) bool { return pluginsWithUtility.Match(script) }
