package share_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/share"
)

// endless answers until its client takes no more, and says so.
func endless(t *testing.T, patience time.Duration) (address string, ended chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 2*share.MaxPerClient)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		piece := make([]byte, 1<<20)
		for {
			if _, err := w.Write(piece); err != nil {
				ended <- err
				return
			}
		}
	})
	go func() { _ = share.Serve(t.Context(), share.Bounded(l, patience), h) }()
	return l.Addr().String(), ended
}

func request(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestAClientThatTakesNothingIsLeft(t *testing.T) {
	address, ended := endless(t, 100*time.Millisecond)
	for range share.MaxPerClient {
		request(t, address) // and nothing is read
	}
	for n := range share.MaxPerClient {
		select {
		case err := <-ended:
			t.Log(err)
		case <-time.After(30 * time.Second):
			t.Fatalf("%d of %d clients that read nothing still hold their connections", share.MaxPerClient-n, share.MaxPerClient)
		}
	}
	// the places are free again
	if n, err := io.CopyN(io.Discard, request(t, address), 1<<20); err != nil {
		t.Errorf("a client after them got %d bytes: %v", n, err)
	}
}

func TestASlowClientThatGoesOnIsServed(t *testing.T) {
	const patience = 2 * time.Second
	address, ended := endless(t, patience)
	conn := request(t, address)
	for begin := time.Now(); time.Since(begin) < 2*patience; time.Sleep(patience / 60) {
		if _, err := io.CopyN(io.Discard, conn, 1<<20); err != nil {
			t.Fatalf("a client that goes on reading was left after %s: %v", time.Since(begin), err)
		}
	}
	select {
	case err := <-ended:
		t.Errorf("its answer ended: %v", err)
	default:
	}
}

func TestAClientHasOnlySoManyConnections(t *testing.T) {
	n := serve(t)
	var held []net.Conn
	for range share.MaxPerClient {
		conn, err := net.Dial("tcp", n.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		held = append(held, conn)
	}
	more, err := net.Dial("tcp", n.address)
	if err != nil {
		t.Fatal(err)
	}
	defer more.Close()
	if err := more.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil { // less than the server waits for a first byte
		t.Fatal(err)
	}
	if got, err := more.Read(make([]byte, 1)); got != 0 || err == nil || isTimeout(err) {
		t.Errorf("one connection too many is still open: %v", err)
	}
	_ = held[0].Close()
	for range 100 {
		if _, err := n.client(t, token, n.caHash).Cluster(t.Context()); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("after a connection has ended, its place is not free")
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
