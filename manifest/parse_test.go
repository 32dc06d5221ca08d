package manifest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
)

// ignoreOrigin compares what directives say, not where they stand.
var ignoreOrigin = cmpopts.IgnoreTypes(manifest.Origin{})

func kind(t testing.TB, keyword string) manifest.HostPackageKind {
	t.Helper()
	for _, k := range manifest.HostPackageKinds() {
		if k.Keyword == keyword {
			return k
		}
	}
	t.Fatalf("no package directive %s", keyword)
	return manifest.HostPackageKind{}
}

func TestParseReadsEveryForm(t *testing.T) {
	tests := map[string]struct {
		line string
		want manifest.Directive
	}{
		"image":                      {"image pause registry.k8s.io/pause:3.10", manifest.Image{ID: "pause", Ref: "registry.k8s.io/pause:3.10"}},
		"image kept off other nodes": {"image bcrypt epicsoft/bcrypt:latest no_remote_load", manifest.Image{ID: "bcrypt", Ref: "epicsoft/bcrypt:latest", NoRemoteLoad: true}},
		"asset with a name": {"asset runc https://example.com/v1/runc.amd64",
			manifest.Asset{Name: "runc", Source: "https://example.com/v1/runc.amd64"}},
		"asset named by its URL": {"asset https://example.com/v1%2Fa/kustomize%2Bv5.tar.gz?token=a/b",
			manifest.Asset{Name: "kustomize+v5.tar.gz", Source: "https://example.com/v1%2Fa/kustomize%2Bv5.tar.gz?token=a/b"}},
		"asset named by its path":           {"asset files/policy.yaml", manifest.Asset{Name: "policy.yaml", Source: "files/policy.yaml"}},
		"apt":                               {"apt nfs-common", manifest.HostPackage{Kind: kind(t, "apt"), Name: "nfs-common"}},
		"apt24":                             {"apt24 containerd", manifest.HostPackage{Kind: kind(t, "apt24"), Name: "containerd"}},
		"apt26":                             {"apt26 containerd", manifest.HostPackage{Kind: kind(t, "apt26"), Name: "containerd"}},
		"yum":                               {"yum nfs-utils", manifest.HostPackage{Kind: kind(t, "yum"), Name: "nfs-utils"}},
		"yum8":                              {"yum8 fio", manifest.HostPackage{Kind: kind(t, "yum8"), Name: "fio"}},
		"yum9":                              {"yum9 collectd", manifest.HostPackage{Kind: kind(t, "yum9"), Name: "collectd"}},
		"yum2023":                           {"yum2023 libzstd", manifest.HostPackage{Kind: kind(t, "yum2023"), Name: "libzstd"}},
		"yumol":                             {"yumol lvm2", manifest.HostPackage{Kind: kind(t, "yumol"), Name: "lvm2"}},
		"blanks and tabs between the words": {" \tyum\t\t fio  \t", manifest.HostPackage{Kind: kind(t, "yum"), Name: "fio"}},
		"chart of a registry": {"chart hello oci://ghcr.io/example/hello 1.2.3",
			manifest.Chart{Name: "hello", Repository: "oci://ghcr.io/example/hello", Version: "1.2.3", Namespace: "hello"}},
		"chart of a repository for a namespace": {"chart hello https://charts.example.com/stable v1.2.3-rc.1+build --namespace=kube-system",
			manifest.Chart{Name: "hello", Repository: "https://charts.example.com/stable", Version: "v1.2.3-rc.1+build", Namespace: "kube-system"}},
		"dockerout with kURL's bare version": {"dockerout rhel-8 addons/containerd/template/Dockerfile.centos8 1.6.22",
			manifest.Dockerout{Target: "rhel-8", Dockerfile: "addons/containerd/template/Dockerfile.centos8",
				BuildArgs: []manifest.BuildArg{{Name: "VERSION", Value: "1.6.22"}}}},
		"dockerout with build arguments": {"dockerout rhel-9 Dockerfile --build-arg=VERSION=1.2 --build-arg=BASE=a=b --build-arg=EMPTY=",
			manifest.Dockerout{Target: "rhel-9", Dockerfile: "Dockerfile",
				BuildArgs: []manifest.BuildArg{{Name: "VERSION", Value: "1.2"}, {Name: "BASE", Value: "a=b"}, {Name: "EMPTY"}}}},
		"dockerout with a version and more": {"dockerout rhel-9 Dockerfile 1.2 --build-arg=BASE=x",
			manifest.Dockerout{Target: "rhel-9", Dockerfile: "Dockerfile",
				BuildArgs: []manifest.BuildArg{{Name: "VERSION", Value: "1.2"}, {Name: "BASE", Value: "x"}}}},
		"dockerout with files of the repository": {"dockerout rhel-9 Dockerfile 1.2 --context=addons/a/files",
			manifest.Dockerout{Target: "rhel-9", Dockerfile: "Dockerfile", Context: "addons/a/files",
				BuildArgs: []manifest.BuildArg{{Name: "VERSION", Value: "1.2"}}}},
		"dockerout with files of the repository and no version": {"dockerout rhel-9 Dockerfile --context=.",
			manifest.Dockerout{Target: "rhel-9", Dockerfile: "Dockerfile", Context: "."}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			file, err := manifest.Parse("Manifest", strings.NewReader(test.line))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]manifest.Directive{test.want}, file.Directives(), ignoreOrigin); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestParseExplainsInvalidLine(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"unknown directive, near a known one": {"imagee a b:1", `m:1:1: error: unknown directive "imagee" (did you mean "image"?)`},
		"swapped letters":                     {"\n  atp fio", `m:2:3: error: unknown directive "atp" (did you mean "apt"?)`},
		"unknown directive, near none": {"snap core", `m:1:1: error: unknown directive "snap" ` +
			`(known: image, asset, chart, dockerout, apt, apt24, apt26, yum, yum8, yum9, yum2023, yumol)`},
		"directives are lower case":  {"Image a b:1", `m:1:1: error: unknown directive "Image" (did you mean "image"?)`},
		"image without a reference":  {"image pause", `m:1:1: error: image needs an id and a reference (write: image <id> <reference> [no_remote_load])`},
		"mistyped flag":              {"image a b:1 no_remote_laod", `m:1:13: error: unexpected "no_remote_laod" (did you mean "no_remote_load"?)`},
		"comment after an image":     {"image a b:1 # why", `m:1:13: error: unexpected "#" (put the comment on a line of its own)`},
		"flag given twice":           {"image a b:1 no_remote_load no_remote_load", `m:1:28: error: no_remote_load is repeated (write: image <id> <reference> [no_remote_load])`},
		"asset without a source":     {"asset", `m:1:1: error: asset needs a source (write: asset [<name>] <url or path>)`},
		"asset with a word too many": {"asset a b c", `m:1:11: error: unexpected "c" (write: asset [<name>] <url or path>)`},
		"asset whose URL has no file name": {"asset https://example.com/a/",
			`m:1:7: error: no file name can be taken from "https://example.com/a/": its path ends in a slash (write: asset <name> <url or path>)`},
		"package without a name": {"apt", `m:1:1: error: apt needs a package name (write: apt <package>)`},
		"several packages on a line": {"yum a  b c",
			`m:1:8: error: several packages on one line: a b c (give each package a line of its own; kURL takes the first and drops the others)`},
		"comment after a package": {"yum a #b", `m:1:7: error: unexpected "#b" (put the comment on a line of its own)`},
		"dockerout without a version": {"dockerout rhel-9 Dockerfile", `m:1:1: error: dockerout needs a target, a Dockerfile and a version ` +
			`(write: dockerout <target> <dockerfile> <version>, or --build-arg=NAME=value in place of the version)`},
		"build argument without a value": {"dockerout rhel-9 D --build-arg=VERSION", `m:1:20: error: "--build-arg=VERSION" is not a build argument ` +
			`(write: dockerout <target> <dockerfile> <version>, or --build-arg=NAME=value in place of the version)`},
		"a context that is not the last word": {"dockerout rhel-9 D --context=a 1", `m:1:20: error: "--context=a" is not the last word (give one, as the last word)`},
		"a context without a directory":       {"dockerout rhel-9 D 1 --context=", `m:1:22: error: "--context=" names no directory (give a path from the root of the repository)`},
		"build argument given twice":          {"dockerout rhel-9 D 1 --build-arg=VERSION=2", `m:1:22: error: build argument VERSION is given twice (keep one of them)`},
		"control character":                   {"apt fi\x00o", `m:1:7: error: unreadable character U+0000 (write plain UTF-8 text)`},
		"carriage return inside":              {"apt a\rapt b", `m:1:6: error: unreadable character U+000D (write plain UTF-8 text)`},
		"not UTF-8":                           {"apt \xff", `m:1:5: error: unreadable character U+FFFD (write plain UTF-8 text)`},
		"line too long":                       {"apt " + strings.Repeat("a", manifest.MaxLineSize), `m:1:1: error: line longer than 8192 bytes`},
		"file too large":                      {strings.Repeat("\n", manifest.MaxFileSize+1), `m: error: larger than 1048576 bytes (a Manifest lists what to fetch; is this the right file?)`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := manifest.Parse("m", strings.NewReader(test.text))
			if err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestWordsThatKURLDoesNotReadAreLeftOut(t *testing.T) {
	text := "yum a b # both\nimage a b:1 # the first\nimage c d:1 no_remote_load x\nasset f https://example.com/f sha256:x\ndockerout rhel-9 D 1 2\n"
	file, err := manifest.ParseKURL("m", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range file.Directives() {
		about := d.Describe()
		got = append(got, fmt.Sprint(d.Keyword(), " ", about.Name, " ", about.NoRemoteLoad))
	}
	want := []string{"yum a false", "image a false", "image c true", "asset f false", "dockerout rhel-9 false"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if _, err := manifest.ParseKURL("m", strings.NewReader("image a\nimag a b:1\n")); err == nil {
		t.Error("lines that kURL does not build are read")
	}
}

func TestParseReportsInvalidLinesAndKeepsValid(t *testing.T) {
	file, err := manifest.Parse("m", strings.NewReader("imag a b:1\napt fio\nasset\napt a b\n"))
	var errs diag.Errors
	if !errors.As(err, &errs) || len(errs) != 3 {
		t.Fatalf("got %v, want three errors", err)
	}
	want := []manifest.Directive{manifest.HostPackage{Kind: kind(t, "apt"), Name: "fio"}}
	if diff := cmp.Diff(want, file.Directives(), ignoreOrigin); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestParseSurvivesAnyInput(t *testing.T) {
	tests := map[string]struct {
		text       string
		directives int
	}{
		"an empty file":                  {"", 0},
		"only blank lines":               {"\n \n\t\n", 0},
		"no newline at the end":          {"apt a\napt b", 2},
		"CRLF line ends":                 {"apt a\r\n\r\napt b\r\n", 2},
		"comments, also after blanks":    {"# one\n  # two\n\t#three\napt a\n", 1},
		"a byte order mark":              {"\ufeffapt a\n", 1},
		"directives in any order":        {"yum a\nimage a b:1\nyum b\nasset a b\nimage c d:1\n", 5},
		"a directive commented out":      {"#image a b:1\n", 0},
		"characters beyond ASCII inside": {"asset größe.yaml files/größe.yaml\n", 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			file, err := manifest.Parse("m", strings.NewReader(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if got := len(file.Directives()); got != test.directives {
				t.Errorf("got %d directives, want %d", got, test.directives)
			}
		})
	}
}

func TestTypedListsKeepFileOrder(t *testing.T) {
	file, err := manifest.Parse("m", strings.NewReader("image b b:1\napt x\nimage a a:1\nasset f g\nyum x\ndockerout rhel-9 D 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := file.Images(); len(got) != 2 || got[0].ID != "b" || got[1].ID != "a" {
		t.Errorf("images: %v", got)
	}
	if got := file.HostPackages(); len(got) != 2 || got[0].Keyword() != "apt" || got[1].Keyword() != "yum" {
		t.Errorf("host packages: %v", got)
	}
	if a, d := file.Assets(), file.Dockerouts(); len(a) != 1 || len(d) != 1 || d[0].Position().Line != 6 {
		t.Errorf("assets %v, dockerouts %v", a, d)
	}
}

func TestPackageKindsReachTheirTargets(t *testing.T) {
	tests := map[string]struct{ reached, spared []string }{
		"apt":     {[]string{"debian-12", "debian-13", "ubuntu-18.04", "ubuntu-26.04"}, []string{"rhel-9", "debian", "amazon-2023"}},
		"apt24":   {[]string{"ubuntu-24.04"}, []string{"ubuntu-26.04", "ubuntu-22.04", "debian-12"}},
		"apt26":   {[]string{"ubuntu-26.04"}, []string{"ubuntu-24.04"}},
		"yum":     {[]string{"rhel-7", "rhel-7-force", "rhel-8", "rhel-9", "amazon-2023"}, []string{"ol-7", "debian-12"}},
		"yum8":    {[]string{"rhel-8"}, []string{"rhel-9", "rhel-7"}},
		"yum9":    {[]string{"rhel-9"}, []string{"rhel-8"}},
		"yum2023": {[]string{"amazon-2023"}, []string{"rhel-9"}},
		"yumol":   {[]string{"ol-7"}, []string{"rhel-7"}},
	}
	for keyword, test := range tests {
		t.Run(keyword, func(t *testing.T) {
			k := kind(t, keyword)
			for _, target := range test.reached {
				if !k.Reaches(target) {
					t.Errorf("does not reach %s", target)
				}
			}
			for _, target := range test.spared {
				if k.Reaches(target) {
					t.Errorf("reaches %s", target)
				}
			}
		})
	}
}
