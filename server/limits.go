package server

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/sealift/sealift/internal/connlimit"
)

const (
	// maxClients is the maximum number of addresses that are remembered. A forgotten one starts with a full budget.
	maxClients = 10_000
	// burst is the short-term limit as a multiple of the rate.
	burst = 4
	// requestCost is the cost of a request, and rangeCost that of a range of an archive. A node requests several hundred ranges,
	// which are cheap, and many nodes may share one address.
	requestCost, rangeCost = 10, 1
)

// limits is a rate limit per client.
type limits struct {
	rate rate.Limit // per second, on average
	most int        // maximum number at once
	mu   sync.Mutex
	by   map[string]*list.Element // of *bucket
	used *list.List               // most recently used first
}

type bucket struct {
	client  string
	limiter *rate.Limiter
}

func newLimits(perSecond float64, most int) *limits {
	return &limits{rate: rate.Limit(perSecond), most: most, by: make(map[string]*list.Element), used: list.New()}
}

// requestLimits limits requests by their cost.
func requestLimits(perSecond float64) *limits {
	perSecond *= requestCost
	return newLimits(perSecond, max(requestCost, int(burst*perSecond)))
}

// allow spends cost from a client's budget. It returns false if the budget is too small.
func (l *limits) allow(client string, cost int) bool {
	client = connlimit.Key(client)
	l.mu.Lock()
	defer l.mu.Unlock()
	cost = min(cost, l.most)
	if e, ok := l.by[client]; ok {
		l.used.MoveToFront(e)
		return e.Value.(*bucket).limiter.AllowN(time.Now(), cost)
	}
	if l.used.Len() == maxClients {
		oldest := l.used.Back()
		delete(l.by, oldest.Value.(*bucket).client)
		l.used.Remove(oldest)
	}
	b := &bucket{client, rate.NewLimiter(l.rate, l.most)}
	l.by[client] = l.used.PushFront(b)
	return b.limiter.AllowN(time.Now(), cost)
}
