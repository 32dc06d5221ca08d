package assemble

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"

	"github.com/sealift/sealift/bundle"
)

// maxHooks is the largest install.sh that is searched, in bytes.
const maxHooks = 1 << 20

// usesPreflight reports whether the nodes have work for sealift-preflight: checks of the Installer, or checks or collectors of
// an add-on. It is half of the smallest bundle's programs.
func (r Request) usesPreflight(archives []*bundle.Archive) (bool, error) {
	if _, ok := r.Installer.Section("kurl").Options["hostPreflights"]; ok || r.KeepPreflight {
		return true, nil
	}
	for _, a := range archives {
		info := a.Index.Packages[0]
		for _, name := range []string{"host-preflight.yaml", "troubleshoot.yaml"} {
			if _, ok := a.Entry(info.Dir() + "/" + name); ok {
				return true, nil
			}
		}
		hooks, err := a.ReadFile(info.Dir()+"/install.sh", maxHooks)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		// The hook may print paths of checks. One that is only mentioned costs a program too many.
		for _, name := range []string{info.Name, strings.ReplaceAll(info.Name, "-", "_")} {
			if bytes.Contains(hooks, []byte(name+"_preflights")) {
				return true, nil
			}
		}
	}
	return false, nil
}
