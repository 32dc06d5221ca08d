package machine_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/testgrid/machine"
)

// podAPI is an API server with a pod that is always up, on this machine. Its systemctl and systemd-run are small.
type podAPI struct {
	*testing.T
	bin string // folder of these programs
	// fail, if not nil, answers requests for pods instead of the server. It reports whether it did.
	fail func(w http.ResponseWriter, r *http.Request) bool

	mu  sync.Mutex
	log []string // URLs of requests
}

// newPodAPI returns the kind of machines that are in pods of this server.
func newPodAPI(t *testing.T, fail func(http.ResponseWriter, *http.Request) bool) (*podAPI, machine.Provider) {
	t.Helper()
	a := &podAPI{T: t, bin: t.TempDir(), fail: fail}
	for name, text := range map[string]string{
		"systemctl":   "echo running\n",
		"systemd-run": "while [ \"$1\" != -- ]; do shift; done\nshift\nexec \"${@//\\$\\$/\\$}\"\n",
	} {
		if err := fixture.WriteProgram(filepath.Join(a.bin, name), "#!/bin/bash\n"+text); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	hosts, err := machine.Parse("hosts.yaml", []byte("systems: {x: {kubernetes: {image: example.org/host:1}}}\n"),
		machine.Options{Connect: func(string) (*rest.Config, error) { return &rest.Config{Host: server.URL}, nil }})
	return a, kind(t, hosts, err)
}

func (a *podAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.log = append(a.log, r.Method+" "+r.URL.String())
	a.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "/exec") {
		websocket.Server{Handler: a.exec, Handshake: func(c *websocket.Config, _ *http.Request) error {
			c.Protocol = []string{"v5.channel.k8s.io"}
			return nil
		}}.ServeHTTP(w, r)
		return
	}
	if a.fail != nil && a.fail(w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "machine"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "192.0.2.7"}})
}

// The channels of the protocol. A message on closing names another channel, which has ended.
const (
	stdinChannel   = 0
	stdoutChannel  = 1
	stderrChannel  = 2
	statusChannel  = 3
	closingChannel = 255
)

// exec runs the command of a request here.
func (a *podAPI) exec(ws *websocket.Conn) {
	ws.PayloadType = websocket.BinaryFrame
	words := ws.Request().URL.Query()["command"]
	cmd := exec.Command(words[0], words[1:]...)
	if found := filepath.Join(a.bin, words[0]); strings.HasPrefix(words[0], "system") {
		cmd = exec.Command(found, words[1:]...)
	}
	cmd.Env = append(os.Environ(), "PATH="+a.bin+":"+os.Getenv("PATH"))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		a.Error(err)
		return
	}
	cmd.Stdout, cmd.Stderr = channel{ws, stdoutChannel}, channel{ws, stderrChannel}
	go func() {
		for {
			var message []byte
			if websocket.Message.Receive(ws, &message) != nil || len(message) == 2 && message[0] == closingChannel {
				_ = stdin.Close()
				return
			}
			if len(message) > 0 && message[0] == stdinChannel {
				_, _ = stdin.Write(message[1:])
			}
		}
	}()
	err = cmd.Run()
	status := metav1.Status{Status: metav1.StatusSuccess}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status = metav1.Status{Status: metav1.StatusFailure, Reason: "NonZeroExitCode", Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "ExitCode", Message: strconv.Itoa(exit.ExitCode())}}}}
	} else if err != nil {
		a.Error(err)
	}
	_ = json.NewEncoder(channel{ws, statusChannel}).Encode(status)
	_ = ws.WriteClose(1000) // RFC 6455, section 7.4.1: normal
}

// channel is one stream of a connection.
type channel struct {
	*websocket.Conn
	number byte
}

func (c channel) Write(p []byte) (int, error) {
	if _, err := c.Conn.Write(append([]byte{c.number}, p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// TestScriptsForPodsAreNotInURLs runs scripts with a password. Logs of an API server have the URLs of all requests.
func TestScriptsForPodsAreNotInURLs(t *testing.T) {
	t.Parallel()
	a, k := newPodAPI(t, nil)
	machines, err := k.(machine.Adopter).Adopt(t.Context(), machine.Request{System: "x", Count: 1}, []machine.Kept{{Name: "machine"}})
	if err != nil {
		t.Fatal(err)
	}
	m := machines[0]
	if text, err := machine.Output(t.Context(), m, "set -eu; password=hunter2; printf '%s|%s' \"$password\" '$$ ü' && cat; echo end"); err != nil || text != "hunter2|$$ üend" {
		t.Errorf("%q, %v", text, err)
	}
	var exit *machine.ExitError
	if _, err := machine.Output(t.Context(), m, "set -e; (exit 7); echo on"); !errors.As(err, &exit) || exit.Code != 7 {
		t.Errorf("got %v", err)
	}
	place := filepath.Join(t.TempDir(), "file")
	content := strings.Repeat("hunter2 and more\n", 100_000)
	if err := machine.Put(t.Context(), m, strings.NewReader(content), place, "0600"); err != nil {
		t.Fatal(err)
	}
	var back strings.Builder
	if err := machine.Get(t.Context(), m, place, &back); err != nil || back.String() != content {
		t.Errorf("%d bytes come back, %v", back.Len(), err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, line := range a.log {
		if strings.Contains(line, "hunter2") || strings.Contains(line, "printf+%27") {
			t.Errorf("a log of the API server has %s", line)
		}
	}
}

// TestPodWaitSurvivesOutage uses an API server that answers with failures before each answer.
func TestPodWaitSurvivesOutage(t *testing.T) {
	t.Parallel()
	failures := map[string][]int{}
	var mu sync.Mutex
	_, k := newPodAPI(t, func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		left, begun := failures[r.Method]
		if !begun {
			left = []int{0, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable}
		}
		if len(left) == 0 {
			return false
		}
		failures[r.Method] = left[1:]
		if left[0] == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(left[0])
		_, _ = io.WriteString(w, "the API server is away")
		return true
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	machines, err := k.Make(ctx, machine.Request{System: "x", Count: 1})
	if err != nil || len(machines) != 1 || machines[0].Address() != "192.0.2.7" {
		t.Fatalf("%v, %v", machines, err)
	}
	if err := machines[0].Remove(ctx); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for method, left := range failures {
		if len(left) > 0 {
			t.Errorf("%s failed, and was not tried again", method)
		}
	}
}

// TestMissingPodEndsWait uses a pod that was removed.
func TestMissingPodEndsWait(t *testing.T) {
	t.Parallel()
	_, k := newPodAPI(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		return true
	})
	if _, err := k.Make(t.Context(), machine.Request{System: "x", Count: 1}); err == nil || !strings.Contains(err.Error(), "wait for the machine machine-") {
		t.Errorf("got %v", err)
	}
}
