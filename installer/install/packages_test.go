package install

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/preflight"
)

// TestHostPackagesAreSimulatedBeforeFirstChange takes only the index of a repository out of the bundle.
func TestHostPackagesAreSimulatedBeforeFirstChange(t *testing.T) {
	index := ""
	for _, p := range []string{"Package: sealift-plain", "Package: sealift-broken\nDepends: sealift-lacking"} {
		index += p + "\nVersion: 1.0\nArchitecture: all\nMaintainer: Nobody <nobody@example.org>\nDescription: a test\nFilename: ./x.deb\nSize: 1\n" + fmt.Sprintf("SHA256: %064d\n\n", 1)
	}
	var data bytes.Buffer
	const folder = "addons/kubernetes/1/packages/debian-12/"
	if _, err := bundle.WritePackage(t.Context(), &data, bundle.Package{Name: "kubernetes", Version: "1", Platforms: []string{"linux/amd64"}, Files: []bundle.File{
		bundle.BytesFile(folder+"Packages", 0o644, []byte(index)), bundle.BytesFile(folder+"x.deb", 0o644, []byte("never read")),
	}}, bundle.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	for manifest, want := range map[string]string{
		"":                    "none are to be installed",
		"apt sealift-plain\n": "sealift-plain can be installed",
		"apt sealift-plain\napt sealift-broken\n": "sealift-broken: sealift-broken Depends: sealift-lacking but it is not installable; remove or replace",
	} {
		i := made(t, with(t, "kubernetes", manifest))
		i.archive = openBundle(t, data.Bytes())
		check := func() string {
			t.Helper()
			report, err := preflight.Run(t.Context(), []preflight.Check{{Name: "host packages", Probe: i.packagesCheck}})
			if err != nil || len(report.Results) != 1 {
				t.Fatal(report, err)
			}
			return report.Results[0].String()
		}
		if got := check(); !strings.HasPrefix(got, "host packages: "+want) {
			t.Errorf("%q: got %s, want %s", manifest, got, want)
		}
		if manifest == "" {
			continue
		}
		for _, s := range i.plan {
			if s.ID == packagesStep {
				finished(t, i, lifecycle.Step{ID: s.ID, Inputs: s.Inputs}, nil)
			}
		}
		if got := check(); !strings.Contains(got, "none are to be installed") {
			t.Errorf("when they are there: %s", got)
		}
	}
}
