package revert

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/share"
	"github.com/sealift/sealift/testgrid/pki"
)

func TestNothingGoesBackBeyondARotationOfTheCA(t *testing.T) {
	t.Parallel()
	file := filepath.Join(pki.New(t), "ca.crt")
	ca, err := share.ReadCA(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		file     string
		upgraded time.Time
		refused  bool
	}{
		"the CA of the upgrade": {file, ca.NotBefore.Add(time.Hour), false},
		"a CA made since":       {file, ca.NotBefore.Add(-time.Hour), true},
		"no CA":                 {file + ".none", ca.NotBefore, false},
	} {
		err := checkAuthority(row.file, row.upgraded)
		if (err != nil) != row.refused || row.refused && !strings.Contains(err.Error(), "were rotated since") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
