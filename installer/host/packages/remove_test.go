package packages

import (
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/short"
)

func dpkgIn(root string) database { return dpkgDatabase{root} }
func rpmIn(root string) database  { return rpmDatabase{root} }

// debs makes the packages a and b and installs them below a root. a needs b.
func must(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

func debs(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"status", "available"} {
		if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg", file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var files []string
	for name, depends := range map[string]string{"a-tool": "Depends: b-lib\n", "b-lib": "", "c-alone": ""} {
		tree := filepath.Join(t.TempDir(), name)
		for path, text := range map[string]string{
			"DEBIAN/control":        "Package: " + name + "\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <nobody@example.com>\nDescription: test\n" + depends,
			"DEBIAN/conffiles":      "/etc/" + name + ".conf\n",
			"etc/" + name + ".conf": name + "\n",
		} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(tree, path)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(tree, path), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		must(t, "dpkg-deb", "--root-owner-group", "--build", tree, tree+".deb")
		files = append(files, tree+".deb")
	}
	must(t, "dpkg", append([]string{"--root=" + root, "--install"}, files...)...)
	return root
}

// killedDebs has c-alone as dpkg leaves it when it is killed while unpacking.
func killedDebs(t *testing.T) (root string) {
	t.Helper()
	root = debs(t)
	name := filepath.Join(root, "var/lib/dpkg/status")
	status, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	entries := strings.Split(string(status), "\n\n")
	for i, entry := range entries {
		if strings.HasPrefix(strings.TrimSpace(entry), "Package: c-alone\n") {
			entries[i] = strings.Replace(entry, "Status: install ok installed", "Status: install reinstreq half-installed", 1)
		}
	}
	if err := os.WriteFile(name, []byte(strings.Join(entries, "\n\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestRequiredPackagesAreKept(t *testing.T) {
	short.Root(t, "installing packages")
	for name, row := range map[string]struct {
		installed          func(*testing.T) string
		database           func(root string) database
		remove, kept, left []string
		why                string
	}{
		"dpkg, one that is needed":             {debs, dpkgIn, []string{"b-lib", "c-alone"}, []string{"b-lib"}, []string{"a-tool", "b-lib"}, "a-tool depends on it"},
		"dpkg, all":                            {debs, dpkgIn, []string{"b-lib", "c-alone", "a-tool"}, nil, nil, ""},
		"dpkg, one whose unpacking was killed": {killedDebs, dpkgIn, []string{"c-alone"}, nil, []string{"a-tool", "b-lib"}, ""},
		"dpkg, one that is gone":               {debs, dpkgIn, []string{"never-there"}, nil, []string{"a-tool", "b-lib", "c-alone"}, ""},
		"rpm, one that is needed":              {rpms, rpmIn, []string{"libtool.noarch"}, []string{"libtool.noarch"}, []string{"libtool.noarch", "tool.noarch"}, "needs libtool"},
		"rpm, all":                             {rpms, rpmIn, []string{"libtool.noarch", "tool.noarch"}, nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			db := row.database(row.installed(t))
			kept, err := db.remove(t.Context(), io.Discard, row.remove)
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Sorted(maps.Keys(kept)); !slices.Equal(got, row.kept) {
				t.Errorf("kept %v, want %v", kept, row.kept)
			}
			for _, why := range kept {
				if !strings.Contains(why, row.why) {
					t.Errorf("kept because %q, want %q", why, row.why)
				}
			}
			left, err := db.installed(t.Context())
			if got := slices.Sorted(maps.Keys(left)); err != nil || !slices.Equal(got, row.left) {
				t.Errorf("left %v, %v; want %v", left, err, row.left)
			}
		})
	}
}

func rpms(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	d := DNF{Dir: t.TempDir(), Repositories: []string{yumRepository(t)}, Root: root, Output: io.Discard}
	if err := d.Install(t.Context(), []string{"tool"}); err != nil {
		t.Fatal(err)
	}
	return root
}

func FuzzLists(f *testing.F) {
	f.Add("ii \tiptables\t1.8.9-2")
	f.Fuzz(func(t *testing.T, line string) {
		found := map[string]string{}
		parseDpkg(line, found)
		parseRPM(line, found)
		if len(found) > 2 {
			t.Errorf("%q is %v", line, found)
		}
	})
}
