package manifest_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
	"github.com/sealift/sealift/manifest/repository"
)

func lint(t testing.TB, text string) string {
	t.Helper()
	findings, err := manifest.Lint("m", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return diag.Errors(findings).Error()
}

func TestLintFinds(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"nothing in a good file": {"image a quay.io/x/y:1\nimage b postgres:10.7\nimage c a@sha256:" + strings.Repeat("0", 64) +
			"\nimage d localhost:5000/x:1\nasset f https://example.com/f\nasset e-{arch} https://example.com/{arch}/e\nasset g files/g\napt g++\nyum NetworkManager\n" +
			"dockerout rhel-7-force a/Dockerfile 1\n", ""},
		"an image id twice": {"image a a:1\nimage b b:1\nimage a c:1", `m:3:7: error: image id "a" is already on line 1 (give each image an id of its own)`},
		"an image id with a slash": {"image a/b a:1",
			`m:1:7: error: bad image id "a/b" (it becomes a file name: letters, digits, '.', '_' and '-')`},
		"a bad reference": {"image a quay.io/UPPER:1", `m:1:9: error: bad image reference: could not parse reference: quay.io/UPPER:1 ` +
			`(write [registry/]repository:tag or @sha256:digest)`},
		"a reference without a tag": {"image a localhost:5000/x",
			`m:1:9: error: image reference "localhost:5000/x" has no tag (an implied latest is never the same image twice; name a tag or a digest)`},
		"the tag latest":      {"image a x:latest", `m:1:9: warning: tag latest means another image tomorrow (name a version)`},
		"an asset name twice": {"asset a x\nasset https://example.com/a", `m:2:7: error: asset "a" is already on line 1 (give each asset a name of its own)`},
		"an asset name with a folder": {"asset ../a https://example.com/a",
			`m:1:7: error: bad asset name "../a" (a plain file name: letters, digits, '.', '_', '+' and '-', no folders)`},
		"an asset that is a folder up": {"asset ..", `m:1:7: error: bad asset name ".." (a plain file name: letters, digits, '.', '_', '+' and '-', no folders)`},
		"an asset name with an escaped slash": {"asset https://example.com/x%2Fa",
			`m:1:7: error: bad asset name "x/a" (a plain file name: letters, digits, '.', '_', '+' and '-', no folders)`},
		"a URL without TLS": {"asset a http://example.com/a",
			`m:1:9: warning: anyone on the way can change what example.com sends; kURL takes only https for a URL (use https)`},
		"credentials in a URL": {"asset a https://ship:anchor@example.com/a",
			`m:1:9: error: URL of example.com has credentials, and a Manifest is in its package for all to read (give them to a mirror, in sealift.yaml)`},
		"an absolute path": {"asset env /proc/self/environ",
			`m:1:11: error: asset "/proc/self/environ" is a path of the machine that builds (give a path from the directory of the Manifest, within its repository)`},
		"a scheme that is not fetched":       {"asset a s3://bucket/a", `m:1:9: error: cannot fetch by s3 (use https, or a path to a local file)`},
		"a URL without a host":               {"asset a https:///a", `m:1:9: error: URL "https:///a" names no host (write https://host/path)`},
		"a URL that is none":                 {"asset a https://h/%zz", `m:1:9: error: bad URL: parse "https://h/%zz": invalid URL escape "%zz"`},
		"a package name in capitals for apt": {"apt NetworkManager", `m:1:5: error: bad package name "NetworkManager" (give the package's bare name)`},
		"a pinned package":                   {"apt fio=3.33-3", `m:1:5: error: bad package name "fio=3.33-3" (write "fio"; versions are chosen when the Manifest is resolved)`},
		"a package that is an option":        {"yum --nogpgcheck", `m:1:5: error: bad package name "--nogpgcheck" (give the package's bare name)`},
		"a package twice":                    {"apt a0\nyum a0\napt a0", `m:3:5: warning: apt package "a0" is already on line 1 (remove this line)`},
		"a target that is not a folder":      {"dockerout ../x D 1", `m:1:11: error: bad target "../x" (name an operating system, such as rhel-9)`},
		"a target that is not an operating system": {"dockerout output D 1",
			`m:1:11: warning: no host looks for its packages in "output" (name an operating system, such as rhel-9)`},
		"a Dockerfile outside":   {"dockerout rhel-9 a/../../D 1", `m:1:18: error: Dockerfile "a/../../D" is outside the repository (give a path from the root of the repository)`},
		"an absolute Dockerfile": {"dockerout rhel-9 /D 1", `m:1:18: error: Dockerfile "/D" is outside the repository (give a path from the root of the repository)`},
		"a context outside":      {"dockerout rhel-9 D 1 --context=../a", `m:1:22: error: context "../a" is outside the repository (give a path from the root of the repository)`},
		"a bad build argument":   {"dockerout rhel-9 D --build-arg=a-b=1", `m:1:20: error: bad name of a build argument "a-b" (letters, digits and '_')`},
		"a good chart":           {"chart a oci://h.example.com/x/a 1.2.3\nchart b https://h.example.com/charts v1.2.3-rc.1+a --namespace=kube-system", ""},
		"a chart name":           {"chart Hello oci://h.example.com/a 1 --namespace=a", `m:1:7: error: bad chart name "Hello" (lower-case letters, digits and '-', at most 53)`},
		"a chart twice":          {"chart a oci://h.example.com/a 1\nchart a https://h.example.com 2", `m:2:7: error: chart "a" is already on line 1 (give each chart a name of its own)`},
		"a range":                {"chart a oci://h.example.com/a ^1.2", `m:1:31: error: bad chart version "^1.2" (name one version, such as 1.2.3; a range is another chart tomorrow)`},
		"a chart with a tag":     {"chart a oci://h.example.com/a:1 1", `m:1:9: error: bad chart reference "oci://h.example.com/a:1" (write oci://registry/path/of/the/chart; the version is the next word)`},
		"a chart of a folder": {"chart a ../charts/a 1",
			`m:1:9: error: "../charts/a" is not a chart repository (use oci:// for a registry, https:// for a repository with an index.yaml)`},
		"a chart with a password": {"chart a https://u:p@h.example.com/ 1",
			`m:1:9: error: URL of h.example.com has credentials, and a Manifest is in its package for all to read (log in with docker login, or give them to a mirror in sealift.yaml)`},
		"a chart without TLS":  {"chart a http://h.example.com/ 1", `m:1:9: warning: anyone on the way can change what h.example.com sends (use https)`},
		"a chart with a query": {"chart a https://h.example.com/?a=b 1", `m:1:9: error: URL "https://h.example.com/?a=b" has a query or a fragment (write the URL of the directory that has index.yaml)`},
		"a chart without host": {"chart a https:///x 1", `m:1:9: error: URL "https:///x" names no host (write https://host/path)`},
		"a namespace":          {"chart a oci://h.example.com/a 1 --namespace=A", `m:1:33: error: bad namespace "A" (lower-case letters, digits and '-', at most 63)`},
		"a chart that lacks its version": {"chart a oci://h.example.com/a",
			`m:1:1: error: chart needs a name, a repository and a version (write: chart <name> <oci://registry/chart or https repository> <version> [--namespace=NAME])`},
		"a word too many for a chart": {"chart a oci://h.example.com/a 1 --namespace=a b",
			`m:1:47: error: unexpected "b" (write: chart <name> <oci://registry/chart or https repository> <version> [--namespace=NAME])`},
		"an unresolved placeholder": {"image a a:__A_VERSION__\nasset __NAME__ x",
			"m:1:9: error: unresolved placeholder __A_VERSION__ (fill it in, or keep the file in a folder called template)\n" +
				"m:2:7: error: unresolved placeholder __NAME__ (fill it in, or keep the file in a folder called template)"},
		"five different mistakes at once": {"imgae a a:1\nimage b b\n\n# fine\napt x y\nasset a/b c\nyum\n",
			"m:1:1: error: unknown directive \"imgae\" (did you mean \"image\"?)\n" +
				"m:2:9: error: image reference \"b\" has no tag (an implied latest is never the same image twice; name a tag or a digest)\n" +
				"m:5:7: error: several packages on one line: x y (give each package a line of its own; kURL takes the first and drops the others)\n" +
				"m:6:7: error: bad asset name \"a/b\" (a plain file name: letters, digits, '.', '_', '+' and '-', no folders)\n" +
				"m:7:1: error: yum needs a package name (write: yum <package>)"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := lint(t, test.text); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestLoadRefusesErrorsAndLetsWarningsPass(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "Manifest")
	write(t, path, "image a x:latest\n")
	if file, err := manifest.Load(path); err != nil || len(file.Images()) != 1 {
		t.Errorf("a warning: %v, %v", file, err)
	}
	write(t, path, "image a x\nimag b\n")
	_, err := manifest.Load(path)
	var errs diag.Errors
	if !errors.As(err, &errs) || len(errs) != 2 {
		t.Errorf("got %v, want an error of meaning and one of words", err)
	}
	if _, err := manifest.Load(filepath.Join(dir, "gone")); err == nil {
		t.Error("a missing file is not an error")
	}
}

func TestLintFindsPathsOutsideRepository(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "repo", "addons", "demo", "1.0")
	write(t, filepath.Join(base, "secret"), "TOKEN=hunter2\n")
	write(t, filepath.Join(base, "repo", "files", "a"), "a")
	write(t, filepath.Join(base, "repo", ".git", "config"), "TOKEN=hunter2\n")
	write(t, filepath.Join(dir, "Manifest"), "asset a ../../../files/a\nasset b ../../../../secret\nasset c link\nasset d ../../../.git/config\nasset e /etc/passwd\nasset f none\nasset g-{arch} tool-{arch}\n")
	for _, link := range []string{"link", "tool-arm64"} {
		if err := os.Symlink("../../../../secret", filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	findings, err := manifest.LintFile(filepath.Join(dir, "Manifest"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for _, f := range findings {
		lines = append(lines, f.Pos.Line)
	}
	slices.Sort(lines)
	if !slices.Equal(lines, []int{2, 3, 4, 5, 7}) {
		t.Errorf("got %v", findings)
	}
	linked := filepath.Join(dir, "linked.manifest")
	if err := os.Symlink("../../../../secret", linked); err != nil {
		t.Fatal(err)
	}
	findings, err = manifest.LintFile(linked)
	if err != nil || len(findings) != 1 || strings.Contains(findings[0].Error(), "hunter2") {
		t.Errorf("a Manifest that is a link: %v, %v", findings, err)
	}
	if _, err := manifest.Load(linked); !errors.Is(err, repository.ErrOutside) {
		t.Errorf("Load: %v", err)
	}
}
