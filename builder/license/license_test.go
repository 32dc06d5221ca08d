package license

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestCopyright(t *testing.T) {
	const machine = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: x\n\n"
	for name, row := range map[string]struct{ text, want string }{
		"names of all files, each once and in order": {machine + "Files: *\nLicense: GPL-2+\n text of it\n\nFiles: debian/*\nLicense: Expat\n\nFiles: a\nLicense: GPL-2+\n", "Expat|GPL-2+"},
		"of a header": {"Format: http://x/copyright-format/1.0/\nLicense: MIT\n", "MIT"},
		"what explains a name is not a use of it":   {machine + "Files: *\nLicense: GPL-2+\n\nLicense: GPL-2+\n text\n\nLicense: other\n", "GPL-2+"},
		"fields in any case, blanks at line ends":   {machine + "FILES: *  \r\nlicense:  BSD-3-clause  \r\n", "BSD-3-clause"},
		"a file for people":                         {"This package was debianized by\nLicense: GPL-2\n", ""},
		"an empty file":                             {"", ""},
		"an old form of the format's address":       {"Format-Specification: http://x\n\nFiles: *\nLicense: MIT\n", ""},
		"a paragraph of a file without its license": {machine + "Files: *\nCopyright: me\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(Copyright(row.text), "|"); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestExpression(t *testing.T) {
	for name, row := range map[string]struct{ said, want, refs string }{
		"Debian's short names":              {"GPL-2+", "GPL-2.0-or-later", ""},
		"and those of rpm":                  {"LGPLv2+ and GPLv3", "LGPL-2.0-or-later AND GPL-3.0-only", ""},
		"SPDX's own":                        {"MIT AND (Apache-2.0 OR BSD-3-Clause)", "MIT AND (Apache-2.0 OR BSD-3-Clause)", ""},
		"all of several hold":               {"GPL-2+ or Artistic|Expat", "(GPL-2.0-or-later OR Artistic-1.0) AND MIT", ""},
		"the same said twice":               {"MIT|Expat", "MIT", ""},
		"a name with a blank":               {"ASL 2.0", "Apache-2.0", ""},
		"names that SPDX does not have":     {"public-domain and BSD", "LicenseRef-public-domain AND LicenseRef-BSD", "LicenseRef-BSD=BSD LicenseRef-public-domain=public-domain"},
		"an exception is a license":         {"GPL-2+ with OpenSSL exception", "LicenseRef-GPL-2--with-OpenSSL-exception-a0de130f", "LicenseRef-GPL-2--with-OpenSSL-exception-a0de130f=GPL-2+ with OpenSSL exception"},
		"one that SPDX has is not":          {"GPL-2.0-only WITH Classpath-exception-2.0|GPL-3+ with GCC exception", "GPL-2.0-only WITH Classpath-exception-2.0 AND GPL-3.0-or-later WITH GCC-exception-3.1", ""},
		"capitals do not matter":            {"apache-2.0 AND mit", "Apache-2.0 AND MIT", ""},
		"names with blanks in expressions":  {"ASL 2.0 and (BSD with advertising or LGPLv2+)", "Apache-2.0 AND (BSD-4-Clause OR LGPL-2.0-or-later)", ""},
		"an unknown part of an expression":  {"GPLv2+ and LGPLv2+ with exceptions", "GPL-2.0-or-later AND LicenseRef-LGPLv2--with-exceptions-17ab3b43", "LicenseRef-LGPLv2--with-exceptions-17ab3b43=LGPLv2+ with exceptions"},
		"a reference stays one":             {"LicenseRef-Fedora-Public-Domain", "LicenseRef-Fedora-Public-Domain", "LicenseRef-Fedora-Public-Domain=LicenseRef-Fedora-Public-Domain"},
		"that there is none is not known":   {"NONE|unknown|NOASSERTION", "NOASSERTION", ""},
		"so is what cannot be taken apart":  {"GPL-2+ or Artistic, and BSD", "LicenseRef-GPL-2--or-Artistic--and-BSD-6e7ab2ab", "LicenseRef-GPL-2--or-Artistic--and-BSD-6e7ab2ab=GPL-2+ or Artistic, and BSD"},
		"parentheses that do not match":     {"(MIT", "LicenseRef--MIT-81cb5ffc", "LicenseRef--MIT-81cb5ffc=(MIT"},
		"two names that look alike as refs": {"x+y|x-y", "LicenseRef-x-y-cb4c3af7 AND LicenseRef-x-y", "LicenseRef-x-y-cb4c3af7=x+y LicenseRef-x-y=x-y"},
		"nothing":                           {"", "NOASSERTION", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, refs := Expression(strings.Split(row.said, "|"))
			if got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
			for id, name := range refs {
				if !strings.Contains(row.refs, id+"="+name) {
					t.Errorf("%s stands for %q, want %s", id, name, row.refs)
				}
			}
			if len(refs) == 0 != (row.refs == "") {
				t.Errorf("references %v, want %q", refs, row.refs)
			}
		})
	}
}

func TestDebLicenseIsRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("p/DEBIAN/control", "Package: demo\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n")
	write("p/usr/bin/demo", "#!/bin/sh\n")
	write("p/usr/share/doc/demo/copyright", "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nLicense: Expat\n")
	for _, compression := range []string{"xz", "zstd", "gzip", "none"} {
		name := filepath.Join(dir, compression+".deb")
		if out, err := exec.CommandContext(t.Context(), "dpkg-deb", "--root-owner-group", "-Z"+compression, "--build", filepath.Join(dir, "p"), name).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if got, err := OfDeb(t.Context(), f); err != nil || strings.Join(got, " ") != "Expat" {
			t.Errorf("%s: got %v, %v", compression, got, err)
		}
	}
	if _, err := OfDeb(t.Context(), strings.NewReader("not a package")); err == nil {
		t.Error("text passes for a package")
	}
}

