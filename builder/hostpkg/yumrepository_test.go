package hostpkg

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/testing/short"
)

// distribution builds a repository of 60 packages: each needs some of those before it by name, by version, by path or by
// what they provide, and p59 reaches all but two. None recommends another, since dnf download takes recommendations for
// needs.
func distribution(t *testing.T) *yumArchive {
	t.Helper()
	a := newYumArchive(t)
	packages := []rpmPackage{pkg("p0", "1.0-1").owns("/usr/bin/p0")}
	for i := 1; i < 59; i++ {
		p := pkg(fmt.Sprint("p", i), fmt.Sprintf("1.%d-1", i), fmt.Sprintf("Provides: capability(%d) = %d", i, i)).owns(fmt.Sprintf("/opt/p%d/data", i))
		before := i / 2
		switch i % 4 {
		case 0:
			p.lines = append(p.lines, fmt.Sprintf("Requires: p%d >= 1.%d", before, before))
		case 1:
			p.lines = append(p.lines, fmt.Sprintf("Requires: capability(%d) = %d", max(before, 1), max(before, 1)))
		case 2:
			p.lines = append(p.lines, fmt.Sprintf("Requires: /opt/p%d/data", max(before, 1)), "Requires: /usr/bin/p0")
		case 3:
			p.lines = append(p.lines, fmt.Sprintf("Requires: (p%d or absent)", before))
		}
		packages = append(packages, p)
	}
	whole := pkg("p59", "1.59-1", "Requires: webd")
	for i := 30; i < 57; i++ {
		whole.lines = append(whole.lines, fmt.Sprintf("Requires: p%d", i))
	}
	a.build(append(packages, whole)...)
	a.build(pkg("webd", "1.5-1", "ModularityLabel: web:1:1001:aaaa").owns("/etc/webd.conf"))
	a.build(pkg("webd", "2.5-1", "ModularityLabel: web:2:1002:bbbb"))
	a.publish(streams)
	return a
}

// unpackFiles writes the files of a repository and returns their folder.
func unpackFiles(t *testing.T, files []bundle.File) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, f.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		content, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(content)
		_ = content.Close()
		if err != nil || int64(len(data)) != f.Size {
			t.Fatalf("%s: %d bytes, %v; want %d", f.Path, len(data), err, f.Size)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// dnfCommand is dnf with only one repository and a private root.
func dnfCommand(t *testing.T, root, baseURL, keys string, args ...string) *exec.Cmd {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "dnf.conf")
	text := fmt.Sprintf("[main]\nreposdir=/dev/null\nmodule_platform_id=platform:el9\ncachedir=%s\npersistdir=%s\nlogdir=%s\n"+
		"install_weak_deps=False\ngpgcheck=1\nignorearch=1\n[test]\nname=test\nbaseurl=%s\ngpgkey=file://%s\n", t.TempDir(), t.TempDir(), t.TempDir(), baseURL, keys)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	// download is a plugin itself; of the others none may have a say.
	cmd := exec.Command("dnf", append([]string{"-c", conf, "--installroot", root, "--releasever", "9", "--forcearch", "x86_64", "-y", "-q",
		"--disableplugin=*", "--enableplugin=download"}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	return cmd
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s%s", cmd.Args, err, out, stderr.String())
	}
	return string(out)
}

func TestYumPackageMatchesDNFAndInstallsIntoEmptyRoot(t *testing.T) {
	short.Root(t, "dnf install")
	a := distribution(t)
	c := openCache(t)
	source := a.source(c)
	resolved, err := source.Resolve(t.Context(), a.target(), "x86_64", []string{"p59"})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("the set equals that of dnf download", func(t *testing.T) {
		cmd := dnfCommand(t, t.TempDir(), a.server.URL, a.keys, "download", "--resolve", "--alldeps", "--url", "p59")
		var want []string
		for address := range strings.FieldsSeq(output(t, cmd)) {
			want = append(want, yumUpstream+strings.TrimPrefix(address, a.server.URL+"/"))
		}
		slices.Sort(want)
		var got []string
		for _, r := range resolved {
			got = append(got, r.URL)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) || len(got) < 58 {
			t.Errorf("got %d\n%s\nwant %d\n%s", len(got), strings.Join(got, "\n"), len(want), strings.Join(want, "\n"))
		}
	})
	files, err := Repository("", resolved, c)
	if err != nil {
		t.Fatal(err)
	}
	dir := unpackFiles(t, files)
	keys := filepath.Join(dir, KeysDir, resolved[0].Key+".asc")
	t.Run("dnf install takes all of them from the package", func(t *testing.T) {
		root := t.TempDir()
		output(t, dnfCommand(t, root, "file://"+dir, keys, "install", "p59"))
		installed := strings.Fields(output(t, exec.Command("rpm", "--root", root, "-qa", "--qf", "%{NAME}=%{VERSION}-%{RELEASE}\n")))
		installed = slices.DeleteFunc(installed, func(s string) bool { return strings.HasPrefix(s, "gpg-pubkey=") })
		slices.Sort(installed)
		want := strings.Fields(listed(resolved))
		slices.Sort(want)
		if !slices.Equal(installed, want) {
			t.Errorf("installed %v\nwant %v", installed, want)
		}
		if data, err := os.ReadFile(filepath.Join(root, "etc/webd.conf")); err != nil || strings.TrimSpace(string(data)) != "webd" {
			t.Errorf("a file of a module's package: %q, %v", data, err)
		}
	})
	t.Run("dnf install refuses a package that the keys did not sign", func(t *testing.T) {
		stranger := newYumArchive(t).keys
		cmd := dnfCommand(t, t.TempDir(), "file://"+dir, stranger, "install", "p59")
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "GPG") {
			t.Errorf("got %v: %s", err, out)
		}
	})
	t.Run("the same packages give the same bytes", func(t *testing.T) {
		again, err := Repository("", resolved, c)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range again {
			if f.SHA256 != files[i].SHA256 || f.Path != files[i].Path {
				t.Errorf("%s differs", f.Path)
			}
		}
	})
}
