package bundle

import (
	"fmt"
	"io"
	"sort"
	"sync"
)

const (
	// smallMember is the length up to which a member is fetched together with its neighbours that are as small: a plan reads
	// most of them, in an order of its own.
	smallMember = 64 << 10
	// maxTogether is how much is fetched together.
	maxTogether = 1 << 20
	// maxKept bounds what is kept of that.
	maxKept = 16 << 20
)

// farSource is where an archive is read from over a network. Section gives it to those who read all up to limit, so that it is
// asked for at once, and nothing beyond.
type farSource interface {
	io.ReaderAt
	Section(limit int64) io.ReaderAt
}

// far reads the members of an archive behind a network in few requests, and small ones once.
type far struct {
	src  farSource
	runs []run // in order

	mu   sync.Mutex
	kept map[run][]byte
	size int64 // of all that is kept
}

// run is a range of bytes of the archive, with small members side by side.
type run struct{ from, to int64 }

// newFar prepares for an archive whose members begin at body. It is nil for a source that is near.
func newFar(src io.ReaderAt, body int64, entries []Entry) *far {
	source, ok := src.(farSource)
	if !ok {
		return nil
	}
	f := &far{src: source, kept: make(map[run][]byte)}
	for _, e := range entries {
		if e.Length == 0 || e.Length > smallMember {
			continue
		}
		from := body + e.Offset
		if n := len(f.runs) - 1; n >= 0 && f.runs[n].to == from && from+e.Length-f.runs[n].from <= maxTogether {
			f.runs[n].to = from + e.Length
		} else {
			f.runs = append(f.runs, run{from, from + e.Length})
		}
	}
	return f
}

// reader reads the member at a range, for one who goes on for ahead bytes behind it, or alone.
func (f *far) reader(from, to, ahead int64) io.ReaderAt {
	if ahead != alone {
		return f.src.Section(to + ahead)
	}
	i := sort.Search(len(f.runs), func(i int) bool { return f.runs[i].to >= to })
	if i < len(f.runs) && f.runs[i].from <= from {
		return together{f, f.runs[i]}
	}
	return f.src.Section(to)
}

// together reads from a run, which is fetched as a whole.
type together struct {
	*far
	run
}

// ReadAt implements io.ReaderAt.
func (t together) ReadAt(p []byte, off int64) (int, error) {
	data, err := t.fetch()
	if err != nil {
		return 0, err
	}
	if off < t.from || off > t.to {
		return 0, fmt.Errorf("read at %d of what lies from %d to %d", off, t.from, t.to)
	}
	n := copy(p, data[off-t.from:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (t together) fetch() ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if data := t.kept[t.run]; data != nil {
		return data, nil
	}
	data := make([]byte, t.to-t.from)
	if n, err := t.src.Section(t.to).ReadAt(data, t.from); n < len(data) {
		return nil, err
	}
	if t.size += int64(len(data)); t.size > maxKept {
		clear(t.kept)
		t.size = int64(len(data))
	}
	t.kept[t.run] = data
	return data, nil
}