// identifiers is the grammar of an expression as far as it is used here.
var identifiers = regexp.MustCompile(`^\(*[A-Za-z0-9.+-]+\)*( (AND|OR|WITH) \(*[A-Za-z0-9.+-]+\)*)*$`)

func FuzzExpression(f *testing.F) {
	for _, s := range []string{"GPL-2+ or Artistic", "((a) and b) or c", "GPL-2+, MIT", "a with b", "))((", "Ω"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, refs := Expression([]string{s})
		if !identifiers.MatchString(got) || strings.Count(got, "(") != strings.Count(got, ")") {
			t.Errorf("%q gives %q", s, got)
		}
		for id := range refs {
			if !strings.Contains(got, id) {
				t.Errorf("%q gives %q without %s", s, got, id)
			}
		}
	})
}

func FuzzOfDeb(f *testing.F) {
	member := func(name, content string) string {
		return fmt.Sprintf("%-16s%-12d%-6d%-6d%-8s%-10d`\n%s", name, 0, 0, 0, "100644", len(content), content)
	}
	f.Add("!<arch>\n" + member("debian-binary", "2.0\n") + member("data.tar", strings.Repeat("\x00", 1024)))
	f.Add("!<arch>\n" + member("data.tar.gz", "\x1f\x8b"))
	f.Add("!<arch>\n")
	f.Fuzz(func(t *testing.T, data string) {
		names, err := OfDeb(t.Context(), strings.NewReader(data))
		if err != nil && len(names) > 0 {
			t.Errorf("%v with the error %v", names, err)
		}
	})
}

func FuzzCopyright(f *testing.F) {
	f.Add("Format: x/copyright-format/1.0/\n\nFiles: *\nLicense: MIT\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range Copyright(text) {
			if name == "" || strings.ContainsAny(name, "\n\t") {
				t.Errorf("%q gives the name %q", text, name)
			}
		}
	})
}
