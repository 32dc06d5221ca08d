// Package debian provides what the lab takes from a Debian machine: installed programs, the package archive, and trees of a
// Debian system.
package debian

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Tool is a required program and the Debian package that contains it.
type Tool struct {
	Program string // looked up in PATH and in the folders for administrators; empty when a package has no program
	Package string
}

// The programs that the lab runs.
var (
	GCC         = Tool{"gcc", "gcc"}
	PkgConfig   = Tool{"pkg-config", "pkg-config"}
	CLibrary    = Tool{"", "libc6-dev"}
	Debootstrap = Tool{"debootstrap", "debootstrap"}
	Nspawn      = Tool{"systemd-nspawn", "systemd-container"}
	IPRoute     = Tool{"ip", "iproute2"}
	Nsenter     = Tool{"nsenter", "util-linux"}
	NFTables    = Tool{"nft", "nftables"}
	AptGet      = Tool{"apt-get", "apt"}
	MakeExt4    = Tool{"mkfs.ext4", "e2fsprogs"}
	QEMU        = Tool{"qemu-system-x86_64", "qemu-system-x86"}
	QEMUARM     = Tool{"qemu-system-aarch64", "qemu-system-arm"}
	CPIO        = Tool{"cpio", "cpio"}
	QEMUImage   = Tool{"qemu-img", "qemu-utils"}
	SSH         = Tool{"ssh", "openssh-client"}
)

// Triplet is the name of an architecture in the names of compilers and of folders with libraries, such as aarch64-linux-gnu of arm64.
func Triplet(arch string) string {
	if arch == "arm64" {
		arch = "aarch64"
	}
	return arch + "-linux-gnu"
}

// CrossCompiler is the C compiler for another architecture, and the C library of that.
func CrossCompiler(arch string) []Tool {
	return []Tool{{Triplet(arch) + "-gcc", "gcc-" + Triplet(arch)}, Installed("libc6-dev-" + arch + "-cross")}
}

// Installed is a package without a program, such as a library to link with.
func Installed(pkg string) Tool { return Tool{Package: pkg} }

// CheckTools fails if a tool is missing. The error says how to install all missing ones.
func CheckTools(tools []Tool) error {
	var missing []string
	for _, t := range tools {
		if !t.present() && !slices.Contains(missing, t.Package) {
			missing = append(missing, t.Package)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	list := strings.Join(missing, " ")
	return fmt.Errorf("the lab needs Debian packages that this machine lacks: %s; install them with: apt-get install -y --no-install-recommends %s", list, list)
}

func (t Tool) present() bool {
	if t.Program == "" {
		// dpkg keeps a list of files for each installed package; a multi-arch library has the architecture in its name.
		lists, _ := filepath.Glob("/var/lib/dpkg/info/" + t.Package + "*.list")
		return slices.ContainsFunc(lists, func(path string) bool {
			name := strings.TrimSuffix(filepath.Base(path), ".list")
			return name == t.Package || strings.HasPrefix(name, t.Package+":")
		})
	}
	if _, err := exec.LookPath(t.Program); err == nil {
		return true
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if info, err := os.Stat(filepath.Join(dir, t.Program)); err == nil && info.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}
