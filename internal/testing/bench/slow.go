package main

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// The properties of the slow connection.
const (
	latency   = 50 * time.Millisecond
	bandwidth = 20e6 // bytes a second
	piece     = 64 << 10
)

// slowProxy forwards connections to a server with latency and limited bandwidth.
type slowProxy struct {
	listener net.Listener
	target   string
	wait     sync.WaitGroup
	passed   atomic.Int64 // bytes from the server to clients
}

func newSlowProxy(target string) (*slowProxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &slowProxy{listener: l, target: target}
	p.wait.Add(1)
	go p.accept()
	return p, nil
}

func (p *slowProxy) address() string { return p.listener.Addr().String() }

func (p *slowProxy) accept() {
	defer p.wait.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.serve(client)
	}
}

func (p *slowProxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	p.delayed(client, server)
}

// delayed copies with the full latency. Each chunk is sent no sooner than the bandwidth allows.
func (p *slowProxy) delayed(to io.Writer, from io.Reader) {
	type chunk struct {
		data []byte
		at   time.Time
	}
	line := make(chan chunk, 256)
	go func() {
		defer close(line)
		for {
			data := make([]byte, piece)
			n, err := from.Read(data)
			if n > 0 {
				line <- chunk{data[:n], time.Now().Add(latency)}
			}
			if err != nil {
				return
			}
		}
	}()
	free := time.Now()
	for c := range line {
		if free.Before(c.at) {
			free = c.at
		}
		time.Sleep(time.Until(free))
		free = free.Add(time.Duration(float64(len(c.data)) / bandwidth * float64(time.Second)))
		if _, err := to.Write(c.data); err != nil {
			for range line { // let the reader end
			}
			return
		}
		p.passed.Add(int64(len(c.data)))
	}
}

func (p *slowProxy) close() {
	_ = p.listener.Close()
	p.wait.Wait()
}
