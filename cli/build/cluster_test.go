package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/internal/testing/cosigned"
)

// TestPodsGetKeysOfSignaturesInConfiguration has keys in files, which pods would not find.
func TestPodsGetKeysOfSignaturesInConfiguration(t *testing.T) {
	dir, key := t.TempDir(), cosigned.New(t).Public(t)
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	write("app.pub", key)
	o := buildOptions{sources: sources{config: write("files.yaml", "signatures: {example.org: {keys: [app.pub]}}\n")}}
	if _, err := o.podFiles(); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "app.pub")+"; write their content in place of their names") {
		t.Errorf("got %v", err)
	}
	text := "signatures:\n  example.org:\n    keys:\n    - |\n      " + strings.ReplaceAll(strings.TrimSpace(key), "\n", "\n      ") + "\n"
	o.sources.config = write("whole.yaml", text)
	if files, err := o.podFiles(); err != nil || string(files[config.FileName]) != text {
		t.Errorf("got %q, %v", files, err)
	}
}
