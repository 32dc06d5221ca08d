package outage_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/outage"
)

// get requests a server that handles the connection as it likes.
func get(t *testing.T, client *http.Client, address string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.ReadAll(response.Body)
	return err
}

func TestTransientNetworkFailuresAreRecognized(t *testing.T) {
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "the beginning")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	one, two := httptest.NewServer(http.HandlerFunc(cut)), httptest.NewUnstartedServer(http.HandlerFunc(cut))
	two.EnableHTTP2 = true
	two.StartTLS()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	impatient := *silent.Client()
	impatient.Timeout = 10 * time.Millisecond
	gone := httptest.NewServer(nil)
	gone.Close()
	t.Cleanup(func() { one.Close(); two.Close(); silent.CloseClientConnections(); silent.Close() })
	for name, row := range map[string]struct {
		err  error
		want bool
	}{
		"a body that is cut":               {get(t, one.Client(), one.URL), true},
		"an HTTP/2 stream that is cut":     {get(t, two.Client(), two.URL), true},
		"no answer in time":                {get(t, &impatient, silent.URL), true},
		"nobody listens":                   {get(t, http.DefaultClient, gone.URL), true},
		"a machine that is off":            {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, true},
		"a network without a route":        {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ENETUNREACH)}, false},
		"a name server that is busy":       {&net.DNSError{Err: "server misbehaving", IsTemporary: true}, true},
		"a name that does not exist":       {&net.DNSError{Err: "no such host", IsNotFound: true}, false},
		"a certificate of a stranger":      {get(t, http.DefaultClient, two.URL), false},
		"a scheme that nobody speaks":      {get(t, http.DefaultClient, "gopher://127.0.0.1"), false},
		"an error of another kind":         {errors.New("the disk is full"), false},
		"whoever asked changed their mind": {context.Canceled, false},
	} {
		t.Run(name, func(t *testing.T) {
			if row.err == nil {
				t.Fatal("the request succeeded")
			}
			if got := outage.Passes(fmt.Errorf("fetch: %w", row.err)); got != row.want {
				t.Errorf("Passes(%v) = %v", row.err, got)
			}
		})
	}
	var stranger *tls.CertificateVerificationError
	if err := get(t, http.DefaultClient, two.URL); !errors.As(err, &stranger) {
		t.Errorf("got %v, want that the certificate is refused", err)
	}
}

func TestTransientStatusesAreRecognized(t *testing.T) {
	var passing []string
	for code := 100; code < 600; code++ {
		if outage.StatusPasses(code) {
			passing = append(passing, strconv.Itoa(code))
		}
	}
	if got := strings.Join(passing, " "); got != "408 429 500 502 503 504" {
		t.Errorf("got %s", got)
	}
}
