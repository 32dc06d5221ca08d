package bridge

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/testing/short"
)

// asServer is a variable with the address of a server and a file: the test program is that server, and ready when there is the file.
const asServer = "BRIDGE_TEST_SERVER"

func TestMain(m *testing.M) {
	if about := os.Getenv(asServer); about != "" {
		if err := serve(strings.Fields(about)); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

// serve is an HTTPS server on a shared port, as an API server is. It is not ready before it has reached itself at [::1]. After SIGTERM
// it no longer listens, and ends half a second later.
func serve(about []string) error {
	shared := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		controlErr := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return errors.Join(controlErr, err)
	}}
	shared.SetMultipathTCP(true) // as Go does for Kubernetes by default
	l, err := shared.Listen(context.Background(), "tcp", about[0])
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return err
	}
	var reached atomic.Bool
	own := strconv.Itoa(os.Getpid())
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(about[1]); err != nil || !reached.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
		fmt.Fprint(w, own)
	}))
	s.Listener, s.Config.ErrorLog = l, log.New(io.Discard, "", 0)
	s.StartTLS()
	fmt.Println(port)
	go func() {
		for said := ""; said != own; time.Sleep(10 * time.Millisecond) {
			said, _, _ = get(context.Background(), "[::1]:"+port)
		}
		reached.Store(true)
	}()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	<-ended
	if err := l.Close(); err != nil {
		return err
	}
	time.Sleep(endTime)
	return nil
}

// endTime is how long such a server answers after it has stopped listening. grace is how long clients may take to record a
// response, and a pair to see a change.
const endTime, grace = 2 * time.Second, time.Second

// serverProcess is such a server in a separate process.
type serverProcess struct {
	*exec.Cmd
	t     *testing.T
	port  string
	ready string // the file
}

// apart is an address of this host that API servers do not use to reach themselves.
const apart = "127.0.0.2:"

func start(t *testing.T, port string, ready bool) *serverProcess {
	t.Helper()
	p := &serverProcess{t: t, ready: filepath.Join(t.TempDir(), "ready")}
	if ready {
		p.becomeReady()
	}
	p.Cmd = exec.Command(os.Args[0])
	p.Env = append(os.Environ(), asServer+"=[::]:"+port+" "+p.ready)
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = p.Process.Kill(), p.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	p.port = strings.TrimSpace(line)
	return p
}

func (p *serverProcess) becomeReady() {
	if err := os.WriteFile(p.ready, nil, 0o600); err != nil {
		p.t.Error(err)
	}
}

func (p *serverProcess) stop() {
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Error(err)
	}
}

// clients ask an address all the time, each time on a new connection.
type clients struct {
	mu       sync.Mutex
	answers  map[string]int // of each process
	failures []error
}

func ask(ctx context.Context, address string) *clients {
	c := &clients{answers: map[string]int{}}
	go func() {
		for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			said, status, err := get(ctx, address)
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("%s answers %d", said, status)
			}
			c.note(ctx, said, err)
		}
	}()
	return c
}

// get asks a server on a new connection.
func get(ctx context.Context, address string) (said string, status int, err error) {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address, nil)
	if err != nil {
		return "", 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), response.StatusCode, err
}

func (c *clients) note(ctx context.Context, process string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.answers[process]++
	} else if ctx.Err() == nil {
		c.failures = append(c.failures, err)
	}
}

// take returns the records of clients since the last call.
func (c *clients) take() (map[string]int, []error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answers, failures := c.answers, c.failures
	c.answers, c.failures = map[string]int{}, nil
	return answers, failures
}

// wildcard is where API servers listen.
const wildcard = "0.0.0.0:"

// two starts two servers, the second one after the first, with a pair that treats them as servers of this host.
func two(t *testing.T, host string, output io.Writer) (first, second *serverProcess, p *pair) {
	t.Helper()
	short.Root(t, "the sockets of another process")
	first = start(t, "0", true)
	port, err := strconv.Atoi(first.port)
	if err != nil {
		t.Fatal(err)
	}
	p = &pair{server: server{address: apart + first.port, bind: host + first.port, port: port}, output: output, bound: 30 * time.Second}
	p.prepare(t.Context())
	second = start(t, first.port, false)
	p.second = second.Process.Pid
	p.end = func(context.Context) error { return second.Process.Signal(syscall.SIGTERM) }
	return first, second, p
}

// noClient is an API that never answers.
func noClient(t *testing.T) kubernetes.Interface {
	t.Helper()
	return kubernetes.NewForConfigOrDie(&rest.Config{Host: "127.0.0.1:1"})
}

// TestStartingServerGetsNoConnection replaces the first server as a kubelet does: the old one ends, and the new one listens a
// while before it is ready. Many connections are made in the meantime, and all of them are answered.
func TestStartingServerGetsNoConnection(t *testing.T) {
	t.Parallel()
	for name, overlap := range map[string]bool{"after the old one": false, "while the old one still listens": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replaced(t, overlap)
		})
	}
}

