package main

import (
	"bytes"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/cli/app"
)

// TestServerWithOwnCAIsTrusted runs processes, as users do.
func TestServerWithOwnCAIsTrusted(t *testing.T) {
	dir := t.TempDir()
	archive := writePackage(t, dir, "small", 1<<10)
	server := httptest.NewTLSServer(http.FileServer(http.Dir(filepath.Dir(archive))))
	t.Cleanup(server.Close)
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		flags, env []string
		code       int
		says       string
	}{
		"is not trusted":                 {nil, nil, app.ExitFailed, "unknown authority\nwhere the CA of a server or a proxy is your own, name it with --ca-cert FILE"},
		"is trusted by a flag":           {[]string{"--ca-cert", ca}, nil, app.ExitDone, "small"},
		"is trusted by the environment":  {nil, []string{"SEALIFT_CA_CERT=" + ca}, app.ExitDone, "small"},
		"a file that is not there":       {[]string{"--ca-cert", "nowhere.pem"}, nil, app.ExitUsage, "--ca-cert nowhere.pem: "},
		"a file that has no certificate": {[]string{"--ca-cert", archive}, nil, app.ExitUsage, "are not CA certificates"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			cmd := exec.Cmd{Path: self, Args: append([]string{"sealift", "inspect", server.URL + "/small-1.0.tar.gz"}, row.flags...),
				Env: append(os.Environ(), row.env...), Stdout: &out, Stderr: &out}
			_ = cmd.Run() // the exit code says it
			if got := cmd.ProcessState.ExitCode(); got != row.code || !strings.Contains(out.String(), row.says) {
				t.Errorf("exit %d, want %d: %s", got, row.code, &out)
			}
		})
	}
}
