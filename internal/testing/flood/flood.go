// Package flood has clients that hold on to a server: they open connections, send requests, and read nothing. It is for tests of how
// much a server lets its clients hold. Each client has its own loopback address.
package flood

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/time/rate"
)

// Request is a client's repeated request.
type Request struct {
	Method, Path string
	Range        string // of the header; "" for none
	Token        string // sent as a bearer token; "" for none
	Body         []byte
}

// Client is one attacker.
type Client struct {
	Server string     // host:port
	From   netip.Addr // its own address
	TLS    bool
	// Streams selects HTTP/2, with a window of 0 and many streams on each connection. Otherwise each connection has one request.
	Streams bool
	// Rate is the number of requests, or connections without one, per second.
	Rate int
	// Connections is the most that the client has at a time.
	Connections int
	// Requests are sent in turn. Without any, the client only connects.
	Requests []Request

	counts *counts
}

type counts struct{ sent, failed atomic.Int64 }

// Flood is the task of one attacking process.
type Flood struct {
	Clients []Client
	Time    time.Duration
}

// Report counts requests, and connections without one.
type Report struct{ Sent, Failed int64 }

// Run attacks until the flood's time is up, or ctx ends.
func (f Flood) Run(ctx context.Context) Report {
	ctx, cancel := context.WithTimeout(ctx, f.Time)
	defer cancel()
	var all counts
	var group sync.WaitGroup
	for _, c := range f.Clients {
		c.counts = &all
		attack := c.connect
		if c.Streams {
			attack = c.stream
		}
		group.Go(func() { attack(ctx) })
	}
	group.Wait()
	return Report{all.sent.Load(), all.failed.Load()}
}

// Main attacks in a separate process: it reads a Flood from stdin and prints a Report, in JSON.
func Main() {
	var f Flood
	err := json.NewDecoder(os.Stdin).Decode(&f)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(f.Run(context.Background()))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// floodTime returns how long a test floods a server: 6 seconds, or what SEALIFT_FLOOD says, such as "40s". With the latter a test is strict about
// the slowest answer: it is for a machine that does nothing else.
func floodTime() (d time.Duration, strict bool, err error) {
	text := os.Getenv("SEALIFT_FLOOD")
	if text == "" {
		return 6 * time.Second, false, nil
	}
	d, err = time.ParseDuration(text)
	return d, true, err
}

// start runs Main in another process: this program under another name. It has the lowest priority, since attackers of a real
// server have their own processors. Call wait for the report.
func (f Flood) start(ctx context.Context, program string) (wait func() (Report, error), err error) {
	text, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "nice", "-n", "19", program)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), &out, os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() (r Report, err error) {
		if err := cmd.Wait(); err != nil {
			return r, err
		}
		return r, json.Unmarshal(out.Bytes(), &r)
	}, nil
}

// dial connects from the address of the client.
func (c *Client) dial(ctx context.Context, protocol string) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	if c.From.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.From, 0))
	}
	conn, err := d.DialContext(ctx, "tcp", c.Server)
	if err != nil || !c.TLS {
		return conn, err
	}
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)                                                  // so that little counts as read
	over := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}) //nolint:gosec // it trusts nobody
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if err := over.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return over, conn.SetDeadline(time.Time{})
}

// stream attacks with HTTP/2 until ctx ends.
func (c *Client) stream(ctx context.Context) {
	conns := make([]*streams, c.Connections)
	defer func() {
		for _, s := range conns {
			s.close()
		}
	}()
	for n := range c.ticks(ctx) {
		at := &conns[n%len(conns)]
		if !(*at).alive() {
			(*at).close()
			*at = c.open(ctx)
		}
		c.count((*at).send(c.Requests[n%len(c.Requests)]))
	}
}

func (c *Client) count(err error) {
	if c.counts.sent.Add(1); err != nil {
		c.counts.failed.Add(1)
	}
}

// ticks yields numbers at the rate of the client.
func (c *Client) ticks(ctx context.Context) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		begin := time.Now()
		for n := 0; ctx.Err() == nil; n++ {
			due := begin.Add(time.Duration(n) * time.Second / time.Duration(c.Rate))
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(due)):
			}
			if !yield(n) {
				return
			}
		}
	}
}

