package console_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/console"
	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/console/service"
	"github.com/sealift/sealift/internal/testing/short"
)

// run runs a command line, and returns its exit code, output and errors.
func run(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = app.Run(t.Context(), "sealift-console", console.Root, args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

// on makes an install root whose console is on.
func on(t *testing.T) string {
	t.Helper()
	short.AsRoot(t, "the console's command line")
	root := t.TempDir()
	dir := filepath.Join(root, "state", "console")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "settings.json"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestTokenLogsIn(t *testing.T) {
	root := on(t)
	code, out, said := run(t, "token", "--root", root, "--role", "operator", "--name", "jane", "-o", "json")
	var made struct {
		Token string
		Ends  time.Time
	}
	if err := json.Unmarshal([]byte(out), &made); code != 0 || err != nil {
		t.Fatal(code, out, said, err)
	}
	got, err := service.Home{Root: root}.Tokens().Redeem(made.Token)
	if err != nil || got.Name != "jane" || got.Role != access.Operator || time.Until(made.Ends) > access.TokenTime {
		t.Errorf("got %+v, %v", got, err)
	}
	if code, _, said := run(t, "token", "--root", root, "--role", "root"); code != app.ExitUsage || !strings.Contains(said, "write viewer, operator or administrator") {
		t.Errorf("another role: %d %s", code, said)
	}
	if code, _, said := run(t, "token", "--root", root, "--name", "a b"); code != app.ExitUsage || !strings.Contains(said, `--name: "a b" is not a name for the audit`) {
		t.Errorf("another name: %d %s", code, said)
	}
}

func TestSessionsAreListedAndRevoked(t *testing.T) {
	root := on(t)
	sessions := service.Home{Root: root}.Sessions()
	_, made, err := sessions.Begin(access.Person{Name: "jane", Role: access.Viewer}, "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	if code, out, said := run(t, "sessions", "--root", root); code != 0 || !strings.Contains(out, made.ID+"  jane  viewer  192.0.2.1") {
		t.Errorf("%d %s %s", code, out, said)
	}
	logs := t.TempDir()
	for _, row := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"sessions", "revoke", "--root", root}, app.ExitUsage, "--all"},
		{[]string{"sessions", "revoke", "--root", root, "--all", made.ID}, app.ExitUsage, "--all"},
		{[]string{"sessions", "revoke", "--root", root, "0000000000000000"}, app.ExitFailed, "there is no session 0000000000000000"},
		{[]string{"sessions", "revoke", "--root", root, "--log-dir", logs, made.ID}, app.ExitDone, ""},
	} {
		if code, _, said := run(t, row.args...); code != row.code || !strings.Contains(said, row.says) {
			t.Errorf("%v: %d %s", row.args, code, said)
		}
	}
	if left, err := sessions.List(); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if _, out, said := run(t, "audit", "--log-dir", logs); !strings.Contains(out, "end session") || !strings.Contains(out, "jane "+made.ID) {
		t.Errorf("the audit: %s %s", out, said)
	}
}

func TestCommandsReportStoppedConsole(t *testing.T) {
	short.AsRoot(t, "the console's command line")
	for _, words := range []string{"off", "token", "sessions", "serve"} {
		if code, _, said := run(t, words, "--root", t.TempDir()); code != app.ExitFailed || !strings.Contains(said, "sealift-console on") {
			t.Errorf("%s: %d %s", words, code, said)
		}
	}
}

// TestPlanOfOffRemovesNothing names what goes, uploads too.
func TestPlanOfOffRemovesNothing(t *testing.T) {
	root := on(t)
	code, out, said := run(t, "off", "--plan", "--root", root)
	if code != app.ExitDone || !strings.Contains(out, "uploaded bundles") {
		t.Errorf("%d %s %s", code, out, said)
	}
	if err := (service.Home{Root: root}).CheckOn(); err != nil {
		t.Error(err)
	}
}

// TestSettingsAreTakenBack gives flags for files the empty value that takes an earlier setting back.
func TestSettingsAreTakenBack(t *testing.T) {
	root := on(t)
	dir := filepath.Join(root, "state", "console")
	if err := os.WriteFile(filepath.Join(dir, "settings.json"), []byte(`{"certificate": "/no/such.pem", "privateKey": "/no/such.key", "fleet": {"program": "/no/such"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"on", "--plan", "--root", root, "--certificate", "", "--private-key", "", "--fleet", "", "--snapshot-identity", "", "--oidc-client-secret", ""}
	if code, _, said := run(t, args...); code == app.ExitUsage || strings.Contains(said, "/no/such") {
		t.Errorf("%d %s", code, said)
	}
}

func TestWrongSettingsAreRefused(t *testing.T) {
	short.AsRoot(t, "the console's command line")
	for says, args := range map[string][]string{
		"--listen":      {"--listen", "6446"},
		"--private-key": {"--certificate", "/a"},
		"--bundles":     {"--bundles", "bundles"},
		"--oidc-url":    {"--oidc-client-id", "console", "--oidc-url", "http://console.example"},
		"--oidc-client": {"--oidc-issuer", "https://login.example.org"},
		"--fleet must":  {"--fleet", "sealift-controller"},
		"need --fleet":  {"--fleet-kubeconfig", "/root/hub.kubeconfig"},
		"not a port":    {"--listen", "10.0.0.1:70000"},
		"leave out":     {"--host", "https://console.example"},
	} {
		if code, _, said := run(t, append([]string{"on", "--plan", "--root", t.TempDir()}, args...)...); code != app.ExitUsage || !strings.Contains(said, says) {
			t.Errorf("%v: %d %s", args, code, said)
		}
	}
}
