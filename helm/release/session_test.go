package release

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// cluster is an API server that begins an answer, or not, and then says nothing more.
type cluster struct{ begins bool }

func (c cluster) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.begins {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(silence{r.Context()})}, nil
	}
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

type silence struct{ context.Context }

func (s silence) Read([]byte) (int, error) {
	<-s.Done()
	return 0, context.Cause(s)
}

// TestRequestsEnd asks clusters that do not answer. Only watches may take long.
func TestRequestsEnd(t *testing.T) {
	const answer, operation = time.Minute, time.Hour
	for query, want := range map[string]time.Duration{"": answer, "?limit=1": answer, "?watch=true": operation} {
		for _, begins := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), operation)
				defer cancel()
				began := time.Now()
				q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://cluster/api/v1/secrets"+query, nil)
				if err != nil {
					t.Fatal(err)
				}
				response, err := transport{ctx, answer, cluster{begins}}.RoundTrip(q)
				if err == nil {
					_, err = io.ReadAll(response.Body)
					_ = response.Body.Close()
				}
				if took := time.Since(began); took != want || want == answer && !strings.Contains(err.Error(), "the cluster has not answered for 1m0s") {
					t.Errorf("%q: ended after %s: %v", query, took, err)
				}
			})
		}
	}
}
