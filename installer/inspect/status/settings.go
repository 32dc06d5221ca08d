package status

import (
	"errors"
	"io/fs"

	"github.com/sealift/sealift/preflight"
)

// Setting is one of the kernel without which pods reach nothing.
type Setting struct {
	Name string `json:"name"` // such as net.ipv4.ip_forward
	Is   string `json:"is"`
	// File is the line of a file that sets it: /etc/sysctl.conf:3. The install's own file wins over it at boot. "" means that it holds now.
	File string `json:"file,omitempty"`
}

// readSettings reads a host on which the install has set them.
func readSettings(root fs.FS) (found []Setting, err error) {
	if _, err := fs.Stat(root, "etc/sysctl.d/"+preflight.SysctlName); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	live, err := preflight.LiveSysctls(root)
	if err != nil {
		return nil, err
	}
	later, err := preflight.UnwantedSysctls(root, false)
	for _, s := range append(live, later...) {
		found = append(found, Setting{s.Name, s.Is, s.From})
	}
	return found, err
}
