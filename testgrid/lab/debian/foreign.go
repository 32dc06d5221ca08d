package debian

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// FinishPath is where UnfinishedTree has the script that ends the installation.
const FinishPath = "debootstrap/finish"

// UnfinishedTree is MakeTree for another architecture, up to what needs a processor of that: the packages are downloaded and the first
// of them unpacked. A machine of that architecture ends it: its root runs FinishPath in the tree. It needs root.
func UnfinishedTree(ctx context.Context, dir, suite, arch string, packages []string) error {
	if err := debootstrap(ctx, dir, suite, packages, "--foreign", "--arch="+arch); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, FinishPath), []byte(finishScript(suite)), 0o755)
}

// finishScript configures all packages and does what neutralise does.
func finishScript(suite string) string {
	var s strings.Builder
	s.WriteString("#!/bin/sh\nset -e\nexport PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive\n")
	s.WriteString("/debootstrap/debootstrap --second-stage || { tail -n 30 /debootstrap/debootstrap.log; exit 1; }\n")
	files := neutralFiles(suite)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		s.WriteString("cat >/" + name + " <<'END'\n" + files[name] + "END\n")
	}
	for _, pattern := range leftovers() {
		s.WriteString("rm -rf /" + pattern + "\n")
	}
	return s.String()
}

// Unpack unpacks one of the packages that a tree has downloaded into another folder, without running its scripts.
func Unpack(ctx context.Context, tree, pattern, dir string) error {
	found, err := filepath.Glob(filepath.Join(tree, downloads, pattern))
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("the tree has %d packages %s, not one", len(found), pattern)
	}
	return unpack(ctx, found[0], dir)
}
