package source_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sealift/sealift/helm/source"
	"github.com/sealift/sealift/internal/sandbox"
)

// TestMain serves the tasks of this package.
func TestMain(m *testing.M) {
	sandbox.Main(source.Tasks()...)
	os.Exit(m.Run())
}

// TestHostileIndexEndsOnlyItsChild reads indexes that take much more memory than they have bytes, and then a good one.
func TestHostileIndexEndsOnlyItsChild(t *testing.T) {
	content := archive(t, "1.0.0")
	const good = "  web: [{version: 1.0.0, urls: [web.tgz]}]\n"
	var index atomic.Value
	host, access := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/index.yaml" {
			_, _ = io.WriteString(w, index.Load().(string)) //nolint:forcetypeassert // it is a text
			return
		}
		_, _ = w.Write(content)
	}))
	access.Tenant = "stranger"
	for _, c := range []struct {
		text, want string
		limit      bool
	}{
		{text: "entries:\n" + good + "  x: [" + strings.Repeat("[],", 8<<20) + "[]]\n", want: "index.yaml exceeds its limit of ", limit: true},
		{text: "entries: [", want: "index.yaml is damaged"},
		{text: "entries:\n" + good},
	} {
		if c.limit && sandbox.Overhead > 1 {
			continue // the limit of memory is too high then
		}
		index.Store(c.text)
		got, err := source.Fetch(t.Context(), source.Chart{Repository: "https://" + host, Name: "web"}, access)
		if c.want == "" {
			if err != nil || got.Version != "1.0.0" {
				t.Errorf("after a hostile index: %s, %v", got.Version, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, sandbox.ErrLimit) != c.limit {
			t.Errorf("%.20q: %v", c.text, err)
		}
	}
}

// TestEndlessTagsAreAbandoned lists tags of registries that always name another page.
func TestEndlessTagsAreAbandoned(t *testing.T) {
	for what, tags := range map[string]string{"pages without tags": "", "many tags": `"a"` + strings.Repeat(`,"a"`, 9999)} {
		var page atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/tags/list") {
				w.Header().Set("Link", fmt.Sprintf(`</v2/charts/web/tags/list?last=%d>; rel="next"`, page.Add(1)))
				_, _ = io.WriteString(w, `{"tags": [`+tags+`]}`)
			}
		}))
		t.Cleanup(server.Close)
		at := "oci://" + strings.TrimPrefix(server.URL, "http://") + "/charts"
		_, err := source.Fetch(t.Context(), source.Chart{Repository: at, Name: "web", Version: ">1"}, source.Access{Schemes: []string{"http"}})
		if err == nil || !strings.Contains(err.Error(), "the registry lists more than 100000 tags, or 2000 pages of them: give the exact version") {
			t.Errorf("%s: %v", what, err)
		}
		if got := page.Load(); what == "many tags" && got > 12 {
			t.Errorf("%s: %d pages were read", what, got)
		}
	}
}
