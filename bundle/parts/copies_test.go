package parts

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGoodCopyReplacesDamagedOne has parts in two folders, as after a copy that was cut off.
func TestGoodCopyReplacesDamagedOne(t *testing.T) {
	data := archive(1<<20, 8)
	first, set := split(t, data, 600<<10, 0)
	if set.Data != 2 {
		t.Fatal(set)
	}
	header, err := headSize(set, 0)
	if err != nil {
		t.Fatal(err)
	}
	second := t.TempDir()
	if err := os.CopyFS(second, os.DirFS(first)); err != nil {
		t.Fatal(err)
	}
	one := filepath.Join(first, Name("x", 1))
	for _, name := range []string{"one is cut off", "the other one has a damaged block"} {
		if name == "one is cut off" {
			err = os.Truncate(one, header+set.Block)
		} else {
			flip(t, second, set, 0, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		got, r, err := read(t, first, second)
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%s: %v", name, err)
		}
		if notes := strings.Join(r.Repaired(), "\n"); !strings.Contains(notes, " is damaged, and another copy of part 1 was read") {
			t.Errorf("%s: %s", name, notes)
		}
		report, err := Check(t.Context(), first, second)
		if err != nil || !report.Repairable || report.State[0].Damaged > 0 || len(report.Notes) == 0 {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
	}
	flip(t, first, set, 0, 5) // a block that neither has
	if _, _, err := read(t, first, second); err == nil {
		t.Error("both copies lack a block")
	}
}
