package server

import (
	"container/list"
	"sync"
)

// lru is a cache that holds a number of bytes. It evicts the least recently used value first.
type lru[V comparable] struct {
	most   int64
	forget func(V) // called without the lock for each evicted value; may be nil

	mu   sync.Mutex
	size int64
	by   map[string]*list.Element // of *kept[V]
	used *list.List               // most recently used first
}

type kept[V comparable] struct {
	key   string
	value V
	size  int64
}

func newLRU[V comparable](most int64, forget func(V)) *lru[V] {
	return &lru[V]{most: most, forget: forget, by: make(map[string]*list.Element), used: list.New()}
}

func (m *lru[V]) get(key string) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.by[key]
	if !ok {
		return value, false
	}
	m.used.MoveToFront(e)
	return e.Value.(*kept[V]).value, true
}

// put adds a value of a size in bytes. The value that was put last is never evicted.
func (m *lru[V]) put(key string, value V, size int64) {
	m.mu.Lock()
	var left []V
	if old, ok := m.by[key]; ok {
		left = append(left, m.take(old))
	}
	m.by[key] = m.used.PushFront(&kept[V]{key, value, size})
	m.size += size
	for m.size > m.most && m.used.Len() > 1 {
		left = append(left, m.take(m.used.Back()))
	}
	m.mu.Unlock()
	m.notify(left)
}

// drop removes a value, unless another value has replaced it.
func (m *lru[V]) drop(key string, value V) {
	m.mu.Lock()
	var left []V
	if e, ok := m.by[key]; ok && e.Value.(*kept[V]).value == value {
		left = append(left, m.take(e))
	}
	m.mu.Unlock()
	m.notify(left)
}

// clear removes all values.
func (m *lru[V]) clear() {
	m.mu.Lock()
	var left []V
	for m.used.Len() > 0 {
		left = append(left, m.take(m.used.Back()))
	}
	m.mu.Unlock()
	m.notify(left)
}

func (m *lru[V]) take(e *list.Element) V {
	one := m.used.Remove(e).(*kept[V])
	delete(m.by, one.key)
	m.size -= one.size
	return one.value
}

func (m *lru[V]) notify(left []V) {
	for _, v := range left {
		if m.forget != nil {
			m.forget(v)
		}
	}
}
