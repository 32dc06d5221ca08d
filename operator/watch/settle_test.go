package watch

import (
	"runtime"
	"testing"
)

// TestSyncedNeedsTriedAndPresentObjects: a waiter for the try must not mistake an arrived list for a missing one.
func TestSyncedNeedsTriedAndPresentObjects(t *testing.T) {
	list := key{kind: "configmap"}
	for range 20_000 {
		s := &Subscription{
			tried: make(chan struct{}), synced: make(chan struct{}), begun: true,
			missing: map[key]bool{list: true}, untried: map[key]bool{list: true},
		}
		go s.arrived(list, true)
		for waits := true; waits; {
			select {
			case <-s.Tried():
				waits = false
			default:
				runtime.Gosched()
			}
		}
		select {
		case <-s.Synced():
		default:
			t.Fatal("the list was tried and is here, and the subscription is not synced")
		}
	}
}
