//go:build grid

package airgap_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// tunnel connects programs of one network with a server of another one.
type tunnel struct {
	sent atomic.Int64 // bytes to the server

	mu      sync.Mutex
	open    map[net.Conn]bool
	severed bool
}

// serve carries the connections of a listener until t ends. dial connects to the server.
func serveTunnel(t *testing.T, l net.Listener, dial func(context.Context) (net.Conn, error)) *tunnel {
	t.Helper()
	x := &tunnel{open: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { x.carry(t.Context(), client, dial) })
		}
	})
	t.Cleanup(func() {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		x.cut()
		all.Wait()
	})
	return x
}

// carry copies between a client and the server until one of them ends.
func (x *tunnel) carry(ctx context.Context, client net.Conn, dial func(context.Context) (net.Conn, error)) {
	defer client.Close()
	if !x.add(client) {
		return
	}
	defer x.remove(client)
	server, err := dial(ctx)
	if err != nil {
		return
	}
	defer server.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(client, server) // who is cut off sees it
		_ = client.Close()
	}()
	_, _ = io.Copy(server, io.TeeReader(client, counter{&x.sent}))
	_ = server.Close()
	<-done
}

// counter counts what is written to it.
type counter struct{ bytes *atomic.Int64 }

func (c counter) Write(b []byte) (int, error) {
	c.bytes.Add(int64(len(b)))
	return len(b), nil
}

func (x *tunnel) add(client net.Conn) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.severed {
		x.open[client] = true
	}
	return !x.severed
}

func (x *tunnel) remove(client net.Conn) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.open, client)
}

// cut ends all connections, and refuses others.
func (x *tunnel) cut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.severed = true
	for client := range x.open {
		_ = client.Close()
	}
}

// mend takes connections again.
func (x *tunnel) mend() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.severed = false
}
