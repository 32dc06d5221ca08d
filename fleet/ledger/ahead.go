package ledger

import (
	"maps"
	"sync"
	"time"

	"github.com/sealift/sealift/fleet/seal"
)

// aheadTime is how long a reserved number may be used.
const aheadTime = 10 * time.Minute

// ahead has numbers reserved in advance. A hub that stops leaves a gap in the sequence, which clusters accept: numbers only have
// to grow. Each number keeps the time at which it was stored, so numbers and times grow together, even between hubs.
type ahead struct {
	mu       sync.Mutex
	expected map[string]int
	taken    reserves // by the write that is on its way
	stored   reserves
}

// reserves has the numbers of clusters.
type reserves map[string]*reserve

// reserve reserves the numbers from next to last, all with one time.
type reserve struct {
	next, last int64
	time       time.Time
}

// use removes and returns a number of a cluster that is greater than floor, if there is one.
func (r reserves) use(cluster string, floor int64, now time.Time) (Entry, bool) {
	own := r[cluster]
	if own == nil {
		return Entry{}, false
	}
	own.next = max(own.next, floor+1)
	if own.next > own.last || now.Sub(own.time) > aheadTime || own.time.Sub(now) > seal.ClockSkew {
		delete(r, cluster)
		return Entry{}, false
	}
	own.next++
	return Entry{Sequence: own.next - 1, Time: own.time}, true
}

// expect adds one number for each of these clusters to those that the next write takes.
func (a *ahead) expect(clusters []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.expected == nil {
		a.expected, a.taken, a.stored = make(map[string]int), make(reserves), make(reserves)
	}
	for _, c := range clusters {
		a.expected[c]++
	}
}

// use returns a number of a cluster that is greater than floor, if one is stored.
func (a *ahead) use(cluster string, floor int64, now time.Time) (Entry, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stored.use(cluster, floor, now)
}

// discard drops the stored numbers of a cluster up to this one.
func (a *ahead) discard(cluster string, last int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.stored[cluster]; r != nil {
		r.next = max(r.next, last+1)
	}
}

// take takes all numbers that are expected, as part of a write, and returns one for a cluster, if it is among them.
func (a *ahead) take(all map[string]Entry, cluster string, floor int64, now time.Time) (Entry, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c, count := range a.expected {
		entry := all[c].after(0, now)
		r := &reserve{next: entry.Sequence, last: entry.Sequence + int64(count) - 1, time: entry.Time}
		entry.Sequence = r.last
		all[c], a.taken[c] = entry, r
	}
	clear(a.expected)
	return a.taken.use(cluster, floor, now)
}

// written ends a write. The numbers of one that failed are expected again.
func (a *ahead) written(ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ok {
		maps.Copy(a.stored, a.taken)
	} else {
		for cluster, r := range a.taken {
			a.expected[cluster] += int(r.last - r.next + 1)
		}
	}
	clear(a.taken)
}
