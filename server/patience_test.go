package server_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// deadlines is a response that records the deadlines of its connection.
type deadlines struct {
	*httptest.ResponseRecorder
	events []string
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.events = append(d.events, "read by then")
	return nil
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.events = append(d.events, "write by then")
	return nil
}

func (d *deadlines) Write(p []byte) (int, error) {
	d.events = append(d.events, "write")
	return d.ResponseRecorder.Write(p)
}

func (d *deadlines) WriteString(s string) (int, error) { return d.Write([]byte(s)) }

// TestSlowClientIsServed while it sends and for each chunk that it reads, even where nobody reads its body.
func TestSlowClientIsServed(t *testing.T) {
	h := newServer(t, filled(t), nil)
	front := httptest.NewServer(h)
	t.Cleanup(front.Close)
	id := post(t, front.URL, installer(both))
	for name, r := range map[string]*http.Request{
		"an Installer":       httptest.NewRequest("POST", "/installer", strings.NewReader(installer(both))),
		"one of any length":  httptest.NewRequest("POST", "/installer", io.MultiReader(strings.NewReader(installer(both)))),
		"a form":             httptest.NewRequest("POST", "/compose", strings.NewReader("version.base=1.1")),
		"what nobody reads":  httptest.NewRequest("GET", "/api/packages", strings.NewReader("x")),
		"nothing":            httptest.NewRequest("GET", "/packages/base/1.1", nil),
		"nothing, by a pipe": httptest.NewRequest("GET", "/bundle/"+id+".tar.gz", nil),
	} {
		t.Run(name, func(t *testing.T) {
			d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
			h.ServeHTTP(d, r)
			sends := r.ContentLength != 0
			if sends != (d.events[0] == "read by then") {
				t.Errorf("a client that sends something: %v; what happens: %v", sends, d.events)
			}
			for n, event := range d.events {
				if event == "write" && (n == 0 || d.events[n-1] != "write by then") {
					t.Errorf("piece %d has no end: %v", n, d.events)
				}
			}
			if d.events[len(d.events)-1] != "write" {
				t.Errorf("nothing was written: %v", d.events)
			}
		})
	}
}

func TestTruncatedInstallerIsNotStored(t *testing.T) {
	s := folder(t)
	for name, row := range map[string]struct{ body, want string }{
		"cut off":     {"Content-Length: 1000\r\n\r\nspec:", ""},
		"not chunked": {"Transfer-Encoding: chunked\r\n\r\nspec:\r\n", "HTTP/1.1 400 "},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "POST /installer HTTP/1.1\r\nHost: x\r\n%s", row.body)
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(conn)
			if err != nil || !strings.HasPrefix(string(answer), row.want) || row.want == "" && len(answer) > 0 {
				t.Errorf("%v: %q, want %q", err, answer, row.want)
			}
		})
	}
}
