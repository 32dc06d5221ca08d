package license_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/builder/license"
)

func TestTextsAreFoundByName(t *testing.T) {
	for name, want := range map[string]bool{
		"usr/share/doc/libssl3/copyright": true, "LICENSE": true, "/app/LICENSE.txt": true, "licenses/x/COPYING.LESSER": true, "go-runner.LICENSE": true,
		"a/LICENSE-MIT": true, "NOTICE": true, "usr/share/licenses/bash/whatever": true, "usr/share/common-licenses/GPL-2": true, "third_party_notices.txt": true,
		"license.go": false, "src/license/main.py": false, "usr/bin/licenses-of": true, "copyrighted": false, "usr/share/doc/bash/README": false, "LICENSE.gz": false,
	} {
		if license.IsText(name) != want {
			t.Errorf("%s: got %v", name, !want)
		}
	}
	if license.IsCommon("usr/share/doc/common-licenses/GPL-2") || !license.IsCommon("/usr/share/common-licenses/GPL-2") {
		t.Error("the folder of common licenses is another")
	}
}

// TestWordsOfLicensesAreKnown has the license of this repository.
func TestWordsOfLicensesAreKnown(t *testing.T) {
	text, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	if got := license.OfText(text); !slices.Equal(got, []string{"Apache-2.0"}) {
		t.Errorf("got %v", got)
	}
	if got := license.OfText(append(text, strings.Repeat("And our own conditions, of which there are many. ", 1000)...)); len(got) > 0 {
		t.Errorf("a text with other conditions is %v", got)
	}
	if got := license.OfText([]byte("All rights reserved.")); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}
