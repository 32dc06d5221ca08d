package shellword_test

import (
	"os/exec"
	"testing"

	"github.com/sealift/sealift/internal/shellword"
)

func TestShellReadsQuotedTextUnchanged(t *testing.T) {
	for _, text := range []string{"", "word", "two words", "it's", "''", `"$HOME" \n`, "$(id)", "a;b|c&d", "*", "line\nline", "-n"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+shellword.Quote(text)).Output()
		if err != nil || string(out) != text {
			t.Errorf("%q: %q, %v", text, out, err)
		}
	}
}