// streams is a connection of HTTP/2.
type streams struct {
	conn net.Conn
	mu   sync.Mutex // for writing
	fr   *http2.Framer
	next uint32
	dead atomic.Bool
}

func (c *Client) open(ctx context.Context) *streams {
	conn, err := c.dial(ctx, "h2")
	if err != nil {
		return nil
	}
	s := &streams{conn: conn, fr: http2.NewFramer(conn, conn), next: 1}
	_, err = conn.Write([]byte(http2.ClientPreface))
	if err == nil {
		err = s.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	}
	if err != nil {
		s.close()
		return nil
	}
	go s.listen()
	return s
}

// listen reads frames, and answers those without which a server closes the connection.
func (s *streams) listen() {
	defer s.dead.Store(true)
	for {
		f, err := s.fr.ReadFrame()
		if err != nil {
			return
		}
		s.mu.Lock()
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = s.fr.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				err = s.fr.WritePing(true, f.Data)
			}
		}
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *streams) alive() bool { return s != nil && !s.dead.Load() }

func (s *streams) close() {
	if s != nil {
		_ = s.conn.Close()
	}
}

func (s *streams) send(r Request) error {
	if s == nil {
		return net.ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	fields := [][2]string{{":method", r.Method}, {":scheme", "https"}, {":authority", "localhost"}, {":path", r.Path}}
	if r.Range != "" {
		fields = append(fields, [2]string{"range", r.Range})
	}
	if r.Token != "" {
		fields = append(fields, [2]string{"authorization", "Bearer " + r.Token})
	}
	for _, f := range fields {
		_ = enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // a buffer takes all
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(time.Second))
	err := s.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: s.next, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: len(r.Body) == 0})
	for rest := r.Body; err == nil && len(rest) > 0; {
		part := rest[:min(len(rest), 16<<10)]
		rest = rest[len(part):]
		err = s.fr.WriteData(s.next, len(rest) == 0, part)
	}
	s.next += 2
	return err
}

// holdTime is how long a connection is held before another one replaces it.
const holdTime = 15 * time.Second

// connect attacks with connections until ctx ends: with one request of HTTP/1.1 on each, if there is any. It reads no response, and opens
// another connection in place of an ended one.
func (c *Client) connect(ctx context.Context) {
	limit := rate.NewLimiter(rate.Limit(c.Rate), 1)
	var group sync.WaitGroup
	for n := range c.Connections {
		group.Go(func() {
			for round := n; limit.Wait(ctx) == nil; round++ {
				c.count(c.hold(ctx, round))
			}
		})
	}
	group.Wait()
}

// hold opens a connection, and holds it for holdTime.
func (c *Client) hold(ctx context.Context, n int) error {
	conn, err := c.dial(ctx, "http/1.1")
	if err != nil {
		return err
	}
	defer conn.Close()
	if len(c.Requests) > 0 {
		if err := send(conn, c.Requests[n%len(c.Requests)]); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(holdTime):
		}
		return nil
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetReadDeadline(time.Now().Add(holdTime))
	_, err = conn.Read(make([]byte, 1)) // it notices when the server closes the connection
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || ctx.Err() != nil {
		return nil
	}
	return err
}

func send(conn net.Conn, r Request) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n", r.Method, r.Path, len(r.Body))
	if r.Range != "" {
		fmt.Fprintf(&text, "Range: %s\r\n", r.Range)
	}
	if r.Token != "" {
		fmt.Fprintf(&text, "Authorization: Bearer %s\r\n", r.Token)
	}
	text.WriteString("\r\n")
	text.Write(r.Body)
	_ = conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
	_, err := conn.Write(text.Bytes())
	return err
}

// Kept opens idle connections from one address, and returns how many of them the server has not closed a moment later.
func Kept(ctx context.Context, server string, from netip.Addr, connections int) (kept int, err error) {
	c := Client{Server: server, From: from}
	var all []net.Conn
	defer func() {
		for _, conn := range all {
			_ = conn.Close()
		}
	}()
	for range connections {
		conn, err := c.dial(ctx, "")
		if err != nil {
			return 0, err
		}
		all = append(all, conn)
	}
	time.Sleep(500 * time.Millisecond) // it closes those beyond its bounds at once
	for _, conn := range all {
		_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err := conn.Read(make([]byte, 1))
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			kept++
		}
	}
	return kept, nil
}
