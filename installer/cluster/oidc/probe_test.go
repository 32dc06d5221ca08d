package oidc_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster/oidc"
	"github.com/sealift/sealift/internal/testing/issuer"
	"github.com/sealift/sealift/spec"
)

func TestProbeNamesWhatIsWrong(t *testing.T) {
	good, other, gone := issuer.Start(t), issuer.Start(t), issuer.Start(t)
	other.Says = "https://login.example.org"
	gone.Stop()
	late := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
		_, _ = w.Write([]byte(`{"issuer": "https://` + r.Host + `", "jwks_uri": "https://` + r.Host + `/keys"}`))
	}))
	t.Cleanup(late.Close)
	for name, row := range map[string]struct {
		of        spec.Issuer
		err, hint string
	}{
		"right":            {spec.Issuer{URL: good.URL(), CACertificate: good.CA()}, "", ""},
		"a missing CA":     {spec.Issuer{URL: good.URL()}, "unknown authority", "caCertificate"},
		"another CA":       {spec.Issuer{URL: good.URL(), CACertificate: otherCA(t)}, "unknown authority", "caCertificate"},
		"away":             {spec.Issuer{URL: gone.URL(), CACertificate: good.CA()}, "refused", "open the way"},
		"another name":     {spec.Issuer{URL: other.URL(), CACertificate: other.CA()}, `calls itself "https://login.example.org"`, "exactly"},
		"a slash too many": {spec.Issuer{URL: good.URL() + "/", CACertificate: good.CA()}, "calls itself", "exactly"},
		"another path":     {spec.Issuer{URL: good.URL() + "x", CACertificate: good.CA()}, "404", "url"},
		"another clock":    {spec.Issuer{URL: late.URL, CACertificate: good.CA()}, "differ by 1h", "clock"},
	} {
		t.Run(name, func(t *testing.T) {
			problem := oidc.Probe(t.Context(), row.of)
			switch {
			case row.err == "" && problem != nil:
				t.Errorf("%v", problem.Err)
			case row.err != "" && (problem == nil || !strings.Contains(problem.Err.Error(), row.err) || !strings.Contains(problem.Hint, row.hint)):
				t.Errorf("it says %+v", problem)
			}
		})
	}
}
