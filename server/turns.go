package server

import (
	"container/list"
	"context"
	"fmt"
	"net/http"
	"sync"
)

const (
	// maxTexts is how many bytes of Installers and forms the server works on at a time: one of the largest, or many of the
	// usual size. Memory may grow to some hundred times that.
	maxTexts = maxBody
	// minText is what the smallest of them counts: it may still lead to a plan, or to a page of many packages.
	minText = 8 << 10
	// maxWaiting is how many requests of one client may wait for their turn. Each holds what it has sent.
	maxWaiting = 100
)

// turns hands out room for work on texts. When the room is full, clients wait; then each client gets one turn after the other
// clients had theirs, however many requests it has sent.
type turns struct {
	mu      sync.Mutex
	free    int64
	waiting map[string]*list.List // by client, of *turn, the first to be served in front
	order   []string              // clients with waiting requests, the next one first
}

type turn struct {
	size    int64
	granted chan struct{} // closed when the turn has come
}

func newTurns(room int64) *turns {
	return &turns{free: room, waiting: make(map[string]*list.List)}
}

// take waits for room for a text of some size. The turn ends when the caller calls done.
func (t *turns) take(ctx context.Context, client string, size int64) (done func(), err error) {
	own := &turn{size: min(max(size, minText), maxTexts), granted: make(chan struct{})}
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

func (t *turns) enqueue(client string, own *turn) (*list.Element, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	queue := t.waiting[client]
	if queue == nil {
		queue = list.New()
		t.waiting[client] = queue
		t.order = append(t.order, client)
	}
	if queue.Len() >= maxWaiting {
		return nil, problem(http.StatusTooManyRequests, fmt.Sprintf("%d requests from this address wait for their turn; wait until they are answered", maxWaiting))
	}
	e := queue.PushBack(own)
	t.grant()
	return e, nil
}

// grant serves clients in turn while there is room. The next client is waited for, even if another one needs less room: large
// texts would wait for ever otherwise.
func (t *turns) grant() {
	for len(t.order) > 0 {
		client := t.order[0]
		queue := t.waiting[client]
		next := queue.Front().Value.(*turn)
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

func (t *turns) end(own *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free += own.size
	t.grant()
}

// leave gives up waiting. The turn may have come at the same moment; then it ends.
func (t *turns) leave(client string, own *turn, e *list.Element) {
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
