package reviews

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// serve answers with the length of each body. A body that begins with w is held until release is closed.
func serve(t *testing.T, l bodyLimits, held chan<- struct{}, release <-chan struct{}) *httptest.Server {
	t.Helper()
	room := newBodyRoom(l)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, done, ok := room.Read(w, req)
		if !ok {
			return
		}
		defer done()
		if bytes.HasPrefix(body, []byte("w")) {
			held <- struct{}{}
			<-release
		}
		_, _ = fmt.Fprint(w, len(body))
	}))
	t.Cleanup(server.Close)
	return server
}

// idle announces a body, sends the beginning of it, and waits.
func idle(t *testing.T, server *httptest.Server, announced, sent int) net.Conn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", announced, strings.Repeat("x", sent)); err != nil {
		t.Fatal(err)
	}
	return c
}

func post(t *testing.T, server *httptest.Server, body io.Reader) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, strings.TrimSpace(string(text))
}

// TestIdleClientsTakeNoMemory has more announced bytes than there is memory. A body of the greatest size still arrives.
func TestIdleClientsTakeNoMemory(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	server := serve(t, bodyLimits{Body: size, All: 2 * size, Time: time.Hour}, nil, nil)
	for range 100 {
		idle(t, server, size, 10)
	}
	for range 3 { // memory is released
		if code, text := post(t, server, bytes.NewReader(make([]byte, size))); code != http.StatusOK || text != strconv.Itoa(size) {
			t.Errorf("%d %s", code, text)
		}
	}
}

// TestBodiesDoNotWaitForEachOther uses more bodies on their way than there is memory, and each has a part of it.
func TestBodiesDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	const size, bodies = 100 << 10, 8
	server := serve(t, bodyLimits{Body: size, All: 2 * size, Time: time.Minute}, nil, nil)
	var begun, all sync.WaitGroup
	begun.Add(bodies)
	for range bodies {
		all.Go(func() {
			from, to := io.Pipe()
			go func() {
				_, _ = to.Write(make([]byte, size/4))
				begun.Done()
				begun.Wait()
				_, _ = to.Write(make([]byte, size*3/4))
				_ = to.Close()
			}()
			if code, text := post(t, server, from); code != http.StatusOK || text != strconv.Itoa(size) {
				t.Errorf("%d %s", code, text)
			}
		})
	}
	all.Wait()
}

// TestBodiesAreBounded sends bodies that are too long to be read.
func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	held, release := make(chan struct{}), make(chan struct{})
	server := serve(t, bodyLimits{Body: 1000, All: 1000, Time: 10 * time.Second}, held, release)
	end := sync.OnceFunc(func() { close(release) })
	t.Cleanup(end) // before the server waits for its last request
	for _, body := range []io.Reader{strings.NewReader(strings.Repeat("x", 1001)), io.MultiReader(strings.NewReader(strings.Repeat("x", 1001)))} {
		if code, text := post(t, server, body); code != http.StatusRequestEntityTooLarge || text != "the body has more than 1000 bytes" {
			t.Errorf("too large: %d %s", code, text)
		}
	}
	late, err := io.ReadAll(idle(t, server, 1000, 10))
	if err != nil || !strings.Contains(string(late), "400 Bad Request") || !strings.Contains(string(late), "the body did not arrive: ") {
		t.Errorf("late: %s, %v", late, err)
	}
	if _, err := io.WriteString(idle(t, server, 1000, 0), strings.Repeat("w", 1000)); err != nil {
		t.Fatal(err)
	}
	<-held
	if code, text := post(t, server, strings.NewReader("x")); code != http.StatusServiceUnavailable {
		t.Errorf("no memory: %d %s", code, text)
	}
	end()
	for code := 0; code != http.StatusOK; { // the held one releases its memory soon
		code, _ = post(t, server, strings.NewReader("x"))
	}
}

// TestResponseMayTakeLongerThanBody takes longer for the response than the timeout of the body.
func TestResponseMayTakeLongerThanBody(t *testing.T) {
	t.Parallel()
	const limit = 5 * time.Second
	room := newBodyRoom(bodyLimits{Body: 10, All: 10, Time: limit})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, done, ok := room.Read(w, req)
		if !ok {
			return
		}
		defer done()
		select {
		case <-req.Context().Done():
		case <-time.After(limit + time.Second):
		}
		_, _ = fmt.Fprint(w, req.Context().Err())
	}))
	t.Cleanup(server.Close)
	if code, text := post(t, server, strings.NewReader("x")); code != http.StatusOK || text != "<nil>" {
		t.Errorf("%d %s", code, text)
	}
}

// TestClientWithEndlessBodiesLeavesMemory has one client that fills its share, including the reserve, and ends nothing. Another one sends a
// small body.
func TestClientWithEndlessBodiesLeavesMemory(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	room := newBodyRoom(bodyLimits{Body: size, All: 4 * size, Time: time.Minute})
	for range 4 * size / chunk {
		one := claim{room: room, client: "192.0.2.1"}
		_, _ = one.try(chunk)
	}
	if !room.aside {
		t.Error("no body has the room that is set aside")
	}
	if _, ok := (&claim{room: room, client: "192.0.2.1"}).try(chunk); ok {
		t.Error("the client got all the memory")
	}
	other := claim{room: room, client: "192.0.2.2"}
	if _, ok := other.try(chunk); !ok {
		t.Errorf("another client got nothing of %d bytes", room.free)
	}
	if other.release(); len(room.clients) != 1 {
		t.Errorf("%v is remembered", room.clients)
	}
}
