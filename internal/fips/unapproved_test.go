package fips_test

import (
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/fips"
	"github.com/sealift/sealift/internal/testing/fixture"
)

func TestUnapprovedUsesAreRefusedByName(t *testing.T) {
	fixture.InFIPSMode(t, func(t *testing.T) {
		for use, name := range map[fips.Unapproved]string{fips.Snapshots: "age", fips.Secrets: "secretbox", fips.PrivateKeys: "cosign's format"} {
			err := use.Refuse()
			if err == nil || !strings.HasPrefix(err.Error(), name) || !strings.Contains(err.Error(), use.Algorithms()+", which FIPS 140-3 does not approve") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
