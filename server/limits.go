package server

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// maxClients is how many addresses are remembered. One that is forgotten starts with a full budget.
	maxClients = 10_000
	// burst is how many times the rate a client may make at once.
	burst = 4
	// requestCost is what a request counts, and rangeCost one for bytes of an archive: a node asks for some hundred ranges, which
	// cost little here, and many nodes may come from one address.
	requestCost, rangeCost = 10, 1
)

// limits bounds what each client may do.
type limits struct {
	rate rate.Limit // in a second, in the long run
	most int        // at once
	mu   sync.Mutex
	by   map[string]*list.Element // of *bucket
	used *list.List               // the bucket used last in front
}

type bucket struct {
	client  string
	limiter *rate.Limiter
}

func newLimits(perSecond float64, most int) *limits {
	return &limits{rate: rate.Limit(perSecond), most: most, by: make(map[string]*list.Element), used: list.New()}
}

// requestLimits bounds requests. Each costs what cost says.
func requestLimits(perSecond float64) *limits {
	perSecond *= requestCost
	return newLimits(perSecond, max(requestCost, int(burst*perSecond)))
}

// rateKey groups requests: IPv4 by address, IPv6 by /64, because one client controls the whole network.
func rateKey(client string) string {
	a, err := netip.ParseAddr(client)
	if err != nil || a.Unmap().Is4() {
		return client
	}
	network, _ := a.WithZone("").Prefix(64) // every such address has one
	return network.String()
}

// allow counts something of some cost, unless it is too much.
func (l *limits) allow(client string, cost int) bool {
	client = rateKey(client)
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
