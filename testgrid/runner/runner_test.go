package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/trust"
	"github.com/sealift/sealift/testgrid/report"
	"github.com/sealift/sealift/testgrid/runner"
)

// runEnv makes the test binary a process that runs tests and may be killed: the folder of a bench.
const runEnv = "SEALIFT_TEST_RUNNER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(runEnv); dir != "" {
		if _, err := (bench{dir}).run(context.Background(), runner.Options{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const everyVerdict = `
- name: good
  installerSpec: KUBERNETES
  airgap: true
  flags: yes labels=a=b
  numSecondaryNodes: 1
  join: [{flags: "it's"}]
  postInstallScript: kubectl get nodes >/root/nodes
  expect:
  - nodesReady: 1
  - command: {run: "cat /root/nodes; exit 3", exit: 3, contains: node-1}
  - took: {part: install, most: 1ns}
- name: bad script
  installerSpec: KUBERNETES
  postInstallScript: |
    echo about to fail
    false
- name: bad expectation
  installerSpec: KUBERNETES
  expect: [{nodesReady: 2, within: 1s}]
- name: calls out
  airgap: true
  installerSpec: KUBERNETES
  preInstallScript: |
    echo '[{"address": "203.0.113.7", "protocol": "tcp", "port": 443, "packets": 3, "process": "curl"}]' >/root/egress
- name: calls out without a gap
  installerSpec: KUBERNETES
  preInstallScript: |
    echo '[{"address": "203.0.113.7", "protocol": "tcp", "port": 443, "packets": 3, "process": "curl"}]' >/root/egress
- name: calls itself
  airgap: true
  installerSpec: KUBERNETES
  preInstallScript: |
    mkdir -p /etc/kubernetes/manifests
    echo '    - --service-cluster-ip-range=10.96.0.0/22' >/etc/kubernetes/manifests/kube-apiserver.yaml
    echo '[{"address": "10.96.3.1", "packets": 1}, {"address": "192.0.2.1", "port": 53, "packets": 1}]' >/root/egress
- name: no package
  installerSpec: {kubernetes: {version: none}}
- name: upgrade
  installerSpec: KUBERNETES
  postInstallScript: test ! -e /root/upgraded; touch /root/a
  preUpgradeScript: test -e /root/a; touch /root/b
  upgradeSpec: {kubernetes: {version: 1.37.0}}
  postUpgradeScript: test -e /root/b; grep 1.37 /root/upgraded
- name: patch of kURL
  installerSpec: KUBERNETES
  flags: yes ha
  preInstallScript: |
    mkdir -p /opt/kurl-testgrid
    touch /opt/kurl-testgrid/patchfile.yaml
  upgradeSpec: {kubernetes: {version: 1.37.0}}
  postUpgradeScript: grep -F "with airgap yes yes ha installer-spec-file=/opt/kurl-testgrid/patchfile.yaml" /root/upgraded
- name: functions of kURL
  installerSpec: KUBERNETES
  preInstallScript: |
    source /opt/kurl-testgrid/testhelpers.sh
    printf 'ID=rocky\nVERSION_ID="9.4"\n' >/etc/os-release
    is_rhel_9
    ! is_ubuntu_2404
    ubuntu_2604_install_host_packages no-such-package
    tar tzf "$(kubernetes_upgrade_bundle_url "$KURL_URL" "$KURL_UPGRADE_URL" | sed s,file://,,)"
  postInstallScript: source /opt/kurl-testgrid/testhelpers.sh; fail_test the reason
- name: application of kURL
  installerSpec: KUBERNETES
  postInstallScript: source /opt/kurl-testgrid/testhelpers.sh; install_and_customize_kurl_integration_test_application
- name: support bundle of its own
  installerSpec: KUBERNETES
  supportbundleSpec: {kind: SupportBundle, spec: {collectors: []}}
- name: old kURL
  installerSpec: {kubernetes: {version: 1.36.3}, kurl: {installerVersion: v2024.07.02-0}}
- name: other systems only
  installerSpec: KUBERNETES
  unsupportedOSIDs: [plain]
- name: needs a cable
  installerSpec: KUBERNETES
  cutNetwork: [{step: a/b, lasts: 1s}]
`

func TestEveryVerdictHasItsReason(t *testing.T) {
	t.Parallel()
	b := newBench(t, everyVerdict)
	cells := b.must(t, runner.Options{Systems: []string{"plain", "other"}})
	for test, want := range map[string]struct {
		verdict report.Verdict
		reason  string
	}{
		"good/plain":                      {report.Passed, ""},
		"bad-script/plain":                {report.Failed, "post-install script: exit status 1"},
		"bad-expectation/plain":           {report.Failed, "1 of 1 nodes are Ready, want 2"},
		"calls-out/plain":                 {report.Failed, "sent 3 packets to 203.0.113.7 port 443 (tcp) by curl"},
		"calls-out-without-a-gap/plain":   {report.Passed, ""},
		"calls-itself/plain":              {report.Passed, ""},
		"no-package/plain":                {report.Failed, "the store has no such package"},
		"upgrade/plain":                   {report.Passed, ""},
		"patch-of-kurl/plain":             {report.Passed, ""},
		"functions-of-kurl/plain":         {report.Failed, "post-install script: exit status 1"},
		"application-of-kurl/plain":       {report.Skipped, "kURL's test application"},
		"support-bundle-of-its-own/plain": {report.Failed, "support bundle of the test: fail: disk: the disk is full"},
		"old-kurl/plain":                  {report.Skipped, "old release of kURL"},
		"other-systems-only/plain":        {report.Skipped, "refuses this system"},
		"other-systems-only/other":        {report.Passed, ""},
		"needs-a-cable/plain":             {report.Skipped, "cannot be cut"},
	} {
		if c := cells[test]; c.Verdict != want.verdict || !strings.Contains(c.Reason(), want.reason) || want.reason == "" && c.Reason() != "" {
			t.Errorf("%s: %s, %q; want %s, %q", test, c.Verdict, c.Reason(), want.verdict, want.reason)
		}
	}
	good := cells["good/plain"].Attempts[0]
	if len(good.Warnings) != 1 || !strings.Contains(good.Warnings[0], "install took") {
		t.Errorf("warnings: %q", good.Warnings)
	}
	if own := cells["calls-itself/plain"].Attempts[0]; len(own.Warnings) != 2 || len(own.Violations) > 0 {
		t.Errorf("warnings %q, violations %v", own.Warnings, own.Violations)
	}
	folder := report.Folder{Path: filepath.Join(b.dir, "report")}
	logs := map[string]string{}
	for _, s := range good.Steps {
		text, err := os.ReadFile(filepath.Join(folder.Dir("good", "plain", 1), s.Log))
		if err != nil {
			t.Error(err)
		}
		logs[s.Name] = string(text)
	}
	if logs["install"] != "installing with airgap yes labels=a=b\n" || logs["join of node 2"] != "joined with\n" || logs["join of node 3"] != "joined with it's\n" {
		t.Errorf("logs: %q", logs)
	}
	if bad := cells["bad-script/plain"].Attempts[0]; len(bad.Files) != 1 || !strings.Contains(bad.Reproduce, "--test bad-script --system plain") {
		t.Errorf("files %q, reproduce with %q", bad.Files, bad.Reproduce)
	}
	disk := report.Analysis{Node: 1, Check: "disk", Status: "fail", Message: "the disk is full", Hint: "make room"}
	if got := cells["bad-script/plain"].Attempts[0].Analysis; len(got) != 1 || got[0] != disk {
		t.Errorf("analysis: %+v", got)
	}
	page, err := os.ReadFile(filepath.Join(b.dir, "report", "results", "bad-script", "plain", "index.html"))
	if err != nil || !strings.Contains(string(page), "node 1, disk: fail: the disk is full (make room)") {
		t.Errorf("the page of a failed test lacks the analysis: %v", err)
	}
	if own := cells["support-bundle-of-its-own/plain"].Attempts[0]; !slices.Equal(own.Files, []string{"support-bundle-1.tar.gz", "support-bundle-1-2.tar.gz"}) {
		t.Errorf("files %q", own.Files)
	}
	if log, err := os.ReadFile(filepath.Join(b.dir, "log")); err != nil || !strings.Contains(string(log), "\nbundle from 1.36.3\n") {
		t.Errorf("the bundle of the upgrade does not know what it upgrades (%v):\n%s", err, log)
	}
	if out := cells["calls-out/plain"].Attempts[0]; len(out.Violations) != 1 || out.Violations[0].Process != "curl" {
		t.Errorf("violations: %+v", out.Violations)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "report", ".bundles")); !os.IsNotExist(err) {
		t.Errorf("bundles are left: %v", err)
	}
}

func TestOnlyChangedTestsRunAgain(t *testing.T) {
	t.Parallel()
	const tests = "- name: one\n  installerSpec: KUBERNETES\n- name: two\n  installerSpec: KUBERNETES\n  postInstallScript: test -e $SHARED/mended\n"
	b := newBench(t, tests)
	step := func(behaviour string, o runner.Options, ran int, verdict report.Verdict) {
		t.Helper()
		before := 0
		if _, err := os.Stat(filepath.Join(b.dir, "log")); err == nil {
			before = b.made(t)
		}
		cells := b.must(t, o)
		if got := b.made(t) - before; got != ran || cells["two/plain"].Verdict != verdict {
			t.Errorf("%s: %d tests ran, want %d; two: %s, want %s", behaviour, got, ran, cells["two/plain"].Verdict, verdict)
		}
	}
	step("the first run", runner.Options{}, 2, report.Failed)
	step("nothing changed", runner.Options{}, 0, report.Failed)
	if err := os.WriteFile(filepath.Join(b.dir, "shared", "mended"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	step("failed ones again", runner.Options{Again: runner.AgainFailed}, 1, report.Passed)
	step("all again", runner.Options{Again: runner.AgainAll}, 2, report.Passed)
	b.describe(t, "# one line more moves the tests, and does not change them\n"+tests)
	step("another place", runner.Options{}, 0, report.Passed)
	b.describe(t, tests+"  preInstallScript: \"true\"\n")
	step("a changed test", runner.Options{}, 1, report.Passed)
	b.describe(t, tests+"  cutNetwork: [{step: a/b, lasts: 1s}]\n")
	step("hosts cannot do it", runner.Options{}, 1, report.Skipped)
	step("hosts may be able now", runner.Options{}, 1, report.Skipped)
	b.describe(t, tests)
	step("one test alone", runner.Options{Tests: []string{"two"}, Again: runner.AgainAll}, 1, report.Passed)
	if cells, err := report.ReadCells(filepath.Join(b.dir, "report", "results.json")); err != nil || len(cells) != 2 {
		t.Errorf("after one test alone, the report has %d tests: %v", len(cells), err)
	}
	if _, err := b.run(t.Context(), runner.Options{Tests: []string{"three"}}); err == nil || !strings.Contains(err.Error(), `no test "three"`) {
		t.Errorf("a test that does not exist: %v", err)
	}
	if _, err := b.run(t.Context(), runner.Options{Systems: []string{"plan-9"}}); err == nil || !strings.Contains(err.Error(), `no system "plan-9"`) {
		t.Errorf("a system that does not exist: %v", err)
	}
}

func TestTestWithMixedResultsIsFlaky(t *testing.T) {
	t.Parallel()
	b := newBench(t, "- name: sometimes\n  installerSpec: KUBERNETES\n  postInstallScript: mkdir $SHARED/one || mkdir $SHARED/two\n")
	c := b.must(t, runner.Options{Repeat: 3})["sometimes/plain"]
	if c.Verdict != report.Flaky || c.Rate() != "2 of 3 passed" {
		t.Errorf("%s, %s", c.Verdict, c.Rate())
	}
}

func TestMachinesOfFailedTestAreKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, "- name: good\n  installerSpec: KUBERNETES\n- name: bad\n  installerSpec: KUBERNETES\n  postInstallScript: touch /root/evidence; false\n")
	c := b.must(t, runner.Options{KeepFailed: true})["bad/plain"]
	left, err := filepath.Glob(filepath.Join(b.dir, "machines", "*", "root", "evidence"))
	if err != nil || len(left) != 1 || len(c.Attempts[0].Machines) != 1 || !slices.Contains(c.Attempts[0].Machines[0].Enter, "run") {
		t.Errorf("left %q, kept %+v, %v", left, c.Attempts[0].Machines, err)
	}
	if all, _ := filepath.Glob(filepath.Join(b.dir, "machines", "*")); len(all) != 1 {
		t.Errorf("the machine of a passed test is left, too: %q", all)
	}
}

// TestLateKillFails has an install that succeeds before it is killed. Its systemd is a small one.
func TestLateKillFails(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
- name: late
  installerSpec: KUBERNETES
  kill: [{step: a/b, after: 10ms}]
  preInstallScript: |
    cat >/usr/local/bin/systemd-run <<'END'
    #!/bin/bash
    mkdir -p /var/lib/sealift/state
    echo '{"step":"a/b","outcome":"started"}' >>/var/lib/sealift/state/journal.jsonl
    while [ "$1" != bash ]; do shift; done
    "$@"
    END
    printf '#!/bin/bash\ncase $* in *MainPID*) echo 999999999 ;; *ExecMainStatus*) echo 0 ;; esac\n' >/usr/local/bin/systemctl
    chmod 755 /usr/local/bin/*
`)
	if c := b.must(t, runner.Options{})["late/plain"]; c.Verdict != report.Failed || !strings.Contains(c.Reason(), "so nothing was killed") {
		t.Errorf("%s: %s", c.Verdict, c.Reason())
	}
}

// TestStoreCredentialsStayOnMachine uses a store with its own password and CA.
func TestStoreCredentialsStayOnMachine(t *testing.T) {
	t.Parallel()
	b := newBench(t, "- name: good\n  installerSpec: KUBERNETES\n")
	file := filepath.Join(b.dir, "ca.pem")
	if err := os.WriteFile(file, []byte(fixture.Certificate(t, "ca", true)), 0o600); err != nil {
		t.Fatal(err)
	}
	cas, err := trust.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	c := b.must(t, runner.Options{Store: "https://me:hunter2@store.example.com/x", CAs: cas})["good/plain"]
	if got := c.Attempts[0].Reproduce; !strings.Contains(got, "store.example.com") || strings.Contains(got, "hunter2") {
		t.Errorf("the report says %s", got)
	}
	if calls, err := os.ReadFile(filepath.Join(b.dir, "bundles")); err != nil || !strings.Contains(string(calls), "--store https://me:hunter2@store.example.com/x") || !strings.Contains(string(calls), "--ca-cert "+file) {
		t.Errorf("sealift was called as %s: %v", calls, err)
	}
}

// TestKilledRunResumes kills the runner at five moments and expects the report of an undisturbed run.
func TestKilledRunResumes(t *testing.T) {
	t.Parallel()
	var tests strings.Builder
	for i := range 6 {
		fmt.Fprintf(&tests, "- name: test %d\n  airgap: true\n  installerSpec: KUBERNETES\n  postInstallScript: sleep 0.%d; test %d != 3\n", i, i, i)
	}
	undisturbed := newBench(t, tests.String())
	want := verdicts(t, undisturbed.must(t, runner.Options{}))
	b := newBench(t, tests.String())
	kills := 0
	for moment := 100 * time.Millisecond; kills < 5; moment += 250 * time.Millisecond {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), runEnv+"="+b.dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(moment, func() { _ = cmd.Process.Kill() })
		if err := cmd.Wait(); err == nil {
			t.Logf("the run ended before %s; killed %d times", moment, kills)
			break
		}
		timer.Stop()
		kills++
	}
	got := verdicts(t, b.must(t, runner.Options{}))
	if got != want || kills == 0 {
		t.Errorf("after %d kills:\n%s\nwant\n%s", kills, got, want)
	}
	var list struct{ Counts report.Counts }
	text, err := os.ReadFile(filepath.Join(b.dir, "report", "results.json"))
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil || list.Counts.Passed != 5 || list.Counts.Failed != 1 {
		t.Errorf("the report counts %+v, %v", list.Counts, err)
	}
}

// verdicts is a report without what differs between any two runs: times, and names of machines.
func verdicts(t *testing.T, cells map[string]report.Cell) string {
	t.Helper()
	var out strings.Builder
	for i := range 6 {
		c := cells[fmt.Sprintf("test-%d/plain", i)]
		if len(c.Attempts) != 1 {
			t.Fatalf("test %d has %d attempts", i, len(c.Attempts))
		}
		fmt.Fprintf(&out, "%s %s %s %q", c.Test, c.Verdict, c.Attempts[0].Digest, c.Reason())
		for _, s := range c.Attempts[0].Steps {
			fmt.Fprintf(&out, " %s=%s", s.Name, s.Verdict)
		}
		out.WriteString("\n")
	}
	return out.String()
}
