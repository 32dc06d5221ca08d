package server

import (
	"container/list"
	"sync"
)

// memory keeps values that were made before, up to some number of bytes. The value that was not used for the longest time
// leaves first.
type memory[V comparable] struct {
	most   int64
	forget func(V) // called without a lock for each value that has left; nil for nothing to do

	mu   sync.Mutex
	size int64
	by   map[string]*list.Element // of *kept[V]
	used *list.List               // the value used last in front
}

type kept[V comparable] struct {
	key   string
	value V
	size  int64
}

func newMemory[V comparable](most int64, forget func(V)) *memory[V] {
	return &memory[V]{most: most, forget: forget, by: make(map[string]*list.Element), used: list.New()}
}

func (m *memory[V]) get(key string) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.by[key]
	if !ok {
		return value, false
	}
	m.used.MoveToFront(e)
	return e.Value.(*kept[V]).value, true
}

// put keeps a value of some size, in bytes. The last one that was put always stays.
func (m *memory[V]) put(key string, value V, size int64) {
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
	m.tell(left)
}

// drop forgets a value, unless another one has taken its place.
func (m *memory[V]) drop(key string, value V) {
	m.mu.Lock()
	var left []V
	if e, ok := m.by[key]; ok && e.Value.(*kept[V]).value == value {
		left = append(left, m.take(e))
	}
	m.mu.Unlock()
	m.tell(left)
}

// clear forgets everything.
func (m *memory[V]) clear() {
	m.mu.Lock()
	var left []V
	for m.used.Len() > 0 {
		left = append(left, m.take(m.used.Back()))
	}
	m.mu.Unlock()
	m.tell(left)
}

func (m *memory[V]) take(e *list.Element) V {
	one := m.used.Remove(e).(*kept[V])
	delete(m.by, one.key)
	m.size -= one.size
	return one.value
}

func (m *memory[V]) tell(left []V) {
	for _, v := range left {
		if m.forget != nil {
			m.forget(v)
		}
	}
}
