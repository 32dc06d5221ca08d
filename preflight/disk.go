package preflight

import (
	"context"
	"fmt"
	"strings"
)

// mount is the file system of a path: a part of it can be mounted read-only.
type mount struct {
	device   uint64
	readOnly bool
}

// disk adds up the space and the inodes that the paths on each file system need.
func (p probes) disk(_ context.Context, r *Reporter) {
	type demand struct {
		Filesystem
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
		at := mount{fs.ID, fs.ReadOnly}
		d := demands[at]
		if d == nil {
			d = &demand{Filesystem: fs}
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
		if d.Inodes > 0 && d.inodes > d.FreeInodes {
			r.Failf("remove small files that nobody needs, or mount a file system with more inodes there; df -i shows them", "%s: %d inodes needed, %d free", paths, d.inodes, d.FreeInodes)
			continue
		}
		if d.need > d.Free {
			r.Failf("free "+Size(d.need-d.Free)+", or mount a larger disk there", "%s: %s needed, %s free", paths, Size(d.need), Size(d.Free))
			continue
		}
		r.Passf("%s: %s needed, %s free", paths, Size(d.need), Size(d.Free))
	}
}

// Size formats a number of bytes in decimal units, as disks are sold.
func Size(n uint64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	value, unit := float64(n), 0
	for value >= 1000 && unit < len(units)-1 {
		value, unit = value/1000, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}
