package manual_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/manual"
)

func TestEachCommandHasPage(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "0")
	root := &cobra.Command{Use: "ship", Short: "Sail", Long: "Sail the seas."}
	harbor := &cobra.Command{Use: "harbor"}
	harbor.AddCommand(&cobra.Command{Use: "enter", Short: "Enter a harbor", Long: "Enter a harbor at high tide.", Run: func(*cobra.Command, []string) {}})
	root.AddCommand(harbor, manual.Command())
	dir := filepath.Join(t.TempDir(), "man1")
	root.SetArgs([]string{"man", "--out", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"ship.1": "Sail the seas.", "ship-harbor.1": "ship-harbor-enter(1)", "ship-harbor-enter.1": "Enter a harbor at high tide."} {
		page, err := os.ReadFile(filepath.Join(dir, name))
		if text := strings.ReplaceAll(string(page), `\-`, "-"); err != nil || !strings.Contains(text, want) || !strings.Contains(text, "Jan 1970") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ship-man.1")); err == nil {
		t.Error("the hidden command has a page")
	}
}
