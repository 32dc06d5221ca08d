package parts

import (
	"context"
	"errors"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// The states of a part.
const (
	OK      = "ok"
	Damaged = "damaged"
	Missing = "missing"
)

// Report says what is left of a set.
type Report struct {
	Set
	ID    string  `json:"id"` // sha256 of the set's description
	State []State `json:"state"`
	// Repairable means that the archive can be read as it was.
	Repairable bool `json:"repairable"`
	// Lost is the number of rows, one block of each part, that cannot be repaired. Worst is the number of blocks that the worst row lacks.
	Lost  int64 `json:"lost"`
	Worst int   `json:"worst"`
	// Notes are about files that do not belong to the set, and about damaged copies of parts of which there is a good one.
	Notes []string `json:"notes,omitempty"`
}

// State is that of one part.
type State struct {
	Number int    `json:"number"` // from 1
	File   string `json:"file,omitempty"`
	Parity bool   `json:"parity,omitempty"`
	State  string `json:"state"`
	Blocks int64  `json:"blocks"` // of the part
	// Damaged is how many of its blocks cannot be read.
	Damaged int64  `json:"damaged"`
	Note    string `json:"note,omitempty"` // about its description
}

// Missing is the number of missing parts.
func (r Report) Missing() (n int) {
	for _, s := range r.State {
		if s.State == Missing {
			n++
		}
	}
	return n
}

// Check reads all parts in the named folders, even if too few are there. Names are as for Open. It repairs nothing.
func Check(ctx context.Context, names ...string) (Report, error) {
	f, err := find(names)
	if err != nil {
		return Report{}, err
	}
	set, err := f.choose()
	if err != nil {
		return Report{}, err
	}
	r := f.open(set)
	report, err := r.check(ctx)
	return report, errors.Join(err, r.Close())
}

func (r *Reader) check(ctx context.Context) (Report, error) {
	report := Report{Set: r.set, ID: r.id, Repairable: true}
	rows := r.set.blocksOf(0)
	lacking := make([]uint16, rows)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for part, f := range r.files {
		group.Go(func() error {
			for block := int64(0); f != nil && block < r.set.blocksOf(part) && ctx.Err() == nil; block++ {
				r.read(place{part, block})
			}
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return report, context.Cause(ctx)
	}
	for part, f := range r.files {
		s := State{Number: part + 1, Parity: part >= r.set.Data, State: OK, Blocks: r.set.blocksOf(part)}
		if f == nil {
			s.State, s.Damaged = Missing, s.Blocks
			for block := range s.Blocks {
				lacking[block]++
			}
			report.State = append(report.State, s)
			continue
		}
		f.mu.Lock()
		for block := range f.bad {
			lacking[block]++
		}
		s.File, s.Damaged = f.name(), int64(len(f.bad))
		f.mu.Unlock()
		if f.scratched != "" {
			s.Note = f.scratched + " is damaged"
		}
		if s.Damaged > 0 || s.Note != "" {
			s.State = Damaged
		}
		report.State = append(report.State, s)
	}
	for _, n := range lacking {
		report.Worst = max(report.Worst, int(n))
		if int(n) > r.set.Parity {
			report.Lost++
		}
	}
	report.Repairable = report.Lost == 0
	report.Notes = append(r.spoiled(), r.notes...)
	return report, nil
}
