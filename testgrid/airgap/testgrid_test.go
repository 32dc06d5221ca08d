package airgap_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/sealift/sealift/internal/testing/browser"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/report"
)

// gridReport is the output of 'sealift testgrid run -o json'.
type gridReport struct {
	Counts report.Counts
	Cells  []report.Cell
}

// grid runs a file of tests from the command line, and expects this exit code.
func (r delivery) grid(t *testing.T, code int, tests, hosts, out string, flags ...string) (list gridReport) {
	t.Helper()
	cmd := r.gridCommand(t.Context(), tests, hosts, out, flags...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != code {
		t.Fatalf("%v, want exit %d\n%s%s", err, code, stderr.String(), stdout.String())
	}
	t.Log(stderr.String())
	if err := json.Unmarshal(stdout.Bytes(), &list); err != nil {
		t.Fatalf("%v: %s", err, stdout.String())
	}
	return list
}

// gridCommand is the command line of 'sealift testgrid run'.
func (r delivery) gridCommand(ctx context.Context, tests, hosts, out string, flags ...string) *exec.Cmd {
	args := append([]string{"testgrid", "run", tests, "--hosts", hosts, "--store", r.packages, "--out", out, "-o", "json"}, flags...)
	cmd := exec.CommandContext(ctx, r.sealift, args...)
	cmd.Dir = repository
	cmd.Env = append(os.Environ(), "SEALIFT_TESTGRID="+filepath.Join(r.dir(), "sealift-testgrid"))
	return cmd
}

// twoWays are tests of one Installer: from a bundle, and over a network.
const twoWays = `
- name: single node from a bundle
  airgap: true
  cpu: 1
  memory: 2Gi
  installerSpec: INSTALLER
  expect: [{nodesReady: 1}, {podsRunning: all}, {noImagePulled: true}]
- name: control plane and worker from a server
  cpu: 1
  memory: 2Gi
  numSecondaryNodes: 1
  installerSpec: INSTALLER
  expect: [{nodesReady: 2}, {podsRunning: all}, {bytesFetched: {node: 2, most: 1Gi}}]
`

// TestSpecInstallsFromBundleAndServer runs two tests from the command line, side by side. The server is before a bucket, and
// this machine does not reach it.
func TestSpecInstallsFromBundleAndServer(t *testing.T) {
	t.Parallel()
	r := build(t, current, "debian-12")
	compile(t, r.dir(), "./cmd/sealift-testgrid")
	tools := r.tools(t)
	depot := node{lab.Host(t, host.Spec{USB: []string{r.dir(), tools}}), t}
	depot.must("dpkg -i /media/usb*/*.deb 2>&1")
	server := depot.serves()
	dir := t.TempDir()
	tests, hosts, out := filepath.Join(dir, "tests.yaml"), filepath.Join(dir, "hosts.yaml"), filepath.Join(dir, "report")
	place(t, tests, []byte(strings.ReplaceAll(twoWays, "INSTALLER", "{kubernetes: {version: "+current+"}, containerd: {version: "+currentRuntime+"}, flannel: {version: "+currentNetwork+"}}")))
	place(t, hosts, []byte(fmt.Sprintf("lab: {cpu: 3, memory: 6Gi}\nsystems: {debian-12: {lab: debian-12, prepare: {folder: %s, script: dpkg -i *.deb}}}\n", tools)))
	list := r.grid(t, 0, tests, hosts, out, "--server", server)
	if want := (report.Counts{Passed: 2}); list.Counts != want {
		t.Errorf("%s, want %s", list.Counts, want)
	}
	if requests := depot.metric("sealift_http_requests_total.*installer"); requests == 0 {
		t.Error("nobody stored an Installer on the server")
	}
	ctx := browser.ForTest(t)
	var verdicts, steps string
	err := chromedp.Run(ctx,
		chromedp.Navigate("file://"+filepath.Join(out, "index.html")),
		chromedp.Text("table", &verdicts, chromedp.ByQuery),
		chromedp.Click("a.passed", chromedp.ByQuery),
		chromedp.WaitVisible("h1", chromedp.ByQuery),
		chromedp.Text("body", &steps, chromedp.ByQuery),
	)
	if err != nil || strings.Count(verdicts, "passed") != 2 || !strings.Contains(steps, "expect") {
		t.Errorf("the report shows\n%s\n%s\n%v", verdicts, steps, err)
	}
	browser.Accessible(ctx, t)
}
