package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestPolicyRefusesVulnerabilities follows a vulnerable module and a vulnerable package from a layer to the exit code.
func TestPolicyRefusesVulnerabilities(t *testing.T) {
	image := func(net, ssl string) string {
		program := fixture.GoProgram("go1.26.1", "path example.org/tool", "dep golang.org/x/net "+net+" h1:a")
		return fixture.ImagePackage(t, map[string][][]byte{"example.org/app:1": {
			fixture.Layer(t, [2]string{"etc/os-release", "ID=debian\nVERSION_ID=12\n"}, [2]string{"var/lib/dpkg/status", "Package: libssl3\nStatus: install ok installed\nArchitecture: amd64\nSource: openssl\nVersion: " + ssl + "\n"}),
			fixture.Layer(t, [2]string{"usr/bin/tool", string(program)}),
		}}, nil, bundle.WriteOptions{})
	}
	old, current := image("v0.20.0", "3.0.2-1"), image("v0.20.0", "3.0.1-1")
	work := fixture.Folder(t, map[string]string{
		"osv/a.json": `{"id": "GO-2026-1", "modified": "2026-05-01T00:00:00Z", "aliases": ["CVE-2026-1"], "summary": "flood", "severity": [{"type": "CVSS_V3", "score": "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:H"}], "affected": [{"package": {"ecosystem": "Go", "name": "golang.org/x/net"}, "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}, {"fixed": "0.23.0"}]}]}]}`,
		"osv/b.json": `{"id": "DSA-1", "modified": "2026-05-02T00:00:00Z", "database_specific": {"severity": "low"}, "affected": [{"package": {"ecosystem": "Debian:12", "name": "openssl"}, "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "3.0.2-1"}]}]}]}`,
		"vex.json":   `{"@context": "https://openvex.dev/ns/v0.2.0", "@id": "https://example.org/vex", "author": "us", "timestamp": "2026-06-01T00:00:00Z", "version": 1, "statements": [{"vulnerability": {"name": "CVE-2026-1"}, "products": [{"@id": "example.org/app:1"}], "status": "not_affected", "justification": "vulnerable_code_not_in_execute_path"}]}`,
	})
	database := filepath.Join(work, "db.tar.gz")
	if code, _, errOut := command(t, "vulndb", "pull", "--from", filepath.Join(work, "osv"), "--out", database); code != app.ExitDone {
		t.Fatal(errOut)
	}
	vex := filepath.Join(work, "vex.json")
	for _, row := range []struct {
		name string
		args []string
		code int
		out  []string
	}{
		{"all are listed", nil, app.ExitDone, []string{"high  GO-2026-1 CVE-2026-1  golang.org/x/net v0.20.0  fixed in 0.23.0\n", "  example.org/app:1 /usr/bin/tool of layer sha256:", "low  DSA-1  libssl3 3.0.1-1  fixed in 3.0.2-1", "0 critical, 1 high, 0 medium, 1 low, 0 of unknown severity; 0 excepted"}},
		{"a high one is refused", []string{"--fail-on", "high"}, app.ExitRefused, nil},
		{"no critical one is there", []string{"--fail-on", "critical"}, app.ExitDone, nil},
		{"a statement excepts the high one", []string{"--fail-on", "high", "--vex", vex}, app.ExitDone, []string{"(not_affected: vulnerable_code_not_in_execute_path)", "0 high, 0 medium, 1 low, 0 of unknown severity; 1 excepted"}},
		{"but not the low one", []string{"--fail-on", "any", "--vex", vex}, app.ExitRefused, nil},
		{"an earlier bundle has the high one", []string{"--since", old, "--fail-on", "medium"}, app.ExitDone, []string{"0 high, 0 medium, 1 low", "of the earlier bundle's, 0 are gone"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			code, out, errOut := command(t, append([]string{"inspect", current, "--vulnerabilities", database}, row.args...)...)
			if code != row.code {
				t.Errorf("exit code %d, want %d: %s", code, row.code, errOut)
			}
			for _, want := range row.out {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
		})
	}
	_, out, _ := command(t, "inspect", current, "--vulnerabilities", database, "--vex", vex, "-o", "json")
	var report struct {
		Index    string
		Findings []struct {
			ID, Severity, Fixed string
			Places              []struct {
				Layer, File string
				Exception   *struct{ Status, Reason string }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	if f := report.Findings; len(f) != 2 || f[0].Severity != "high" || f[0].Fixed != "0.23.0" || f[0].Places[0].File != "/usr/bin/tool" || f[0].Places[0].Exception.Status != "not_affected" {
		t.Errorf("%+v", report)
	}
}

func TestDatabaseIsDownloadedOverTLS(t *testing.T) {
	var data bytes.Buffer
	z := zip.NewWriter(&data)
	w, err := z.Create("ID/GO-1.json")
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write([]byte(`{"id": "GO-1", "modified": "2026-05-01T00:00:00Z", "affected": [{"package": {"ecosystem": "Go", "name": "x"}}]}`))
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(data.Bytes()) }))
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "db.tar.gz")
	if code, said, errOut := command(t, "vulndb", "pull", "--from", server.URL+"/vulndb.zip", "--out", out, "--ca-cert", ca, "-o", "json"); code != app.ExitDone || !strings.Contains(said, `"date": "2026-05-01T00:00:00Z"`) {
		t.Errorf("exit code %d: %s%s", code, said, errOut)
	}
	if code, _, errOut := command(t, "vulndb", "pull", "--from", server.URL+"/vulndb.zip", "--out", out); code != app.ExitFailed || !strings.Contains(errOut, "certificate") {
		t.Errorf("a server that nobody knows: exit code %d: %s", code, errOut)
	}
}
