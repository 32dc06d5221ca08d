package share_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster/share"
)

func TestConnectionsPerClientAreBounded(t *testing.T) {
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
