package runner_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/testgrid/report"
	"github.com/sealift/sealift/testgrid/runner"
)

// online has a script for each Installer, by its id.
func online(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("POST /installer", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		switch {
		case err != nil || r.Header.Get("Content-Type") != "text/yaml" || !strings.Contains(string(text), "kind: Installer"):
			http.Error(w, "this is no Installer", http.StatusBadRequest)
		case strings.Contains(string(text), "1.37.0"):
			fmt.Fprintln(w, server.URL+"/newer")
		default:
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintln(w, server.URL+"/older")
		}
	})
	for path, script := range map[string]string{
		"/older": `echo "from the server with $*"; printf '#!/bin/bash\necho "echo joined after $*"\n' >/usr/local/bin/sealift; ` +
			`printf '#!/bin/sh\necho node-1 Ready\n' >/usr/local/bin/kubectl; chmod 755 /usr/local/bin/*`,
		"/newer/upgrade.sh": `echo "newer with $*" >/root/upgraded`,
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, script) })
	}
	return server
}

// TestOnlineTestInstallsFromServer uses a server, and a test that may not use it.
func TestOnlineTestInstallsFromServer(t *testing.T) {
	t.Parallel()
	server := online(t)
	b := newBench(t, strings.ReplaceAll(`
- name: online
  installerSpec: KUBERNETES
  flags: yes labels=a=b
  numSecondaryNodes: 1
  upgradeSpec: {kubernetes: {version: 1.37.0}}
  postUpgradeScript: grep -x "newer with yes yes labels=a=b" /root/upgraded
  expect: [{nodesReady: 1}]
- name: airgap
  airgap: true
  installerSpec: KUBERNETES
- name: released
  installerApiEndpoint: SERVER
  installerSpec: {kubernetes: {version: none}}
  upgradeSpec: {kubernetes: {version: 1.37.0}}
  postUpgradeScript: grep 1.37.0 /root/upgraded
- name: next
  installerSpec: KUBERNETES
  upgradeApiEndpoint: SERVER
  upgradeSpec: {kubernetes: {version: 1.37.0}}
  postUpgradeScript: grep -x "newer with yes" /root/upgraded
- name: released without a network
  airgap: true
  installerApiEndpoint: SERVER
  installerSpec: KUBERNETES
- name: of kURL
  installerApiEndpoint: https://staging.kurl.sh
  installerSpec: KUBERNETES
`, "SERVER", server.URL))
	byServer := b.must(t, runner.Options{})
	for test, want := range map[string][2]string{
		"released": {string(report.Passed), ""}, "next": {string(report.Passed), ""}, "airgap": {string(report.Passed), ""},
		"released-without-a-network": {string(report.Skipped), "no network to reach it"}, "of-kurl": {string(report.Skipped), "kURL's own server"},
	} {
		if c := byServer[test+"/plain"]; string(c.Verdict) != want[0] || !strings.Contains(c.Reason(), want[1]) {
			t.Errorf("%s: %s, %q; want %q", test, c.Verdict, c.Reason(), want)
		}
	}
	cells := b.must(t, runner.Options{Server: server.URL + "/"})
	read := func(test, step string) string {
		t.Helper()
		for _, s := range cells[test+"/plain"].Attempts[0].Steps {
			if s.Name == step {
				text, err := os.ReadFile(filepath.Join(report.Folder{Path: filepath.Join(b.dir, "report")}.Dir(test, "plain", 1), s.Log))
				if err != nil {
					t.Error(err)
				}
				return string(text)
			}
		}
		t.Errorf("%s has no step %s: %s", test, step, cells[test+"/plain"].Reason())
		return ""
	}
	for _, want := range [][3]string{
		{"online", "install", "from the server with yes labels=a=b\n"},
		{"online", "join of node 2", "joined after token create --from " + server.URL + "/older\n"},
		{"airgap", "install", "installing with airgap\n"},
	} {
		if got := read(want[0], want[1]); got != want[2] {
			t.Errorf("%s of %s: %q, want %q", want[1], want[0], got, want[2])
		}
	}
	c := cells["online/plain"]
	if c.Verdict != report.Passed || !strings.HasSuffix(c.Attempts[0].Reproduce, " --server "+server.URL) {
		t.Errorf("%s, %q; reproduce with %q", c.Verdict, c.Reason(), c.Attempts[0].Reproduce)
	}
	elsewhere := b.must(t, runner.Options{Server: server.URL + "/elsewhere"})
	if c := elsewhere["online/plain"]; c.Verdict != report.Failed || !strings.Contains(c.Reason(), "answers 404 without the URL of an Installer") {
		t.Errorf("with another server: %s, %q", c.Verdict, c.Reason())
	}
	if a, b := cells["airgap/plain"].Attempts[0], elsewhere["airgap/plain"].Attempts[0]; !a.Started.Equal(b.Started) {
		t.Error("another server runs an airgap test again")
	}
}
