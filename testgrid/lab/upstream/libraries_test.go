package upstream

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// The lab shares what is compiled with Sealift's programs only where both have the same versions.
func TestLibrariesAreThoseOfSealift(t *testing.T) {
	const name = "../../../go.mod"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.ParseLax(name, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, r := range file.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	var want strings.Builder
	for line := range strings.Lines(libraries) {
		if module, _, ok := strings.Cut(line, " v"); ok && !strings.HasPrefix(line, "#") {
			if versions[module] == "" {
				continue
			}
			line = module + " " + versions[module] + "\n"
		}
		want.WriteString(line)
	}
	if want.String() == libraries {
		return
	}
	if os.Getenv("SEALIFT_WRITE_LIBRARIES") != "" {
		if err := os.WriteFile("libraries.txt", []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Errorf("libraries.txt has other versions than go.mod; run SEALIFT_WRITE_LIBRARIES=yes go test -run TestLibraries ./testgrid/lab/upstream")
}
