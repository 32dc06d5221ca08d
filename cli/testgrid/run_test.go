package testgrid_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/cli/app"
)

func TestRunRefusesBeforeFirstHost(t *testing.T) {
	tests := write(t, "tests.yaml", "- name: x\n  installerSpec: {kubernetes: {version: 1.36.3}}\n")
	bad := write(t, "bad.yaml", "- name: x\n")
	hosts := write(t, "hosts.yaml", "systems: {a: {command: /bin/true}}\n")
	badHosts := write(t, "hosts.yaml", "systems: {a: {command: /bin/true}, b: {}}\n")
	systems := write(t, "systems.yaml", "- {id: ubuntu-2404, name: Ubuntu}\n")
	out := t.TempDir()
	for behaviour, row := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no hosts":            {[]string{tests, "--store", "s", "--out", out}, app.ExitUsage, "--hosts is missing"},
		"no store":            {[]string{tests, "--hosts", hosts, "--out", out}, app.ExitUsage, "--store is missing"},
		"no report":           {[]string{tests, "--hosts", hosts, "--store", "s"}, app.ExitUsage, "--out is missing"},
		"no attempts":         {[]string{tests, "--hosts", hosts, "--store", "s", "--out", out, "--repeat", "0"}, app.ExitUsage, "--repeat"},
		"a server's password": {[]string{tests, "--hosts", hosts, "--store", "s", "--out", out, "--server", "https://me:hunter2@example.com"}, app.ExitUsage, "--server example.com must not have a name and a password"},
		"no server's URL":     {[]string{tests, "--hosts", hosts, "--store", "s", "--out", out, "--server", "example.com"}, app.ExitUsage, "not a URL such as"},
		"another again":       {[]string{tests, "--hosts", hosts, "--store", "s", "--out", out, "--again", "some"}, app.ExitUsage, "[failed all]"},
		"a mistake in tests":  {[]string{bad, "--hosts", hosts, "--store", "s", "--out", out}, app.ExitFailed, "bad.yaml:1:3: error: the test has no installerSpec"},
		"a mistake in hosts":  {[]string{tests, "--hosts", badHosts, "--store", "s", "--out", out}, app.ExitFailed, "hosts.yaml:1:39: error: a system has 0 kinds"},
		"no program":          {[]string{tests, "--hosts", hosts, "--store", "s", "--out", out, "--program", "/does/not/exist"}, app.ExitFailed, "name it with --program"},
		"a list of systems":   {[]string{systems, "--hosts", hosts, "--store", "s", "--out", out, "--program", "/bin/true"}, app.ExitFailed, "a list of systems, not of tests"},
		"an unknown test":     {[]string{tests, "--hosts", hosts, "--store", "s", "--out", out, "--program", "/bin/true", "--test", "y"}, app.ExitFailed, `no test "y"`},
	} {
		code, _, errOut := command(t, append([]string{"run"}, row.args...)...)
		if code != row.code || !strings.Contains(errOut, row.says) {
			t.Errorf("%s: code %d, want %d and %q in\n%s", behaviour, code, row.code, row.says, errOut)
		}
	}
}

// TestRunFailsIfTestFails uses a program that makes no bundles: all tests but one fail for that reason.
func TestRunFailsIfTestFails(t *testing.T) {
	tests := write(t, "tests.yaml", "- name: x\n  installerSpec: {kubernetes: {version: 1.36.3}}\n- name: y\n  installerSpec: {kubernetes: {version: 1.36.3}}\n  unsupportedOSIDs: [a]\n")
	hosts := write(t, "hosts.yaml", "systems: {a: {command: /bin/true}}\n")
	args := []string{"run", tests, "--hosts", hosts, "--store", "s", "--out", t.TempDir(), "--program", "/bin/false"}
	code, out, errOut := command(t, args...)
	if code != app.ExitFailed || !strings.HasPrefix(out, "0 passed, 1 failed, 0 flaky, 1 skipped; the report is ") || !strings.Contains(errOut, "1 test did not pass") {
		t.Errorf("code %d: %s%s", code, out, errOut)
	}
	if code, out, _ := command(t, append(args, "-o", "json")...); code != app.ExitFailed || !strings.Contains(out, `"failed": 1`) || !strings.Contains(out, `"reason": "the test refuses this system"`) {
		t.Errorf("code %d: %s", code, out)
	}
	if code, out, errOut := command(t, append(args, "--test", "y")...); code != app.ExitDone || !strings.Contains(out, "1 skipped") {
		t.Errorf("code %d: %s%s", code, out, errOut)
	}
	results := filepath.Join(args[7], "results.json")
	if code, _, errOut := command(t, append(args, "--gate", results)...); code != app.ExitDone {
		t.Errorf("with a gate, a test that was broken before: code %d: %s", code, errOut)
	}
	earlier := write(t, "results.json", `{"cells": [{"test": "x", "system": "a", "verdict": "passed"}]}`)
	if code, _, _ := command(t, append(args, "--gate", earlier)...); code != app.ExitFailed {
		t.Errorf("with a gate, a test that passed before: code %d", code)
	}
	if code, _, errOut := command(t, append(args, "--gate", tests)...); code != app.ExitFailed || !strings.Contains(errOut, "name the results.json") {
		t.Errorf("a gate that is none: code %d: %s", code, errOut)
	}
}

func TestRunContinuesAfterInvalidTest(t *testing.T) {
	tests := write(t, "tests.yaml", "- name: x\n  installerSpec: {kubernetes: {version: 1.36.3}}\n  airgapp: true\n- name: y\n  installerSpec: {kubernetes: {version: 1.36.3}}\n  unsupportedOSIDs: [a]\n")
	hosts := write(t, "hosts.yaml", "systems: {a: {command: /bin/true}}\n")
	code, out, errOut := command(t, "run", tests, "--hosts", hosts, "--store", "s", "--out", t.TempDir(), "--program", "/bin/false")
	if code != app.ExitFailed || !strings.HasPrefix(out, "0 passed, 0 failed, 0 flaky, 1 skipped; ") || !strings.Contains(errOut, `tests.yaml:3:3: error: unknown key "airgapp"`) ||
		!strings.Contains(errOut, "1 test did not run: the file has mistakes in it") {
		t.Errorf("code %d: %s%s", code, out, errOut)
	}
}
