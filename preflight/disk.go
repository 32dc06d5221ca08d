package preflight

import (
	"context"
	"strings"

	"github.com/sealift/sealift/internal/diskspace"
	"github.com/sealift/sealift/internal/plaintext"
)

// mount is the file system of a path: a part of it can be mounted read-only.
type mount struct {
	device   uint64
	readOnly bool
}

// programFolders have the programs of a node, and the scripts of Debian packages. The file systems of containers are mounts of their own.
func programFolders() []string {
	return []string{"/usr/local/bin", "/opt/cni/bin", "/var/lib/sealift", "/var/lib/dpkg"}
}

// noexec fails for the folders from which programs of the node cannot run.
func (p probes) noexec(r *Reporter) {
	for _, folder := range programFolders() {
		if fs, err := p.host.Disk(folder); err == nil && fs.NoExec {
			r.Failf("mount it without that option, for instance with 'mount -o remount,exec'; change it in /etc/fstab, too", "%s: on a file system that is mounted with noexec, and programs run from there", folder)
		}
	}
}

// disk adds up the space and the inodes that the paths on each file system need. It must be possible to write there, and to run programs.
func (p probes) disk(_ context.Context, r *Reporter) {
	p.noexec(r)
	type demand struct {
		diskspace.Space
		need, inodes uint64
		paths        []string
	}
	var order []mount
	demands := map[mount]*demand{}
	for _, space := range p.needs.Space {
		fs, err := p.host.Disk(space.Path)
		if err != nil {
			r.unknown(err)
			continue
		}
		at := mount{fs.Device, fs.ReadOnly}
		d := demands[at]
		if d == nil {
			d = &demand{Space: fs}
			demands[at] = d
			order = append(order, at)
		}
		d.need += space.Bytes
		d.inodes += space.Files
		d.paths = append(d.paths, space.Path)
	}
	for _, id := range order {
		d := demands[id]
		paths := strings.Join(d.paths, ", ")
		if d.ReadOnly && d.need > 0 {
			r.Failf("mount it for writing, for instance with 'mount -o remount,rw'", "%s: on a file system that is mounted read-only", paths)
			continue
		}
		if d.AllInodes > 0 && d.inodes > d.Inodes {
			r.Failf("remove small files that nobody needs, or mount a file system with more inodes there; df -i shows them", "%s: %d inodes needed, %d free", paths, d.inodes, d.Inodes)
			continue
		}
		if d.need > d.Bytes {
			r.Failf("free "+plaintext.Bytes(d.need-d.Bytes)+", or mount a larger disk there", "%s: %s needed, %s free", paths, plaintext.Bytes(d.need), plaintext.Bytes(d.Bytes))
			continue
		}
		r.Passf("%s: %s needed, %s free", paths, plaintext.Bytes(d.need), plaintext.Bytes(d.Bytes))
	}
}
