package service

import (
	"strings"
	"testing"
)

// TestUnitsNameTheirRootWhateverItIs looks at what systemd would fill in, as systemd.service(5) has it.
func TestUnitsNameTheirRootWhateverItIs(t *testing.T) {
	for root, want := range map[string]string{
		"/var/lib/kurl": `--root "/var/lib/kurl"`, "/srv/%h/$HOME": `--root "/srv/%%h/$$HOME"`, `/a "b"\c`: `--root "/a \"b\"\\c"`,
		"/new\nExecStart=/bin/x": `--root "/new\nExecStart=/bin/x"`,
	} {
		if text := Sharer(root).Text; !strings.Contains(text, want+"\n") || strings.Count(text, "\nExecStart=") != 1 {
			t.Errorf("for %q:\n%s", root, text)
		}
	}
}
