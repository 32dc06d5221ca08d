package osdb_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/builder/component"
	"github.com/sealift/sealift/builder/hostpkg/repodata"
	"github.com/sealift/sealift/builder/inventory/osdb"
)

func lines(all []component.Component) string {
	var text []string
	for _, c := range all {
		text = append(text, fmt.Sprint(c.Name, " ", c.Version, " ", c.Arch, " ", c.Source, " ", c.SourceVersion, " ", strings.Join(c.Licenses, "|")))
	}
	slices.Sort(text)
	return strings.Join(text, "\n")
}

const status = `Package: libc6
Status: install ok installed
Architecture: amd64
Source: glibc
Version: 2.36-9+deb12u9
Description: C library
 with a Package: inside
 .

Package: gone
Status: deinstall ok config-files
Version: 1

Package: binnmu
Status: install ok installed
Architecture: amd64
Source: src (1.0-1)
Version: 1.0-1+b1
`

func TestDpkgStatusIsRead(t *testing.T) {
	got, err := osdb.Dpkg(strings.NewReader(status))
	if want := "binnmu 1.0-1+b1 amd64 src 1.0-1 \nlibc6 2.36-9+deb12u9 amd64 glibc 2.36-9+deb12u9 "; err != nil || lines(got) != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, lines(got), want)
	}
	got, err = osdb.Dpkg(strings.NewReader("Package: tzdata\nVersion: 2024a-0\nArchitecture: all\nDescription: " + strings.Repeat("x", 200<<10) + "\n\n"))
	if want := "tzdata 2024a-0 all tzdata 2024a-0 "; err != nil || lines(got) != want {
		t.Errorf("file of status.d: %v, got %s", err, lines(got))
	}
}

const installed = "C:Q1abc=\nP:musl\nV:1.2.5-r0\nA:x86_64\nL:MIT\no:musl\nF:lib\nR:ld-musl.so\n\nP:musl-utils\nV:1.2.5-r0\nA:x86_64\nL:MIT AND BSD-2-Clause\no:musl\n"

func TestApkDatabaseIsRead(t *testing.T) {
	got, err := osdb.Apk(strings.NewReader(installed))
	if want := "musl 1.2.5-r0 x86_64 musl 1.2.5-r0 MIT\nmusl-utils 1.2.5-r0 x86_64 musl 1.2.5-r0 MIT AND BSD-2-Clause"; err != nil || lines(got) != want {
		t.Errorf("%v, got\n%s", err, lines(got))
	}
}

func TestEndlessFieldsAreRefused(t *testing.T) {
	long := strings.Repeat("x", 5000)
	if _, err := osdb.Dpkg(strings.NewReader("Package: a\nVersion: " + long + "\n")); err == nil {
		t.Error("dpkg: a version of 5000 bytes is kept")
	}
	if _, err := osdb.Apk(strings.NewReader("P:" + long + "\nV:1\n")); err == nil {
		t.Error("apk: a name of 5000 bytes is kept")
	}
}

