package packages

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/short"
)

// yumRepository makes a signed repository with tool, which needs libtool.
func yumRepository(t *testing.T) (dir string) {
	t.Helper()
	work, dir := t.TempDir(), filepath.Join(t.TempDir(), "a folder", "1.0", "packages", "test-9")
	gnupg, err := os.MkdirTemp("", "gnupg-") // gpg's sockets need a short path
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) []byte {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "GNUPGHOME="+gnupg, "HOME="+work)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %v: %v: %s%s; apt-get install dnf rpm createrepo-c", name, args, err, out, stderr.String())
		}
		return out
	}
	t.Cleanup(func() {
		run("gpgconf", "--kill", "all")
		_ = os.RemoveAll(gnupg)
	})
	const spec = `Name: tool
Version: 1.0
Release: 1
Summary: tool
License: MIT
BuildArch: noarch
Requires: libtool = 1.0
Recommends: extras
%description
tool
%package -n libtool
Summary: libtool
%description -n libtool
libtool
%package -n extras
Summary: extras
%description -n extras
extras
%install
mkdir -p %{buildroot}/etc
echo tool > %{buildroot}/etc/tool.conf
%files
/etc/tool.conf
%files -n libtool
%files -n extras
`
	file := filepath.Join(work, "tool.spec")
	if err := os.WriteFile(file, []byte(spec), 0o644); err != nil {
		t.Fatal(err)
	}
	run("rpmbuild", "-bb", "--quiet", "--define", "_topdir "+work, "--define", "_rpmdir "+filepath.Join(work, "out"), "--define", "_rpmfilename %%{NAME}.rpm", file)
	if err := os.MkdirAll(filepath.Join(dir, "keys"), 0o755); err != nil {
		t.Fatal(err)
	}
	gpg, err := exec.LookPath("gpg")
	if err != nil {
		t.Fatal(err)
	}
	run("gpg", "--batch", "--passphrase", "", "--quick-generate-key", "host@example.com", "ed25519", "sign", "never")
	for _, name := range []string{"tool", "libtool", "extras"} {
		run("rpmsign", "--addsign", "--define", "_gpg_name host@example.com", "--define", "__gpg "+gpg, filepath.Join(work, "out", name+".rpm"))
		run("mv", filepath.Join(work, "out", name+".rpm"), dir)
	}
	if err := os.WriteFile(filepath.Join(dir, "keys", "key.asc"), run("gpg", "--export", "--armor"), 0o644); err != nil {
		t.Fatal(err)
	}
	run("createrepo_c", "--quiet", "--no-database", dir)
	return dir
}

