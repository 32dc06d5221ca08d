package license_test

import (
	"slices"
	"testing"

	"github.com/sealift/sealift/builder/license"
)

func TestUnavoidableForbiddenLicensesAreFound(t *testing.T) {
	forbidden := []string{"AGPL-3.0-only", "GPL-3.0-only", "LicenseRef-Odd", license.NoAssertion, "GPL-2.0-only WITH Classpath-exception-2.0"}
	for expression, want := range map[string][]string{
		"MIT":                                              nil,
		"AGPL-3.0-only":                                    {"AGPL-3.0-only"},
		"AGPL-3.0-or-later":                                nil,
		"MIT AND AGPL-3.0-only":                            {"AGPL-3.0-only"},
		"MIT OR AGPL-3.0-only":                             nil,
		"AGPL-3.0-only OR MIT":                             nil,
		"AGPL-3.0-only OR GPL-3.0-only":                    {"AGPL-3.0-only"},
		"(MIT OR GPL-3.0-only) AND ISC":                    nil,
		"(MIT AND GPL-3.0-only) OR ISC":                    nil,
		"ISC AND (MIT AND GPL-3.0-only)":                   {"GPL-3.0-only"},
		"LicenseRef-Odd AND GPL-3.0-only AND GPL-3.0-only": {"LicenseRef-Odd", "GPL-3.0-only"},
		"NOASSERTION":                                      {"NOASSERTION"},
		"":                                                 nil,
		"GPL-3.0-only WITH GCC-exception-3.1":              {"GPL-3.0-only"},
		"ISC OR GPL-2.0-only WITH Classpath-exception-2.0": nil,
		"GPL-2.0-only WITH Classpath-exception-2.0":        {"GPL-2.0-only WITH Classpath-exception-2.0"},
	} {
		if got := license.Forbidden(expression, forbidden); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", expression, got, want)
		}
	}
}

func TestIdentifiersMatchExpressions(t *testing.T) {
	for id, want := range map[string]bool{"MIT": true, "AGPL-3.0-or-later": true, "LicenseRef-x": true, "NOASSERTION": true, "AGPL-3": false, "Expat": false, "GPL-2.0-only WITH Classpath-exception-2.0": true, "": false} {
		if license.IsIdentifier(id) != want {
			t.Errorf("%s: got %v", id, !want)
		}
	}
}
