package bundle_test

import (
	"testing"

	"github.com/sealift/sealift/bundle"
)

func TestProgramsOfSeveralPlatformsAreSeparate(t *testing.T) {
	for name, want := range map[string]string{bundle.BinaryName: "bin/linux-arm64/sealift", bundle.PreflightName: "bin/linux-arm64/sealift-preflight"} {
		at := bundle.ProgramPath(name, "linux/arm64")
		if at != want || !bundle.IsProgram(name, at) || !bundle.IsProgram(name, name) {
			t.Errorf("%s is at %s", name, at)
		}
	}
	for _, other := range []string{"bin/linux-arm64/sealift-preflight", "bin/a/b/sealift", "sealift", "addons/bin/sealift", "bin/sealift/x"} {
		if bundle.IsProgram(bundle.BinaryName, other) {
			t.Errorf("%s counts as sealift", other)
		}
	}
}

func TestAssetsAreForPlatformInTheirName(t *testing.T) {
	both := []string{"linux/amd64", "linux/arm64"}
	for _, row := range []struct {
		asset     string
		platforms []string
		want      string
	}{
		{"kubelet-arm64", both, "linux/arm64"},
		{"cni-plugins-amd64.tgz", both, "linux/amd64"},
		{"tool_arm64", both, "linux/arm64"},
		{"kubelet", both, ""},
		{"harm64less", both, ""},
		{"kubelet-s390x", both, ""},
		{"kubelet-arm64", both[1:], ""}, // nothing is for one platform alone where there is one
	} {
		if got := (bundle.PackageInfo{}).Platform(bundle.Asset{Name: row.asset}, row.platforms); got != row.want {
			t.Errorf("%s among %v is for %q, want %q", row.asset, row.platforms, got, row.want)
		}
	}
}
