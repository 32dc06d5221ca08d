package machine

import (
	"context"
	"time"
)

// senderInterval is the time between two looks for senders. An unanswered connection is tried for a second at least, since that
// is when the kernel repeats its first packet.
const senderInterval = 500 * time.Millisecond

// every calls do until ctx ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			do()
		}
	}
}
