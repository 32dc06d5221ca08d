package plaintext_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/sealift/sealift/internal/plaintext"
)

var texts = map[string]string{
	"plain\ttext\nin lines\n":                 "plain\ttext\nin lines\n",
	"größe 日本 👩‍💻 שלום":                       "größe 日本 👩‍💻 שלום",
	"\x1b[2J\x1b[Hroot# ":                     `\u001b[2J\u001b[Hroot# `,
	"\x1b]0;title\x07":                        `\u001b]0;title\u0007`,
	"\x1b]52;c;cm0gLXJm\x1b\\":                `\u001b]52;c;cm0gLXJm\u001b\`,
	"\x1b[31;1mred\x1b[0m":                    "red",
	"\x1b[31":                                 `\u001b[31`,
	"\x1b[" + strings.Repeat("1;", 40) + "m":  `\u001b[` + strings.Repeat("1;", 40) + "m",
	"\x1bP1$r\u009b31m\u009c\x7f\x00\x08\v\f": `\u001bP1$r\u009b31m\u009c\u007f\u0000\u0008\u000b\u000c`,
	"10 %\r20 %\r\nok":                        "10 %\n20 %\nok",
	"admin\u202egpj.exe\u2066\u200f":          `admin\u202egpj.exe\u2066\u200f`,
	"a\u2028b":                                `a\u2028b`,
	"tag\U000e0041":                           `tag\udb40\udc41`,
	"not UTF-8: \xff\x9b31m":                  "not UTF-8: \ufffd\ufffd31m",
	"cut \xe2\x80":                            "cut \ufffd\ufffd",
}

// TestControlCharactersAreEscaped writes each text at once, and in chunks of every size.
func TestControlCharactersAreEscaped(t *testing.T) {
	for text, want := range texts {
		for size := range len(text) {
			var out bytes.Buffer
			w := plaintext.NewWriter(&out)
			for rest := text; rest != ""; {
				n := min(size+1, len(rest))
				if got, err := w.Write([]byte(rest[:n])); got != n || err != nil {
					t.Fatal(got, err)
				}
				rest = rest[n:]
			}
			if err := w.Close(); err != nil || out.String() != want {
				t.Errorf("%q in pieces of %d\ngot  %q %v\nwant %q", text, size+1, &out, err, want)
			}
		}
	}
}

func TestJSONStaysSame(t *testing.T) {
	for text := range texts {
		text = strings.ToValidUTF8(text, "")
		document, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		w := plaintext.NewWriter(&out)
		_, err1 := w.Write(document)
		var got string
		if err := errors.Join(err1, w.Close(), json.Unmarshal(out.Bytes(), &got)); err != nil || got != text {
			t.Errorf("%q became %q: %v", text, got, err)
		}
	}
}

func TestCellStaysInItsTable(t *testing.T) {
	var out bytes.Buffer
	table := plaintext.NewTable(tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0))
	table.Println("NAME\tREADY\tWHY")
	type word string
	table.Printf("%s\t%d\t%v\n", "rome\nforged\t1", 3, errors.New("no\x1b[Aroute\nto\thost"))
	table.Printf("%s\t%d\t%s\n", word("a\tb"), 4, []string{"x\ny"})
	want := "NAME             READY  WHY\n" + `rome\nforged\t1  3      no\u001b[Aroute\nto\thost` + "\n" + `a\tb             4      [x\ny]` + "\n"
	if err := table.Flush(); err != nil || out.String() != want {
		t.Errorf("got\n%s%v\nwant\n%s", &out, err, want)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestErrorOfOutputIsReturned(t *testing.T) {
	w := plaintext.NewWriter(broken{})
	if _, err := w.Write([]byte("a")); err == nil {
		t.Error("no error of Write")
	}
	if err := w.Close(); err == nil {
		t.Error("no error of Close")
	}
}

func FuzzWriter(f *testing.F) {
	for text := range texts {
		f.Add(text, 3)
	}
	f.Fuzz(func(t *testing.T, text string, size int) {
		line := plaintext.Line(text)
		if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r >= 0x7f && r <= 0x9f }) {
			t.Errorf("%q became %q", text, line)
		}
	})
}
