package packages

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/short"
)

// stanza is a paragraph of dpkg's database or of a repository.
func stanza(name, version, status string, fields ...string) string {
	text := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: Nobody <nobody@example.org>\nDescription: a test\n", name, version)
	if status != "" {
		text += "Status: " + status + "\n"
	} else {
		text += fmt.Sprintf("Filename: ./%s_%s_all.deb\nSize: 1000\nSHA256: %064d\n", name, version, 1)
	}
	for _, field := range fields {
		text += field + "\n"
	}
	return text + "\n"
}

// TestAptNamesBothPackagesBeforeFirstChange has only the index of a repository: the packages are not read.
func TestAptNamesBothPackagesBeforeFirstChange(t *testing.T) {
	const there = "install ok installed"
	repository := t.TempDir()
	write(t, filepath.Join(repository, "Packages"), stanza("chrony", "4.3", "", "Provides: time-daemon", "Conflicts: time-daemon")+
		stanza("tool", "1.0", "", "Depends: libtool (= 1.0)")+stanza("libtool", "1.0", "")+
		stanza("front", "1.0", "", "Depends: tool")+stanza("plain", "1.0", "")+
		stanza("left", "1.0", "", "Conflicts: right")+stanza("right", "1.0", "")+stanza("renewed", "2.0", ""))
	for name, row := range map[string]struct {
		status string
		names  string
		want   string // the obstacles, one a line
	}{
		"nothing in the way":           {"", "chrony tool front plain", ""},
		"another time service":         {stanza("systemd-timesyncd", "252", there, "Provides: time-daemon", "Conflicts: time-daemon"), "chrony plain", "chrony: cannot be installed beside systemd-timesyncd; remove it with 'apt-get remove systemd-timesyncd'"},
		"a newer library":              {stanza("libtool", "1.1", there), "tool plain", "tool: tool Depends: libtool (= 1.0) but 1.1 is to be installed"},
		"a newer library, deeper":      {stanza("libtool", "1.1", there), "front", "front: tool Depends: libtool (= 1.0) but 1.1 is to be installed"},
		"a held package":               {stanza("renewed", "1.0", "hold ok installed"), "renewed plain", "renewed: renewed would change, and is held; release it with 'apt-mark unhold renewed'"},
		"no such package":              {"", "nope plain", "nope: Unable to locate package nope"},
		"packages against one another": {"", "left right", ": left Conflicts: right"},
		"an older library":             {stanza("libtool", "0.9", there), "tool", ""},
		"a package that depends on it": {stanza("libtool", "0.9", there) + stanza("user", "0.9", there, "Depends: libtool (= 0.9)"), "tool", "tool: cannot be installed beside user"},
	} {
		t.Run(name, func(t *testing.T) {
			status := filepath.Join(t.TempDir(), "status")
			write(t, status, row.status)
			found, err := APT{Dir: t.TempDir(), Repositories: []string{repository}, Output: t.Output(), status: status}.Obstacles(t.Context(), strings.Fields(row.names))
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, o := range found {
				lines = append(lines, o.Package+": "+o.Reason+"; "+o.Hint)
			}
			if got := strings.Join(lines, "\n"); (got == "") != (row.want == "") || !strings.HasPrefix(got, row.want) {
				t.Errorf("got %q\nwant %q", got, row.want)
			}
		})
	}
}

// TestPinsOfSiteAreLeftOut gives apt the settings of a site that refuses foreign packages.
func TestPinsOfSiteAreLeftOut(t *testing.T) {
	repository, site := t.TempDir(), t.TempDir()
	write(t, filepath.Join(repository, "Packages"), stanza("plain", "1.0", ""))
	write(t, filepath.Join(site, "preferences"), "Package: *\nPin: origin \"\"\nPin-Priority: -1\n")
	write(t, filepath.Join(site, "apt.conf"), fmt.Sprintf("Dir::Etc::Preferences %q;\nAPT::Default-Release \"nowhere\";\n", filepath.Join(site, "preferences")))
	write(t, filepath.Join(site, "status"), "")
	t.Setenv("APT_CONFIG", filepath.Join(site, "apt.conf"))
	found, err := APT{Dir: t.TempDir(), Repositories: []string{repository}, Output: t.Output(), status: filepath.Join(site, "status")}.Obstacles(t.Context(), []string{"plain"})
	if err != nil || len(found) > 0 {
		t.Errorf("got %v, %v", found, err)
	}
}

func TestDNFNamesBothPackagesBeforeFirstChange(t *testing.T) {
	short.Root(t, "installing packages")
	repository, root := yumRepository(t), t.TempDir()
	d := DNF{Dir: t.TempDir(), Repositories: []string{repository}, Root: root, Output: t.Output()}
	for _, file := range []string{"tool.rpm", "libtool.rpm", "extras.rpm"} { // the indexes are enough
		if err := os.Rename(filepath.Join(repository, file), filepath.Join(repository, file+".away")); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := d.Obstacles(t.Context(), []string{"tool", "extras"}); err != nil || len(found) > 0 {
		t.Errorf("got %v, %v", found, err)
	}
	if found, err := d.Obstacles(t.Context(), []string{"tool", "nope"}); err != nil || len(found) != 1 || found[0].Package != "nope" || !strings.Contains(found[0].Reason, "nope") {
		t.Errorf("got %v, %v", found, err)
	}
	if got := installed(t, root); got != "" {
		t.Errorf("installed %s", got)
	}
}

func TestRefusalsOfDNFAreOneLine(t *testing.T) {
	for out, want := range map[string]string{
		"Last metadata expiration check: 0:00:01 ago\nError: \n Problem: problem with installed package ntp-4.2\n  - package chrony-4.3 conflicts with ntp provided by ntp-4.2\n  - conflicting requests\n(try to add '--allowerasing' to command line to replace conflicting packages)\n": "Problem: problem with installed package ntp-4.2; package chrony-4.3 conflicts with ntp provided by ntp-4.2; conflicting requests",
		"No match for argument: nope\nError: Unable to find a match: nope\n": "No match for argument: nope; Unable to find a match: nope",
		"strange": "strange",
	} {
		if got := parseDNF(out); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
