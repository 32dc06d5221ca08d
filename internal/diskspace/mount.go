package diskspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// MountsVariable is the environment variable of a process that plans in a sandbox what another program will do outside of it. A service of
// systemd with ProtectSystem= sees most of the disk read-only. The variable names the host's mounts, in the format of proc_pid_mountinfo(5).
const MountsVariable = "SEALIFT_HOST_MOUNTS"

// HostMounts has the mounts of the host's first process. Only root may read it.
const HostMounts = "/proc/1/mountinfo"

// isWritableOnHost reports whether the host mounts a path for writing that this process sees read-only in its sandbox.
func isWritableOnHost(path string) bool {
	host := os.Getenv(MountsVariable)
	if host == "" {
		return false
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	var both [2][]*mountinfo.Info
	for n, file := range []string{"/proc/self/mountinfo", host} {
		f, err := os.Open(file)
		if err != nil {
			return false
		}
		both[n], err = mountinfo.GetMountsFromReader(f, nil)
		if f.Close() != nil || err != nil {
			return false
		}
	}
	return isWritable(path, both[0], both[1])
}

// isWritable compares the mounts that a process sees with those of the host: the path is on the same file system in both, and the host
// mounts it for writing.
func isWritable(path string, seen, host []*mountinfo.Info) bool {
	own, its := mountOf(path, seen), mountOf(path, host)
	if own == nil || its == nil || own.Major != its.Major || own.Minor != its.Minor {
		return false
	}
	return !slices.Contains(strings.Split(its.Options+","+its.VFSOptions, ","), "ro")
}

// mountOf returns the mount that has a path: of several at one place, the last one covers the others.
func mountOf(path string, mounts []*mountinfo.Info) (found *mountinfo.Info) {
	for _, m := range mounts {
		below := m.Mountpoint == path || strings.HasPrefix(path, strings.TrimSuffix(m.Mountpoint, "/")+"/")
		if below && (found == nil || len(m.Mountpoint) >= len(found.Mountpoint)) {
			found = m
		}
	}
	return found
}
