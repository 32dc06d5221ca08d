package fetch

import (
	"context"
	"sync"
)

// Opened keeps values that take long to open, such as connections to registries, by name. Each is for one user at a time. The zero Opened
// is ready to use.
type Opened[T any] struct {
	mu   sync.Mutex
	open map[string]*opened[T]
}

type opened[T any] struct {
	token chan struct{} // a mutex whose waiters can be cancelled
	value T
}

// Get returns the place of a value for the caller's exclusive use until release is called. The caller opens a value that is still zero. The
// error is the cause of ctx, if it ends first.
func (o *Opened[T]) Get(ctx context.Context, name string) (value *T, release func(), err error) {
	o.mu.Lock()
	if o.open == nil {
		o.open = make(map[string]*opened[T])
	}
	one := o.open[name]
	if one == nil {
		one = &opened[T]{token: make(chan struct{}, 1)}
		o.open[name] = one
	}
	o.mu.Unlock()
	select {
	case one.token <- struct{}{}:
		return &one.value, func() { <-one.token }, nil
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}
