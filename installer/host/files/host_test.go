package files_test

import (
	"testing"

	"github.com/sealift/sealift/installer/host/files"
)

func TestHostFindsItsFilesBelowItsFolder(t *testing.T) {
	for _, row := range [][3]string{
		{"", "/etc/kubernetes/admin.conf", "/etc/kubernetes/admin.conf"},
		{"/", "etc/hosts", "/etc/hosts"},
		{"/srv/root/", "/etc/hosts", "/srv/root/etc/hosts"},
		{"/srv/root", "etc/../etc/hosts", "/srv/root/etc/hosts"},
	} {
		h := files.Host{Rootfs: row[0]}
		path := h.Path(row[1])
		if path != row[2] || h.Path(h.Name(path)) != path || h.Name(path)[0] != '/' {
			t.Errorf("%q has %q at %q, and calls it %q", row[0], row[1], path, h.Name(path))
		}
	}
}
