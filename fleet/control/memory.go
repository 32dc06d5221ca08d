package control

import "sync"

// memory caches what controllers of this hub know about objects, by key. It is lost when the hub ends, so it only saves work, or holds back
// what would be refused. Several goroutines may use it. The zero value is empty.
type memory[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]V
}

func (m *memory[K, V]) get(key K) (value V, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, found = m.values[key]
	return value, found
}

func (m *memory[K, V]) put(key K, value V) {
	m.change(key, func(V, bool) (V, bool) { return value, true })
}

// change replaces a value by what next returns, or deletes it if next returns false. Nothing else uses the memory in the meantime.
func (m *memory[K, V]) change(key K, next func(old V, found bool) (V, bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, found := m.values[key]
	value, keep := next(old, found)
	switch {
	case !keep:
		delete(m.values, key)
	case m.values == nil:
		m.values = map[K]V{key: value}
	default:
		m.values[key] = value
	}
}

func (m *memory[K, V]) forget(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, key)
}

func (m *memory[K, V]) forgetAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.values)
}
