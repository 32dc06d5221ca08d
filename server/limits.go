package server

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// maxClients is how many addresses are remembered. Who is forgotten begins anew.
	maxClients = 10_000
	// burst is how many times the rate a client may make at once.
	burst = 4
	// requestCost is what a request counts, and rangeCost one for bytes of an archive: a node asks for some hundred ranges, which
	// cost little here, and many nodes may come from one address.
	requestCost, rangeCost = 10, 1
)

// limits bounds the requests of each client.
type limits struct {
	rate rate.Limit
	mu   sync.Mutex
	by   map[string]*list.Element // of *bucket
	used *list.List               // the bucket used last in front
}

type bucket struct {
	client  string
	limiter *rate.Limiter
}

func newLimits(perSecond float64) *limits {
	return &limits{rate: rate.Limit(perSecond * requestCost), by: make(map[string]*list.Element), used: list.New()}
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

// allow counts a request of some cost, unless it is one too many.
func (l *limits) allow(client string, cost int) bool {
	client = rateKey(client)
	l.mu.Lock()
	defer l.mu.Unlock()
	most := max(requestCost, int(burst*float64(l.rate)))
	cost = min(cost, most)
	if e, ok := l.by[client]; ok {
		l.used.MoveToFront(e)
		return e.Value.(*bucket).limiter.AllowN(time.Now(), cost)
	}
	if l.used.Len() == maxClients {
		oldest := l.used.Back()
		delete(l.by, oldest.Value.(*bucket).client)
		l.used.Remove(oldest)
	}
	b := &bucket{client, rate.NewLimiter(l.rate, most)}
	l.by[client] = l.used.PushFront(b)
	return b.limiter.AllowN(time.Now(), cost)
}
