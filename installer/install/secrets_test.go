package install

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/spec"
)

// TestRunLogsHaveNoSecrets runs hooks that print their secrets. The password that the outro prints is on the terminal, and in
// no file.
func TestRunLogsHaveNoSecrets(t *testing.T) {
	short.AsRoot(t, "an install")
	const addOn = `
-- console/1.0.0/Manifest --
-- console/1.0.0/install.sh --
console_pre_init() {
    GENERATED_PASSWORD=made-up-by-hook
    echo "from the Installer: $CONSOLE_ADMIN_PASSWORD $(printf %s "$CONSOLE_ADMIN_PASSWORD" | base64), user $CONSOLE_USER"
}
console_post_init() { echo "the pod has $GENERATED_PASSWORD"; }
console_outro() { echo "log in as $CONSOLE_USER with $GENERATED_PASSWORD"; }
`
	text := writeSpec(t, map[string]map[string]any{"console": {"version": "1.0.0", "user": "operator", "adminPassword": "opensesame", "backends": []any{map[string]any{"authToken": "deeply-nested"}}}})
	data := kurlBundle(t, text, txtar.Parse([]byte(addOn)).Files)
	var terminal bytes.Buffer
	i, err := Prepare(t.Context(), Options{
		Open: func() (*bundle.Archive, error) { return openBundle(t, data), nil },
		Adjust: func(*spec.Installer) (*spec.Installer, error) {
			return spec.Parse("installer.yaml", strings.NewReader(text))
		},
		Scope: node.Scope{Root: t.TempDir(), LogDir: t.TempDir()}, Binary: "secrets_test.go", Outro: &terminal,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := i.secrets(); strings.Join(got, " ") != "opensesame deeply-nested" && strings.Join(got, " ") != "deeply-nested opensesame" {
		t.Errorf("the secrets are %q", got)
	}
	for _, a := range i.addOns {
		if _, err := i.extract(a)(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range i.plan {
		if step.AddOn == "console" && step.Phase != lifecycle.Install && strings.HasPrefix(step.Title, "run its hook") {
			if _, err := step.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(i.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"opensesame", "b3BlbnNlc2FtZQ", "made-up-by-hook", "deeply-nested"} {
		if bytes.Contains(log, []byte(secret)) {
			t.Errorf("the log has %s:\n%s", secret, log)
		}
	}
	if !bytes.Contains(log, []byte("user operator")) || !bytes.Contains(log, []byte("the pod has ***HIDDEN***")) {
		t.Errorf("the log is\n%s", log)
	}
	if got := terminal.String(); got != "log in as operator with made-up-by-hook\n" {
		t.Errorf("people see %q", got)
	}
}

// TestWarningsOfHooksReachPeople: hooks may print a line in parts.
func TestWarningsOfHooksReachPeople(t *testing.T) {
	var terminal bytes.Buffer
	log := node.NewLog(t.TempDir(), lifecycle.Installing, nil)
	o := newHookOutput(log, &terminal)
	o.hide("made-up-by-hook")
	for _, part := range []string{"begins\nwarn", "ing: made-up-by-hook is weak\n", "no warning: a\nfailed: b\n", "warning: c\nends\n"} {
		if n, err := o.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if got := terminal.String(); got != "warning: ***HIDDEN*** is weak\nwarning: c\n" {
		t.Errorf("people see %q", got)
	}
}
