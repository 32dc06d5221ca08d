package tail_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sealift/sealift/internal/tail"
)

func TestTailKeepsLastBytes(t *testing.T) {
	for name, row := range map[string]struct {
		limit  int
		writes []string
		want   string
	}{
		"nothing":                           {0, nil, ""},
		"all, when it is little":            {0, []string{"one\n", "two\n"}, "one\ntwo"},
		"whole lines, when it is much":      {10, []string{"first line\n", "last\n", "line\n"}, "line"},
		"of one long line, its end":         {4, []string{"0123456789"}, "6789"},
		"as much as the limit, all of it":   {8, []string{"one\n", "two\n"}, "one\ntwo"},
		"a write that is larger than it is": {5, []string{"a\n", "b\ncd\nefg\n"}, "efg"},
	} {
		t.Run(name, func(t *testing.T) {
			b := tail.Buffer{Limit: row.limit}
			for _, w := range row.writes {
				if n, err := b.Write([]byte(w)); n != len(w) || err != nil {
					t.Fatalf("wrote %d, %v", n, err)
				}
			}
			if got := b.String(); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestLastLinesAreCutWhereTheyCannotBeRead(t *testing.T) {
	var b tail.Buffer
	fmt.Fprintf(&b, "first\nsecond\n%s\nlast\n", strings.Repeat("ü", 100))
	if got, want := b.Last(3, 5), "secon…\nüü…\nlast"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b.Reset()
	if got := b.String(); got != "" {
		t.Errorf("after a reset: %q", got)
	}
}

func TestConcurrentWritesAreKept(t *testing.T) {
	b := tail.Buffer{Limit: 100}
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for range 1000 {
				fmt.Fprintln(&b, "line")
			}
		})
	}
	writers.Wait()
	if got := b.String(); strings.Trim(got, "line\n") != "" || len(got) > 100 {
		t.Errorf("got %q", got)
	}
}