func TestSystemIsNamedByOsRelease(t *testing.T) {
	for text, want := range map[string]string{
		"ID=debian\nVERSION_ID=\"12\"\n":        "debian-12",
		"NAME=x\nID='rhel'\nVERSION_ID='9.4'\n": "rhel-9.4",
		"ID=arch\n":                             "arch",
		"ID=\"a b\"\nVERSION_ID=1":              "",
		"":                                      "",
	} {
		if got := osdb.System(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// subpackages is how many packages the specification has beside made.
const subpackages = 12

// rpmDatabases returns the file of a database that rpm itself has written, in the format sqlite, and one with the same packages in the
// format ndb, which Debian's rpm cannot write.
func rpmDatabases(t testing.TB) (sqlite, ndb []byte) {
	t.Helper()
	dir := t.TempDir()
	var spec strings.Builder
	// A long list of files makes headers that overflow a page.
	fmt.Fprintf(&spec, "Name: made\nVersion: 1.2\nRelease: 3\nEpoch: 4\nSummary: s\nLicense: MIT and GPLv2+\n%%description\nd\n%%install\nmkdir -p %%{buildroot}/usr/share/made\n"+
		"for i in $(seq 300); do echo >%%{buildroot}/usr/share/made/a-file-with-a-long-name-$i; done\n%%files\n/usr/share/made\n")
	for i := range subpackages {
		fmt.Fprintf(&spec, "%%package sub%d\nSummary: s\nBuildArch: noarch\n%%description sub%d\nd\n%%files sub%d\n", i, i, i)
	}
	file := filepath.Join(dir, "made.spec")
	if err := os.WriteFile(file, []byte(spec.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	command := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s; apt-get install rpm", name, err, out)
		}
	}
	command("rpmbuild", "-bb", "--quiet", "--target", "x86_64", "--define", "_topdir "+filepath.Join(dir, "top"), "--define", "_rpmdir "+filepath.Join(dir, "out"),
		"--define", "__os_install_post %{nil}", "--define", "_rpmfilename %%{NAME}.rpm", "--define", "_missing_build_ids_terminate_build 0", file)
	made, err := filepath.Glob(filepath.Join(dir, "out", "*.rpm"))
	if err != nil || len(made) != subpackages+1 {
		t.Fatalf("%v, %v", made, err)
	}
	command("rpm", append([]string{"-i", "--justdb", "--nodeps", "--ignorearch", "--dbpath", filepath.Join(dir, "db"), "--define", "_db_backend sqlite"}, made...)...)
	if sqlite, err = os.ReadFile(filepath.Join(dir, "db", "rpmdb.sqlite")); err != nil {
		t.Fatal(err)
	}
	ndb = make([]byte, 4096)
	copy(ndb, "RpmP\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00")
	for slot := 32; slot < len(ndb); slot += 16 {
		copy(ndb[slot:], "Slot")
	}
	for i, file := range made {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := repodata.Read(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		header := data[p.HeaderStart+8 : p.HeaderEnd]
		slot := ndb[32+16*i:]
		binary.LittleEndian.PutUint32(slot[4:], uint32(i+1))
		binary.LittleEndian.PutUint32(slot[8:], uint32(len(ndb)/16))
		ndb = append(ndb, "BlbS"...)
		for _, n := range []int{i + 1, 1, len(header)} {
			ndb = binary.LittleEndian.AppendUint32(ndb, uint32(n))
		}
		ndb = append(ndb, header...)
		ndb = append(ndb, make([]byte, 16+-len(ndb)&15)...)
	}
	return sqlite, ndb
}

func TestRpmDatabasesAreRead(t *testing.T) {
	sqlite, ndb := rpmDatabases(t)
	for format, data := range map[string][]byte{"sqlite": sqlite, "ndb": ndb} {
		got, err := osdb.RPM(bytes.NewReader(data), int64(len(data)))
		text := lines(got)
		if err != nil || len(got) != subpackages+1 || !strings.Contains(text, "made 4:1.2-3 x86_64 made 1.2-3 MIT and GPLv2+") || !strings.Contains(text, "made-sub11 4:1.2-3 noarch made 1.2-3 MIT and GPLv2+") {
			t.Errorf("%s: %v, %d packages:\n%s", format, err, len(got), text)
		}
	}
}

func TestOldRpmDatabaseIsNamed(t *testing.T) {
	old := make([]byte, 4096)
	copy(old[12:], []byte{0x61, 0x15, 0x06, 0})
	if _, err := osdb.RPM(bytes.NewReader(old), int64(len(old))); !errors.Is(err, osdb.ErrBerkeley) {
		t.Errorf("got %v", err)
	}
	if _, err := osdb.RPM(strings.NewReader("short"), 5); err == nil {
		t.Error("five bytes pass for a database")
	}
}

func FuzzDpkg(f *testing.F) {
	f.Add(status)
	f.Fuzz(func(t *testing.T, text string) {
		all, err := osdb.Dpkg(strings.NewReader(text))
		for _, c := range all {
			if err != nil || c.Name == "" || c.Version == "" || strings.Contains(c.URL(), "\n") {
				t.Errorf("%v: %+v", err, c)
			}
		}
	})
}

func FuzzApk(f *testing.F) {
	f.Add(installed)
	f.Fuzz(func(t *testing.T, text string) {
		all, err := osdb.Apk(strings.NewReader(text))
		for _, c := range all {
			if err != nil || c.Name == "" || c.Version == "" {
				t.Errorf("%v: %+v", err, c)
			}
		}
	})
}

func FuzzSystem(f *testing.F) {
	f.Add("ID=debian\nVERSION_ID=\"12\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		if got := osdb.System(text); strings.ContainsAny(got, " \n\"'/") {
			t.Errorf("%q gives %q", text, got)
		}
	})
}

func FuzzRPM(f *testing.F) {
	sqlite, ndb := rpmDatabases(f)
	f.Add(sqlite)
	f.Add(ndb)
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := osdb.RPM(bytes.NewReader(data), int64(len(data)))
		for _, c := range all {
			if err == nil && (c.Name == "" || c.Version == "") {
				t.Errorf("%+v", c)
			}
		}
	})
}
