package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/bundle/cosign"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/testing/cosigned"
	"github.com/sealift/sealift/internal/testing/imagepackage"
)

// TestInspectListsUnsignedImages uses an image that nobody signed. Without a policy that is only said.
func TestInspectListsUnsignedImages(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	imagepackage.Write(t, "app-1.0.tar.gz", "example.org/app:1")
	if code, out, said := command(t, "inspect", "app-1.0.tar.gz", "--signatures"); code != 0 || !strings.Contains(out, "1 image: 0 verified, 0 refused, 0 not checked, 1 unsigned\n") {
		t.Fatalf("exit %d, %s%s", code, out, said)
	}
	for name, text := range map[string]string{"sealift.yaml": "signatures: {example.org: {keys: [app.pub]}}\n", "app.pub": cosigned.New(t).Public(t)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, out, said := command(t, "inspect", "app-1.0.tar.gz", "--signatures", "-o", "json")
	var report struct{ Images []cosign.Verdict }
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != app.ExitRefused || len(report.Images) != 1 {
		t.Fatalf("exit %d, %v, %s%s", code, err, out, said)
	}
	if v := report.Images[0]; v.State != cosign.Refused || v.Ref != "example.org/app:1" || !strings.Contains(v.Reason, "key app.pub (SHA256:") || !strings.Contains(said, "1 of 1 image without the signature that sealift.yaml demands") {
		t.Errorf("%+v, %s", v, said)
	}
	for _, flags := range [][]string{{"--config", "sealift.yaml"}, {"--base", "app-1.0.tar.gz"}} {
		if code, _, said := command(t, append([]string{"inspect", "app-1.0.tar.gz"}, flags...)...); code != app.ExitUsage {
			t.Errorf("%v: exit %d, %s", flags, code, said)
		}
	}
}
