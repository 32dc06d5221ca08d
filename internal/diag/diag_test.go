package diag_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/diag"
)

func TestNearest(t *testing.T) {
	known := []string{"image", "asset", "apt", "apt24", "yum", "metadata"}
	tests := map[string]struct{ word, want string }{
		"a letter too many":          {"imagee", "image"},
		"a letter left out":          {"aset", "asset"},
		"a wrong letter":             {"imaqe", "image"},
		"neighbours swapped":         {"iamge", "image"},
		"two swaps in a longer word": {"emtadaat", "metadata"},
		"another case":               {"YUM", "yum"},
		"the first of equally near":  {"apt2", "apt"},
		"too many slips":             {"imxxx", ""},
		"nothing like it":            {"snap", ""},
		"nothing at all":             {"", ""},
		"a text, not a word":         {strings.Repeat("image", 100), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := diag.Nearest(test.word, known); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestListKeepsFileOrderAndFailsOnErrorsOnly(t *testing.T) {
	var list diag.List
	list.Warnf(diag.Pos{File: "f", Line: 3, Col: 1}, "", "third")
	list.Errorf(diag.Pos{File: "f", Line: 2, Col: 9}, "mend it", "second")
	list.Errorf(diag.Pos{File: "f", Line: 2, Col: 1}, "", "first")
	const want = "f:2:1: error: first\nf:2:9: error: second (mend it)\nf:3:1: warning: third"
	if got := diag.Errors(list.Findings()).Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var errs diag.Errors
	if !errors.As(list.Err(), &errs) || len(errs) != 2 {
		t.Errorf("errors: %v", list.Err())
	}
	var warned diag.List
	warned.Warnf(diag.Pos{File: "f"}, "", "only this")
	if err := warned.Err(); err != nil {
		t.Errorf("a warning became the error %v", err)
	}
}

func TestMessagesQuoteBeginningOfLongText(t *testing.T) {
	long := strings.Repeat("ä", 1000)
	var list diag.List
	list.Errorf(diag.Pos{File: "f"}, "", "%q of %s: %v", long, "a", errors.New(long))
	beginning := strings.Repeat("ä", 100) + "…"
	if got, want := list.Findings()[0].Message, `"`+beginning+`" of a: `+beginning; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := diag.Short("x" + long); got != "x"+strings.Repeat("ä", 99)+"…" {
		t.Errorf("got %s", got)
	}
	if whole := strings.Repeat("a", 500); diag.Short(whole) != whole {
		t.Error("a text that people write is cut")
	}
}
