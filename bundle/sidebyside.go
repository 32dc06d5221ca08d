package bundle

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// writeSideBySide writes the members to their offsets from layOut, several at once: in order if a sum follows them,
// otherwise the longest first. Afterwards the file offset is at their end.
func writeSideBySide(ctx context.Context, f *os.File, pieces []piece, o WriteOptions) error {
	base, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	order := make([]int, len(pieces))
	for i := range order {
		order[i] = i
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(o.Jobs + 1)
	b := &besides{file: f, written: make([]atomic.Int64, len(pieces)), more: make(chan struct{}, 1)}
	if o.Sum != nil {
		group.Go(func() error { return b.follow(ctx, o.Sum, base, pieces) })
	} else {
		slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(pieces[j].entry.Length, pieces[i].entry.Length) })
	}
	end := base
	for _, i := range order {
		at := base + pieces[i].entry.Offset
		end += pieces[i].entry.Length
		group.Go(func() error {
			return writeInOrder(ctx, &place{besides: b, piece: i, start: at, disk: writeback{f, at}}, pieces[i:i+1])
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	_, err = f.Seek(end, io.SeekStart)
	return err
}

// besides is shared by the writers of members and the goroutine that sums them up.
type besides struct {
	file    *os.File
	written []atomic.Int64 // bytes written of each member
	more    chan struct{}  // signals that written has changed
}

// follow writes the members to sum in order, each byte soon after it was written to the file.
func (b *besides) follow(ctx context.Context, sum io.Writer, base int64, pieces []piece) error {
	for i, p := range pieces {
		for done := int64(0); done < p.entry.Length; {
			ready := b.written[i].Load()
			if ready == done {
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-b.more:
				}
				continue
			}
			if _, err := io.Copy(sum, io.NewSectionReader(b.file, base+p.entry.Offset+done, ready-done)); err != nil {
				return fmt.Errorf("%s: read the written file back: %w", p.entry.Path, err)
			}
			done = ready
		}
	}
	return nil
}

// place is the range of one member in the file.
type place struct {
	*besides
	piece int
	start int64 // its offset
	disk  writeback
}

func (p *place) Write(data []byte) (int, error) {
	at := p.start + p.written[p.piece].Load()
	n, err := p.file.WriteAt(data, at)
	at += int64(n)
	p.written[p.piece].Add(int64(n))
	select {
	case p.more <- struct{}{}:
	default:
	}
	p.disk.upTo(at)
	return n, err
}
