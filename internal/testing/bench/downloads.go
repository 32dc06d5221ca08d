package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// downloads measures the server while many clients download at once: the large bundle undisturbed, and a smaller one over failing
// connections.
func (b *bench) downloads(ctx context.Context, s *served) error {
	t := newTable("\twall s\tMB each\tMB/s in all\tcuts\tother bytes\tserver's peak MiB\t")
	for _, row := range []struct{ clients, packages, cuts int }{{20, load.Packages, 0}, {50, 1, 5}} {
		at, err := s.bundle(ctx, row.packages)
		if err != nil {
			return err
		}
		one := download{at: at}
		if err := one.run(ctx, nil); err != nil {
			return err
		}
		var cuts, others atomic.Int64
		begin := time.Now()
		peak, err := s.memory(func() error {
			var group errgroup.Group
			for n := range row.clients {
				group.Go(func() error {
					again := download{at: at}
					err := again.run(ctx, breaks(uint64(n), row.cuts, one.size))
					cuts.Add(int64(again.cuts))
					if again.sha256 != one.sha256 {
						others.Add(1)
					}
					return err
				})
			}
			return group.Wait()
		})
		if err != nil {
			return err
		}
		wall := time.Since(begin).Seconds()
		fmt.Fprintf(t, "%d downloads at once\t%.1f\t%.0f\t%.0f\t%d\t%d\t%d\t\n", row.clients, wall, float64(one.size)/1e6,
			float64(row.clients)*float64(one.size)/1e6/wall, cuts.Load(), others.Load(), peak)
	}
	return t.Flush()
}

// breaks are random lengths after which a line breaks.
func breaks(seed uint64, n int, size int64) []int64 {
	random := rand.New(rand.NewPCG(seed, 0))
	var all []int64
	for range n {
		all = append(all, random.Int64N(size/int64(n)))
	}
	return all
}

// download is one client's download and its result.
type download struct {
	at     string
	size   int64
	cuts   int
	sha256 string
}

// run downloads. The connection breaks after the given lengths; the missing rest of the same bundle is then requested.
func (d *download) run(ctx context.Context, breaks []int64) error {
	sum, have, tag := sha256.New(), int64(0), ""
	for n := 0; ; n++ {
		most := int64(-1)
		if n < len(breaks) {
			most = breaks[n]
		}
		got, err := d.part(ctx, sum, have, most, &tag)
		have += got
		if err != nil {
			return fmt.Errorf("%s at %d: %w", d.at, have, err)
		}
		if have == d.size {
			d.sha256 = hex.EncodeToString(sum.Sum(nil))
			return nil
		}
		d.cuts++
	}
}

// part reads on from an offset: as much as most says, or all.
func (d *download) part(ctx context.Context, sum hash.Hash, off, most int64, tag *string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.at, nil)
	if err != nil {
		return 0, err
	}
	want := http.StatusOK
	if off > 0 {
		want = http.StatusPartialContent
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", off))
		req.Header.Set("If-Range", *tag)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != want {
		return 0, fmt.Errorf("%s in place of %d", resp.Status, want)
	}
	*tag, d.size = resp.Header.Get("ETag"), off+resp.ContentLength
	if most < 0 {
		return io.Copy(sum, resp.Body)
	}
	return io.CopyN(sum, resp.Body, most)
}
