package share

import (
	"net"
	"time"
)

// MaxPerClient is how many connections a client may have.
const MaxPerClient = maxPerClient

// Bounded is the listener that Mixed takes connections from, with another patience.
func Bounded(l net.Listener, patience time.Duration) net.Listener {
	b := newBounded(l)
	b.writeTime = patience
	return b
}
