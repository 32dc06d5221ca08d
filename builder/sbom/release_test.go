package sbom_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spdx/tools-golang/json"

	"github.com/sealift/sealift/builder/sbom"
)

func TestReleaseHasEachModuleOnce(t *testing.T) {
	shared := sbom.Module{Path: "example.org/shared", Version: "v1.2.3+incompatible"}
	programs := []sbom.Program{
		{Name: "sealift", Arch: "amd64", SHA256: strings.Repeat("a", 64), Go: "go1.26.11", Modules: []sbom.Module{shared, {Path: "example.org/own", Version: "v0.1.0"}}},
		{Name: "sealift-node", Arch: "arm64", SHA256: strings.Repeat("b", 64), Go: "go1.26.11", Modules: []sbom.Module{shared}},
	}
	data, err := sbom.Release("v1.0.0", programs)
	if err != nil {
		t.Fatal(err)
	}
	document, err := json.Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	for _, p := range document.Packages {
		names[p.PackageName+" "+p.PackageVersion]++
	}
	for _, want := range []string{"sealift v1.0.0", "sealift-node v1.0.0", "example.org/shared v1.2.3+incompatible", "example.org/own v0.1.0", "stdlib go1.26.11"} {
		if names[want] != 1 {
			t.Errorf("%s is in the document %d times", want, names[want])
		}
	}
	if len(names) != 5 || len(document.Relationships) != 7 {
		t.Errorf("%d packages, %d relationships: %v", len(names), len(document.Relationships), names)
	}
	if !strings.Contains(string(data), "pkg:golang/example.org/shared@v1.2.3%2Bincompatible") {
		t.Error("the document does not escape the version in a package URL")
	}
	again, err := sbom.Release("v1.0.0", programs)
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("the same programs give another document: %v", err)
	}
}
