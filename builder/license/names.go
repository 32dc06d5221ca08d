package license

import (
	"strings"
	"sync"

	"github.com/github/go-spdx/v2/spdxexp/spdxlicenses"
)

// known maps the names that packages use, in capitals, to SPDX identifiers. Names on SPDX's list map to themselves.
var known = sync.OnceValue(func() map[string]string {
	names := make(map[string]string)
	for _, list := range [][]string{spdxlicenses.GetDeprecated(), spdxlicenses.GetLicenses()} {
		for _, id := range list {
			names[strings.ToUpper(id)] = id
		}
	}
	for name, id := range map[string]string{
		"Expat": "MIT", "MIT/Expat": "MIT", "ASL 1.1": "Apache-1.1", "ASL 2.0": "Apache-2.0", "Apache-2": "Apache-2.0", "Apache 2.0": "Apache-2.0",
		"Artistic": "Artistic-1.0", "Artistic 2.0": "Artistic-2.0", "Artistic-2": "Artistic-2.0", "Artistic clarified": "ClArtistic",
		"BSD with advertising": "BSD-4-Clause", "Boost": "BSL-1.0", "CC0": "CC0-1.0", "ISC License": "ISC", "MPLv1.0": "MPL-1.0", "MPLv1.1": "MPL-1.1",
		"MPLv2.0": "MPL-2.0", "MPL-2": "MPL-2.0", "OFL": "OFL-1.1", "OpenLDAP": "OLDAP-2.8", "PSF-2": "PSF-2.0", "Python": "Python-2.0", "UPL": "UPL-1.0",
		"EPL-1": "EPL-1.0", "EPL-2": "EPL-2.0", "zlib/libpng": "Zlib", "GPL+": "GPL-1.0-or-later", "LGPL+": "LGPL-2.0-or-later",
	} {
		names[strings.ToUpper(name)] = id
	}
	for _, family := range []struct {
		name     string
		versions []string
	}{
		{"GPL", []string{"1.0", "2.0", "3.0"}}, {"LGPL", []string{"2.0", "2.1", "3.0"}}, {"AGPL", []string{"1.0", "3.0"}},
		{"GFDL", []string{"1.1", "1.2", "1.3"}},
	} {
		for _, version := range family.versions {
			only, later := family.name+"-"+version+"-only", family.name+"-"+version+"-or-later"
			for _, v := range []string{version, strings.TrimSuffix(version, ".0")} {
				for _, form := range []string{family.name + "-" + v, family.name + "v" + v, family.name + v} {
					names[strings.ToUpper(form)], names[strings.ToUpper(form)+"+"] = only, later
				}
			}
		}
	}
	return names
})

// exceptions maps the names of exceptions to licenses, in capitals, to SPDX identifiers.
var exceptions = sync.OnceValue(func() map[string]string {
	names := spdxlicenses.GetExceptionsMap()
	for name, id := range map[string]string{
		"Classpath exception": "Classpath-exception-2.0", "Font exception": "Font-exception-2.0", "Bison exception": "Bison-exception-2.2",
		"GCC exception": "GCC-exception-3.1", "Libtool exception": "Libtool-exception",
	} {
		names[strings.ToUpper(name)] = id
	}
	return names
})

// with joins a license and an exception to it in an expression.
const with = " WITH "

// identifier returns the SPDX identifier for a name, such as GPL-2.0-or-later for GPLv2+, or the two for a license with an exception. It
// returns "" for other names.
func identifier(name string) string {
	upper := strings.ToUpper(name)
	if id := known()[upper]; id != "" {
		return id
	}
	base, extra, found := strings.Cut(upper, with)
	if !found || known()[base] == "" || exceptions()[extra] == "" {
		return ""
	}
	return known()[base] + with + exceptions()[extra]
}
