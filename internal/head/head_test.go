package head_test

import (
	"io"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/head"
)

func TestBufferKeepsFirstBytes(t *testing.T) {
	for text, want := range map[string]struct {
		kept    string
		dropped bool
	}{"": {"", false}, "1234": {"1234", false}, "12345": {"12345", false}, "123456": {"12345", true}, strings.Repeat("1", 1<<20): {"11111", true}} {
		b := head.Buffer{Limit: 5}
		n, err := io.Copy(&b, struct{ io.Reader }{strings.NewReader(text)})
		if n != int64(len(text)) || err != nil || string(b.Bytes()) != want.kept || b.Dropped != want.dropped {
			t.Errorf("%.10q: %d, %v, %q, %v", text, n, err, b.Bytes(), b.Dropped)
		}
	}
}

func TestBufferCountsAllWrites(t *testing.T) {
	b := head.Buffer{Limit: 5}
	for _, text := range []string{"123", "45", "", "6"} {
		if n, err := b.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
	if string(b.Bytes()) != "12345" || !b.Dropped {
		t.Errorf("%q, %v", b.Bytes(), b.Dropped)
	}
}
