package build

import (
	"bytes"
	"errors"
	"regexp"
	"testing"
)

// transfers lets a watch see every way in which a transfer goes.
func transfers(w transferWatch) {
	known := w.Start("known", 2048)
	known.Add(2048)
	known.Finish(nil)
	unknown := w.Start("unknown", -1)
	unknown.Add(10)
	unknown.Finish(nil)
	cut := w.Start("cut", 100)
	cut.Add(10)
	cut.Finish(errors.New("connection reset"))
}

func TestEachFinishedTransferIsPrinted(t *testing.T) {
	var out bytes.Buffer
	w := newTransferWatch(&out, "fetched") // a buffer is not a terminal
	transfers(w)
	w.settle()
	want := `^fetched known \(2\.0 KiB in \S+\)
fetched unknown \(10 B in \S+\)
failed cut after 10 B: connection reset
$`
	if !regexp.MustCompile(want).MatchString(out.String()) {
		t.Errorf("got\n%s", out.String())
	}
}

func TestProgressBarsEndWithTheirTransfers(t *testing.T) {
	w := &barWatch{out: new(bytes.Buffer)}
	w.settle() // nothing has started yet
	for range 2 {
		transfers(w)
		w.settle() // does not return while a bar is left
	}
}
