package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/host/bundlepolicy"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestVerdictReachesNode follows a vulnerable module to the policy of a node, which has no database.
func TestVerdictReachesNode(t *testing.T) {
	program := fixture.GoProgram("go1.26.1", "path example.org/tool", "dep golang.org/x/net v0.20.0 h1:a")
	archive := fixture.ImagePackage(t, map[string][][]byte{"example.org/app:1": {fixture.Layer(t, [2]string{"usr/bin/tool", string(program)})}}, nil, bundle.WriteOptions{})
	work := fixture.Folder(t, map[string]string{
		"osv/a.json":                  `{"id": "GO-2026-1", "modified": "2026-05-01T00:00:00Z", "aliases": ["CVE-2026-1"], "database_specific": {"severity": "high"}, "affected": [{"package": {"ecosystem": "Go", "name": "golang.org/x/net"}, "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}, {"fixed": "0.23.0"}]}]}]}`,
		"vex.json":                    `{"@context": "https://openvex.dev/ns/v0.2.0", "@id": "https://example.org/vex", "author": "us", "timestamp": "2026-06-01T00:00:00Z", "version": 1, "statements": [{"vulnerability": {"name": "CVE-2026-1"}, "products": [{"@id": "example.org/app:1"}], "status": "not_affected", "justification": "vulnerable_code_not_in_execute_path"}]}`,
		"policy/vulnerabilities.yaml": "vulnerabilities: {keys: [security.pub], maxAgeDays: 65535}\n",
	})
	t.Setenv(app.PassphraseVariable, "of a test")
	must := func(args ...string) string {
		t.Helper()
		code, out, errOut := command(t, args...)
		if code != app.ExitDone {
			t.Fatalf("%v: exit code %d: %s", args, code, errOut)
		}
		return out
	}
	key, database, policy := filepath.Join(work, "policy/security"), filepath.Join(work, "db.tar.gz"), filepath.Join(work, "policy/vulnerabilities.yaml")
	must("key", "generate", "--out", key)
	must("vulndb", "pull", "--from", filepath.Join(work, "osv"), "--key", key+".key", "--out", database)
	node := func() error {
		a, err := bundle.Open(archive)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		return bundlepolicy.CheckVulnerabilities(a, policy, time.Now())
	}
	if err := node(); err == nil || !strings.Contains(err.Error(), "came without one") {
		t.Error(err)
	}
	judge := []string{"verdict", archive, "--vulnerabilities", database, "--vulnerabilities-key", key + ".pub", "--fail-on", "high", "--key", key + ".key"}
	code, out, errOut := command(t, judge...)
	if code != app.ExitRefused || !strings.Contains(errOut, "1 vulnerability of at least high or of unknown severity") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
	for _, want := range []string{"wrote " + bundle.VerdictFile(archive) + "\n", "failed: no vulnerabilities of at least high or of unknown severity are allowed\n", "by a database of 2026-05-01\n", "  high  GO-2026-1  golang.org/x/net v0.20.0  fixed in 0.23.0\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if err := node(); err == nil || !strings.Contains(err.Error(), "found 1;") || !strings.Contains(err.Error(), "\nhigh GO-2026-1 golang.org/x/net v0.20.0, fixed in 0.23.0") {
		t.Error(err)
	}
	var v struct {
		Index, Made string
		Database    struct{ Index, Signer string }
		Policy      struct{ VEX []string }
		Counts      struct{ High, Excepted int }
		Passed      bool
	}
	out = must(append(judge, "--vex", filepath.Join(work, "vex.json"), "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatal(err)
	}
	if !v.Passed || v.Counts.High != 0 || v.Counts.Excepted != 1 || len(v.Policy.VEX) != 1 || !strings.HasPrefix(v.Database.Signer, "SHA256:") || !strings.HasPrefix(v.Database.Index, "sha256:") {
		t.Errorf("%+v", v)
	}
	if err := node(); err != nil {
		t.Error(err)
	}
	if again := must("verdict", archive, "--verify-with", key+".pub", "-o", "json"); again != out {
		t.Errorf("the verdict reads\n%s\nand was written as\n%s", again, out)
	}
	document, err := os.ReadFile(bundle.VerdictFile(archive))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bundle.VerdictFile(archive), []byte(strings.Replace(string(document), `"excepted": 1`, `"excepted": 0`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := command(t, "verdict", archive, "--verify-with", key+".pub"); code != app.ExitFailed || !strings.Contains(errOut, "or it was changed") {
		t.Errorf("a changed verdict: exit code %d: %s", code, errOut)
	}
	if err := node(); err == nil || !strings.Contains(err.Error(), "or it was changed") {
		t.Errorf("a changed verdict: %v", err)
	}
	for _, args := range [][]string{{archive}, {"https://example.org/a.tar.gz", "--vulnerabilities", database, "--fail-on", "any", "--key", key + ".key"}} {
		if code, _, errOut := command(t, append([]string{"verdict"}, args...)...); code != app.ExitUsage || !strings.Contains(errOut, "is missing") {
			t.Errorf("%v: exit code %d: %s", args, code, errOut)
		}
	}
}
