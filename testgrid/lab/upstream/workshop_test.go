package upstream

import (
	"os"
	"strings"
	"testing"
)

func TestTry(t *testing.T) {
	w, err := NewWorkshop(Options{Progress: func(l string) { os.Stderr.WriteString(l + "\n") }})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range strings.Fields(os.Getenv("IDS")) {
		p, err := w.Path(t.Context(), id)
		if err != nil {
			t.Error(err)
			continue
		}
		os.Stderr.WriteString(p + "\n")
	}
}
