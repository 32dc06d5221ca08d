package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestInspectHoldsLicensesAgainstPolicy follows a package of a layer to the exit code, and its text to the evidence.
func TestInspectHoldsLicensesAgainstPolicy(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	archive := fixture.ImagePackage(t, map[string][][]byte{"example.org/app:1": {fixture.Layer(t, [2]string{"etc/os-release", "ID=alpine\nVERSION_ID=3.20.1\n"},
		[2]string{"lib/apk/db/installed", "P:musl\nV:1.2.5-r0\nA:x86_64\nL:MIT\n\nP:odd\nV:1-r0\nA:x86_64\n"}, [2]string{"app/NOTICE", "by us"})}}, nil, bundle.WriteOptions{})
	code, out, said := command(t, "inspect", archive, "--licenses")
	unknown, known := strings.Index(out, "NOASSERTION  package  odd 1-r0 "), strings.Index(out, "MIT          package  musl 1.2.5-r0 ")
	if code != app.ExitDone || unknown < 0 || known < unknown || !strings.Contains(out, "1 component with a license, 3 unknown, 1 text\n") {
		t.Fatalf("exit %d, %s%s", code, out, said)
	}
	if err := os.WriteFile("sealift.yaml", []byte("licenses: {forbidden: [MIT]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, said = command(t, "inspect", archive, "--licenses", "-o", "json")
	var report struct {
		Refused []struct {
			Name      string
			Forbidden []string
		}
		Components []struct{ License string }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != app.ExitRefused || !strings.Contains(said, "licenses.forbidden refuses 1 component") {
		t.Fatalf("exit %d, %v, %s%s", code, err, out, said)
	}
	if len(report.Refused) != 1 || report.Refused[0].Name != "musl" || report.Components[0].License != "NOASSERTION" {
		t.Errorf("%+v", report)
	}
	excepted := filepath.Join(dir, "excepted.yaml")
	if err := os.WriteFile(excepted, []byte("licenses: {forbidden: [MIT], exceptions: [{license: MIT, package: musl, reason: fine, until: 2999-12-31}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, said := command(t, "inspect", archive, "--licenses", "--config", excepted); code != app.ExitDone || !strings.Contains(out, "has the license MIT; exception until 2999-12-31: fine") {
		t.Errorf("exit %d, %s%s", code, out, said)
	}
	if code, out, said := command(t, "evidence", archive, "--out", "app"); code != app.ExitDone || !strings.Contains(out, "wrote app.licenses.tar.gz\n") || !strings.Contains(out, "1 text of licenses and notices") {
		t.Errorf("exit %d, %s%s", code, out, said)
	}
	if info, err := os.Stat("app.licenses.tar.gz"); err != nil || info.Size() == 0 {
		t.Errorf("%v", err)
	}
}
