package bundle

import (
	"fmt"
	"io"
	"sort"
	"sync"
)

const (
	// smallMember is the largest member that is fetched together with its neighbours. A plan reads most small members, in
	// its own order.
	smallMember = 64 << 10
	// maxTogether is the largest size of one request, in bytes.
	maxTogether = 1 << 20
	// maxKept is the maximum number of bytes kept in memory.
	maxKept = 16 << 20
)

// remoteSource is an archive on a network. Section returns a reader for sequential reads up to limit: it requests the whole
// rest at once, and nothing after limit.
type remoteSource interface {
	io.ReaderAt
	Section(limit int64) io.ReaderAt
}

// remote reads the members of an archive over a network in few requests. It fetches small members once.
type remote struct {
	src  remoteSource
	runs []run // in order

	mu   sync.Mutex
	kept map[run][]byte
	size int64 // of all kept bytes
}

// run is a byte range of the archive with adjacent small members.
type run struct{ from, to int64 }

// newRemote prepares the reads of an archive whose members begin at body. It returns nil for a local source.
func newRemote(src io.ReaderAt, body int64, entries []Entry) *remote {
	source, ok := src.(remoteSource)
	if !ok {
		return nil
	}
	r := &remote{src: source, kept: make(map[run][]byte)}
	for _, e := range entries {
		if e.Length == 0 || e.Length > smallMember {
			continue
		}
		from := body + e.Offset
		if n := len(r.runs) - 1; n >= 0 && r.runs[n].to == from && from+e.Length-r.runs[n].from <= maxTogether {
			r.runs[n].to = from + e.Length
		} else {
			r.runs = append(r.runs, run{from, from + e.Length})
		}
	}
	return r
}

// reader returns a reader of a member's byte range. ahead is the number of bytes after it that the caller will also read,
// or alone.
func (r *remote) reader(from, to, ahead int64) io.ReaderAt {
	if ahead != alone {
		return r.src.Section(to + ahead)
	}
	i := sort.Search(len(r.runs), func(i int) bool { return r.runs[i].to >= to })
	if i < len(r.runs) && r.runs[i].from <= from {
		return readGroup{r, r.runs[i]}
	}
	return r.src.Section(to)
}

// readGroup reads from a run of members, which is fetched as a whole.
type readGroup struct {
	*remote
	run
}

// ReadAt implements io.ReaderAt.
func (t readGroup) ReadAt(p []byte, off int64) (int, error) {
	data, err := t.fetch()
	if err != nil {
		return 0, err
	}
	if off < t.from || off > t.to {
		return 0, fmt.Errorf("read at %d, outside the range from %d to %d", off, t.from, t.to)
	}
	n := copy(p, data[off-t.from:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (t readGroup) fetch() ([]byte, error) {
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
