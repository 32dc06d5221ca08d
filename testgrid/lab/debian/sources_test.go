package debian_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/testgrid/lab/debian"
)

func TestOneLineSourcesAreParsed(t *testing.T) {
	tests := []struct {
		behaviour, text string
		want            []debian.Source
	}{
		{"a plain line", "deb http://mirror.example/debian bookworm main contrib\n",
			[]debian.Source{{URI: "http://mirror.example/debian", Suites: []string{"bookworm"}, Components: []string{"main", "contrib"}}}},
		{"options, of which the keyring counts", "deb [ arch=amd64 signed-by=/k.gpg ] http://mirror.example/debian bookworm main",
			[]debian.Source{{URI: "http://mirror.example/debian", Suites: []string{"bookworm"}, Components: []string{"main"}, SignedBy: "/k.gpg"}}},
		{"tabs, and a comment behind the line", "deb\thttp://mirror.example/debian\tbookworm\tmain # ours",
			[]debian.Source{{URI: "http://mirror.example/debian", Suites: []string{"bookworm"}, Components: []string{"main"}}}},
		{"a flat repository has no components", "deb file:/srv ./", []debian.Source{{URI: "file:/srv", Suites: []string{"./"}, Components: []string{}}}},
		{"comments, empty lines and source code are left out", "# deb http://a b main\n\ndeb-src http://mirror.example/debian bookworm main\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.behaviour, func(t *testing.T) {
			got, err := debian.ParseOneLine(strings.NewReader(tt.text))
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

func TestStanzaSourcesAreParsed(t *testing.T) {
	tests := []struct {
		behaviour, text string
		want            []debian.Source
	}{
		{"one stanza, field names in any case", "types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\nComponents: main\nSigned-By: /k.gpg\n",
			[]debian.Source{{URI: "http://mirror.example/debian", Suites: []string{"bookworm", "bookworm-updates"}, Components: []string{"main"}, SignedBy: "/k.gpg"}}},
		{"two URIs are two sources", "Types: deb deb-src\nURIs: http://a.example http://b.example\nSuites: sid\nComponents: main\n",
			[]debian.Source{{URI: "http://a.example", Suites: []string{"sid"}, Components: []string{"main"}},
				{URI: "http://b.example", Suites: []string{"sid"}, Components: []string{"main"}}}},
		{"stanzas are apart by empty lines; comments may be inside", "Types: deb\nURIs: http://a.example\n# why\nSuites: sid\n\n\nTypes: deb\nURIs: http://b.example\nSuites: sid\n",
			[]debian.Source{{URI: "http://a.example", Suites: []string{"sid"}, Components: []string{}}, {URI: "http://b.example", Suites: []string{"sid"}, Components: []string{}}}},
		{"values go on in indented lines", "Types: deb\nURIs: http://a.example\nSuites: sid\nComponents:\n main\n contrib\n",
			[]debian.Source{{URI: "http://a.example", Suites: []string{"sid"}, Components: []string{"main", "contrib"}}}},
		{"a key written into the file is not a path", "Types: deb\nURIs: http://a.example\nSuites: sid\nComponents: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQ\n",
			[]debian.Source{{URI: "http://a.example", Suites: []string{"sid"}, Components: []string{"main"}}}},
		{"disabled and source-code stanzas are left out", "Types: deb\nEnabled: no\nURIs: http://a.example\nSuites: sid\n\nTypes: deb-src\nURIs: http://a.example\nSuites: sid\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.behaviour, func(t *testing.T) {
			got, err := debian.ParseDeb822(strings.NewReader(tt.text))
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

func TestBrokenSourcesNameLine(t *testing.T) {
	for text, want := range map[string]string{
		"\ndeb http://mirror.example\n":         "line 2: a source needs a URI and a suite",
		"deb [arch=amd64 http://a.example x":    "line 1: the options have no closing bracket",
		"# first\n\ndeb [a=b] http://a.example": "line 3: a source needs a URI and a suite",
	} {
		if _, err := debian.ParseOneLine(strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%q: error is %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		" main\n":             "line 1: a continuation without a field before it",
		"Types: deb\nURIs\n":  "line 2: expected a field of the form Name: value",
		"Types: deb\n\n main": "line 3: a continuation without a field before it",
	} {
		if _, err := debian.ParseDeb822(strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%q: error is %v, want %s", text, err, want)
		}
	}
}

func TestAllSourceFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"sources.list":                    "deb http://a.example/debian bookworm main\n",
		"sources.list.d/debian.sources":   "Types: deb\nURIs: http://b.example\nSuites: sid\nComponents: main\n",
		"sources.list.d/vendor.list":      "deb http://c.example stable main\n",
		"sources.list.d/vendor.list.save": "deb http://d.example stable main\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sources, err := debian.Sources(dir)
	if err != nil {
		t.Fatal(err)
	}
	var uris []string
	for _, s := range sources {
		uris = append(uris, s.URI)
	}
	if diff := cmp.Diff([]string{"http://a.example/debian", "http://c.example", "http://b.example"}, uris); diff != "" {
		t.Error(diff)
	}
}

func TestDebianArchivesAreFoundAmongThirdParties(t *testing.T) {
	source := func(uri, suite string, components ...string) debian.Source {
		return debian.Source{URI: uri, Suites: []string{suite}, Components: components}
	}
	tests := []struct {
		behaviour string
		sources   []debian.Source
		want      debian.Archives
	}{
		{"main and security each from their own place",
			[]debian.Source{source("http://m.example/debian/", "bookworm", "main"), source("http://s.example/debian-security", "bookworm-security", "main")},
			debian.Archives{Main: "http://m.example/debian", Security: "http://s.example/debian-security"}},
		{"a vendor's repository comes first",
			[]debian.Source{source("https://vendor.example", "nodistro", "main"), source("https://cloud.example/apt", "cloud-sdk-bookworm", "main"), source("http://m.example/debian", "trixie", "main")},
			debian.Archives{Main: "http://m.example/debian", Security: "http://m.example/debian-security"}},
		{"a local folder cannot be mirrored",
			[]debian.Source{source("file:/srv/debian", "bookworm", "main"), source("http://m.example/debian", "bookworm", "main")},
			debian.Archives{Main: "http://m.example/debian", Security: "http://m.example/debian-security"}},
		{"the keyring of the archive is kept",
			[]debian.Source{{URI: "http://m.example/debian", Suites: []string{"bookworm", "bookworm-updates"}, Components: []string{"main"}, SignedBy: "/k.gpg"}},
			debian.Archives{Main: "http://m.example/debian", Security: "http://m.example/debian-security", Keyring: "/k.gpg"}},
	}
	for _, tt := range tests {
		t.Run(tt.behaviour, func(t *testing.T) {
			got, err := debian.MachineArchives(tt.sources)
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
	if _, err := debian.MachineArchives([]debian.Source{source("https://vendor.example", "nodistro", "main")}); err == nil {
		t.Error("a machine without Debian's archive is accepted")
	}
}

func TestMissingToolsAreNamedTogether(t *testing.T) {
	err := debian.CheckTools([]debian.Tool{{Program: "sh", Package: "dash"}, {Program: "no-such-program", Package: "zeta"}, debian.Installed("no-such-library"), {Program: "neither-this", Package: "zeta"}})
	if err == nil || !strings.HasSuffix(err.Error(), "apt-get install -y --no-install-recommends no-such-library zeta") {
		t.Errorf("error is %v", err)
	}
	if err := debian.CheckTools([]debian.Tool{{Program: "sh", Package: "dash"}, debian.Installed("dpkg"), debian.Installed("libc6")}); err != nil {
		t.Errorf("what is there counts as missing: %v", err)
	}
}

func FuzzParseOneLine(f *testing.F) {
	for _, seed := range []string{"deb http://a b main", "deb [signed-by=/k] http://a b", "deb [", "deb-src x", "#", "deb\t\t[]\t"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkSources(t, debian.ParseOneLine, data) })
}

func FuzzParseDeb822(f *testing.F) {
	for _, seed := range []string{"Types: deb\nURIs: http://a\nSuites: b\nComponents: main\n", "A:\n b\n", " x", "Types: deb\nURIs: a b\n\n", "Enabled: no"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkSources(t, debian.ParseDeb822, data) })
}

// checkSources holds for every input: a source that is accepted has a URI without spaces, and the archives follow from it.
func checkSources(t *testing.T, parse func(io.Reader) ([]debian.Source, error), data []byte) {
	sources, err := parse(bytes.NewReader(data))
	if err != nil {
		return
	}
	for _, s := range sources {
		if s.URI == "" || strings.ContainsAny(s.URI, " \t\n") {
			t.Errorf("URI is %q", s.URI)
		}
	}
	if a, err := debian.MachineArchives(sources); err == nil && (a.Main == "" || a.Security == "") {
		t.Errorf("archives are %+v", a)
	}
}