func replaced(t *testing.T, overlap bool) {
	t.Helper()
	var output bytes.Buffer
	first, second, p := two(t, wildcard, &output)
	clients := ask(t.Context(), p.address)
	settle := func(who string, servers ...*serverProcess) {
		t.Helper()
		answers, failures := clients.take()
		if len(failures) > 0 {
			t.Errorf("%s: %d failures and answers of %v, the first failure: %v", who, len(failures), answers, failures[0])
		}
		for _, one := range servers {
			delete(answers, strconv.Itoa(one.Process.Pid))
		}
		if len(answers) > 0 {
			t.Errorf("%s: answers of others: %v", who, answers)
		}
	}
	time.Sleep(grace)
	settle("while the second one starts", first)
	second.becomeReady()
	if err := p.wait(t.Context(), true, p.bound); err != nil {
		t.Fatal(err)
	}
	settle("when it is ready", first)

	var next *serverProcess
	err := p.while(t.Context(), p.keepAddresses(t.Context(), noClient(t)), func() error {
		time.Sleep(100 * time.Millisecond)
		settle("before anything is replaced", first, second)
		if overlap {
			next = start(t, first.port, false)
			time.Sleep(2 * grace)
		}
		first.stop()
		if err := first.Wait(); err != nil {
			return err
		}
		time.Sleep(grace)
		settle("while the first one ends", first, second)
		if !overlap {
			next = start(t, first.port, false)
		}
		go func() {
			time.Sleep(2 * grace)
			settle("while the new one starts", second)
			next.becomeReady()
		}()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Wait(); err != nil {
		t.Error("the second server was not ended:", err)
	}
	settle("when the first one is back", second, next)
	time.Sleep(grace)
	settle("in the end", next)
	if output.Len() > 0 && !strings.Contains(output.String(), "addresses of the Service") {
		t.Error(output.String())
	}
}

// TestSecondServerStaysUntilFirstAnswers uses a first server that does not come back, and removes its address during the wait.
func TestSecondServerStaysUntilFirstAnswers(t *testing.T) {
	t.Parallel()
	first, second, p := two(t, wildcard, io.Discard)
	second.becomeReady()
	if err := p.wait(t.Context(), true, p.bound); err != nil {
		t.Fatal(err)
	}
	p.bound = 5 * time.Second
	client := fake.NewClientset(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName, Namespace: metav1.NamespaceDefault}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
	})
	slices := client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault)
	err := p.while(t.Context(), p.keepAddresses(t.Context(), client), func() error {
		first.stop()
		time.AfterFunc(endTime+p.bound/2, func() {
			if _, err := slices.Update(t.Context(), &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: serviceName}, AddressType: discoveryv1.AddressTypeIPv4}, metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
		})
		return first.Wait()
	})
	if kept, err := slices.Get(t.Context(), serviceName, metav1.GetOptions{}); err != nil || len(kept.Endpoints) == 0 {
		t.Errorf("no pod reaches the second server: %v", err)
	}
	for _, want := range []string{"not ready after 5s", "does not listen", "the second API server answers in its place", "run the same command again"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	if !runs(second.Process.Pid) {
		t.Error("the second server was ended")
	}
	// The next run finds the second server needed until the first one is ready. Until then, that one gets no connections.
	next := start(t, first.port, false)
	clients := ask(t.Context(), p.address)
	for _, want := range []bool{true, false} {
		later := &pair{server: p.server, second: second.Process.Pid, output: io.Discard}
		later.prepare(t.Context())
		for deadline := time.Now().Add(time.Minute); later.needed(t.Context()) != want; time.Sleep(pause) { // it asks itself before it is ready
			if want || time.Now().After(deadline) {
				t.Fatalf("the second server is needed: %v", !want)
			}
		}
		if _, failures := clients.take(); len(failures) > 0 {
			t.Errorf("%d failures, the first: %v", len(failures), failures[0])
		}
		next.becomeReady()
	}
}

// TestServersAreReadyIfBothAnswer uses a port whose connections cannot be directed.
func TestServersAreReadyIfBothAnswer(t *testing.T) {
	t.Parallel()
	var output bytes.Buffer
	_, second, p := two(t, "192.0.2.1:", &output) // of another host
	if !strings.Contains(output.String(), "new connections go to both API servers") {
		t.Errorf("said %q", output.String())
	}
	if err := p.wait(t.Context(), true, 2*inARowInDoubt*pause); err == nil || !strings.Contains(err.Error(), "not ready") {
		t.Errorf("a server that is not ready: %v", err)
	}
	second.becomeReady()
	if err := p.wait(t.Context(), true, p.bound); err != nil {
		t.Error(err)
	}
}
