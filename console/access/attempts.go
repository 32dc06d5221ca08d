package access

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// The limits of logins: some at once, then one in a pause. They bound work and lines of the audit; no token can be guessed.
const (
	clientBurst = 5
	clientPause = 10 * time.Second
	allBurst    = 60
	allPause    = 500 * time.Millisecond
	maxClients  = 4096
)

// Attempts limits how often clients try to log in. Its methods may be called from several goroutines.
type Attempts struct {
	now func() time.Time

	mu      sync.Mutex
	all     *rate.Limiter
	clients map[string]*rate.Limiter
}

// NewAttempts returns limits that nobody has used.
func NewAttempts(now func() time.Time) *Attempts {
	return &Attempts{now: now, all: rate.NewLimiter(rate.Every(allPause), allBurst), clients: make(map[string]*rate.Limiter)}
}

// Allow reports whether a client may try to log in now. An attempt that is refused counts for nobody else.
func (a *Attempts) Allow(client string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	own, known := a.clients[client]
	if !known {
		if len(a.clients) >= maxClients {
			a.forget(now)
		}
		own = rate.NewLimiter(rate.Every(clientPause), clientBurst)
		a.clients[client] = own
	}
	return own.AllowN(now, 1) && a.all.AllowN(now, 1)
}

// forget drops the clients that have all their attempts back. If no client has, it drops all: the common limit remains.
func (a *Attempts) forget(now time.Time) {
	for client, own := range a.clients {
		if own.TokensAt(now) >= clientBurst {
			delete(a.clients, client)
		}
	}
	if len(a.clients) >= maxClients {
		clear(a.clients)
	}
}
