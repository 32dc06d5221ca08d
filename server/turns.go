package server

import (
	"container/list"
	"context"
	"fmt"
	"net/http"
	"sync"
)

const (
	// maxTexts is the maximum number of bytes of Installers and forms that are processed at a time: one of the largest, or many of the
	// usual size. Processing takes up to about a hundred times as much memory.
	maxTexts = maxBody
	// minText is the least that a text counts, because a small text can still lead to a plan or a page with many packages.
	minText = 8 << 10
	// maxWaiting is the maximum number of requests of one client that wait for a turn. Each holds its body in memory.
	maxWaiting = 100
)

// slots limits the texts that are processed at once. When the limit is reached, clients wait in round-robin order: each
// client gets one turn after every other client, however many requests it has sent.
type slots struct {
	mu      sync.Mutex
	free    int64
	waiting map[string]*list.List // *turn by client, the next one first
	order   []string              // clients with waiting requests, the next one first
}

type slot struct {
	size    int64
	granted chan struct{} // closed when the turn is granted
}

func newTurns(room int64) *slots {
	return &slots{free: room, waiting: make(map[string]*list.List)}
}

// take waits until a text of size bytes may be processed. Call done to end the turn.
func (t *slots) take(ctx context.Context, client string, size int64) (done func(), err error) {
	own := &slot{size: min(max(size, minText), maxTexts), granted: make(chan struct{})}
	e, err := t.enqueue(client, own)
	if err != nil {
		return nil, err
	}
	select {
	case <-own.granted:
		return func() { t.end(own) }, nil
	case <-ctx.Done():
		t.leave(client, own, e)
		return nil, context.Cause(ctx)
	}
}

func (t *slots) enqueue(client string, own *slot) (*list.Element, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	queue := t.waiting[client]
	if queue == nil {
		queue = list.New()
		t.waiting[client] = queue
		t.order = append(t.order, client)
	}
	if queue.Len() >= maxWaiting {
		return nil, problem(http.StatusTooManyRequests, fmt.Sprintf("%d requests from this address are already waiting; wait until they are answered", maxWaiting))
	}
	e := queue.PushBack(own)
	t.grant()
	return e, nil
}

// grant starts waiting turns while there is room. It never skips the next client in favour of a smaller text, because large
// texts would then wait forever.
func (t *slots) grant() {
	for len(t.order) > 0 {
		client := t.order[0]
		queue := t.waiting[client]
		next := queue.Front().Value.(*slot)
		if next.size > t.free {
			return
		}
		t.free -= next.size
		close(next.granted)
		queue.Remove(queue.Front())
		t.order = t.order[1:]
		if queue.Len() > 0 {
			t.order = append(t.order, client)
		} else {
			delete(t.waiting, client)
		}
	}
}

func (t *slots) end(own *slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free += own.size
	t.grant()
}

// leave stops waiting. If the turn was granted at the same moment, it ends the turn.
func (t *slots) leave(client string, own *slot, e *list.Element) {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-own.granted:
		t.free += own.size
	default:
		queue := t.waiting[client]
		queue.Remove(e)
		if queue.Len() == 0 {
			delete(t.waiting, client)
			for n, name := range t.order {
				if name == client {
					t.order = append(t.order[:n], t.order[n+1:]...)
					break
				}
			}
		}
	}
	t.grant()
}