func installed(t *testing.T, root string) string {
	t.Helper()
	out, err := exec.Command("rpm", "--root", root, "-qa", "--qf", "%{NAME}\n").Output()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range []string{"extras", "libtool", "tool"} {
		for line := range strings.Lines(string(out)) {
			if strings.TrimSpace(line) == name {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, " ")
}

func TestDNFInstallsFromFolder(t *testing.T) {
	short.Root(t, "installing packages")
	repository := yumRepository(t)
	t.Run("what is named, and what that depends on, checked against the keys", func(t *testing.T) {
		var said bytes.Buffer
		d := DNF{Dir: t.TempDir(), Repositories: []string{repository}, Root: t.TempDir(), Output: &said}
		for range 2 { // the second time nothing is left to do
			if err := d.Install(t.Context(), []string{"tool"}); err != nil {
				t.Fatalf("%v\n%s", err, said.String())
			}
		}
		if got := installed(t, d.Root); got != "libtool tool" {
			t.Errorf("installed %s", got)
		}
		if data, err := os.ReadFile(filepath.Join(d.Root, "etc/tool.conf")); err != nil || string(data) != "tool\n" {
			t.Errorf("its file is %q, %v", data, err)
		}
	})
	t.Run("an unknown package is named", func(t *testing.T) {
		d := DNF{Dir: t.TempDir(), Repositories: []string{repository}, Root: t.TempDir(), Output: &bytes.Buffer{}}
		if err := d.Install(t.Context(), []string{"nope"}); err == nil || !strings.Contains(err.Error(), "nope") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("without the keys nothing is installed", func(t *testing.T) {
		if err := os.RemoveAll(filepath.Join(repository, "keys")); err != nil {
			t.Fatal(err)
		}
		d := DNF{Dir: t.TempDir(), Repositories: []string{repository}, Root: t.TempDir(), Output: &bytes.Buffer{}}
		if err := d.Install(t.Context(), []string{"tool"}); err == nil || !strings.Contains(err.Error(), "GPG") {
			t.Errorf("got %v", err)
		}
		if got := installed(t, d.Root); got != "" {
			t.Errorf("installed %s", got)
		}
	})
}

func TestRepositoriesNameTheirOwner(t *testing.T) {
	folder := func(index string) string {
		dir := t.TempDir()
		file := filepath.Join(dir, index)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for name, row := range map[string]struct {
		repositories []string
		want         string
	}{
		"one that has no index":    {[]string{t.TempDir()}, "is not a repository of packages"},
		"two of different systems": {[]string{folder(AptIndex), folder(YumIndex)}, "of two kinds"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Manager{Dir: t.TempDir(), Repositories: row.repositories, Output: &bytes.Buffer{}}.Install(t.Context(), []string{"tool"})
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

// TestPackagesAreThoseOfTheHostsFamily: hosts of Red Hat's family have dpkg as a package, with an empty database of its own, and those of
// Debian's have rpm.
func TestPackagesAreThoseOfTheHostsFamily(t *testing.T) {
	const rpm = "[ \"$2\" != --all ] || printf 'socat.x86_64\t0:1.7-1\n'\n"
	for name, row := range map[string]struct {
		programs map[string]string
		want     string
	}{
		"Red Hat's with dpkg": {map[string]string{"dpkg-query": "[ \"$2\" != dpkg ]\n", "rpm": rpm}, "socat.x86_64"},
		"Red Hat's":           {map[string]string{"rpm": rpm}, "socat.x86_64"},
		"Debian's with rpm":   {map[string]string{"dpkg-query": "printf 'ii \tlibc6:amd64\t2.36\\n'\n", "rpm": "exit 0\n"}, "libc6:amd64"},
		"Debian's":            {map[string]string{"dpkg-query": "printf 'ii \tlibc6:amd64\t2.36\\n'\n"}, "libc6:amd64"},
		"neither":             {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for program, script := range row.programs {
				if err := fixture.WriteProgram(filepath.Join(dir, program), "#!/bin/sh\n"+script); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", dir)
			there, err := Installed(t.Context())
			if got := strings.Join(slices.Collect(maps.Keys(there)), " "); err != nil || got != row.want {
				t.Errorf("got %q, %v; want %q", got, err, row.want)
			}
		})
	}
}

func TestMissingPackagesAreNamedWithoutArchitecture(t *testing.T) {
	for _, row := range []struct {
		database   database
		name, want string
	}{
		{dpkgDatabase{}, "libc6:amd64", "libc6"}, {dpkgDatabase{}, "python3.11", "python3.11"},
		{rpmDatabase{}, "socat.x86_64", "socat"}, {rpmDatabase{}, "python3.11.x86_64", "python3.11"},
	} {
		if got := row.database.bare(row.name); got != row.want {
			t.Errorf("%s is %s, want %s", row.name, got, row.want)
		}
	}
	// The first of these has its architecture in its name: several architectures of a library can be installed.
	got, err := Lacking(t.Context(), []string{"libc6", "bash", "sealift-nobody-has-it"})
	if err != nil || !slices.Equal(got, []string{"sealift-nobody-has-it"}) {
		t.Errorf("lacking are %v, %v", got, err)
	}
}
