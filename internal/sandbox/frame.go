package sandbox

import (
	"bytes"
	"encoding/gob"
	"errors"
	"io"
	"time"
)

// frame is the message of both sides: a request, a question, an answer, or the result.
type frame struct {
	Task   string // of a request
	Limits Limits // of a request
	Data   []byte
	Err    string
	Limit  string // the limit that a result exceeds, or ""
	Ask    bool   // a question
	Used   bool   // the child took so much memory that it is not used again
}

// wire is one side of the pipes between a process and its child.
type wire struct {
	in  *gob.Encoder
	out *gob.Decoder
	cap *capped
}

// frameSlack bounds the bytes of a frame in addition to its data.
const frameSlack = 64 << 10

func newWire(r io.Reader, w io.Writer) *wire {
	c := &capped{r: r}
	return &wire{in: gob.NewEncoder(w), out: gob.NewDecoder(c), cap: c}
}

func (w *wire) send(f frame) error { return w.in.Encode(f) }

// receive reads a frame of at most size bytes, and fails at a larger one.
func (w *wire) receive(size int64) (f frame, err error) {
	w.cap.left = size + frameSlack
	err = w.out.Decode(&f)
	return f, err
}

// capped ends with an error after left bytes.
type capped struct {
	r    io.Reader
	left int64
}

func (c *capped) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errors.New("the frame is too large")
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(value)
	return b.Bytes(), err
}

func decode(data []byte, into any) error { return gob.NewDecoder(bytes.NewReader(data)).Decode(into) }

// idleTime is how long a child waits for work.
const idleTime = time.Minute
