package store_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sealift/sealift/store"
)

// AWS itself is out of reach, so its responses are simulated: no server at hand has buckets in several regions.
func TestBucketRegionIsFound(t *testing.T) {
	for _, tt := range []struct {
		name           string
		location, head func(http.ResponseWriter)
		want, err      string
	}{
		{"as the location says", locatedIn("eu-central-1"), refused, "eu-central-1", ""},
		{"the oldest region has no name", locatedIn(""), refused, "us-east-1", ""},
		{"the second has an old one", locatedIn("EU"), refused, "eu-west-1", ""},
		{"as the bucket says to who may not ask", refused, func(w http.ResponseWriter) { w.Header().Set("X-Amz-Bucket-Region", "eu-north-1") }, "eu-north-1", ""},
		{"to a stranger nothing", refused, refused, "", "find the region of bucket some"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodGet && r.URL.Query().Has("location"):
					tt.location(w)
				case r.Method == http.MethodHead && strings.Trim(r.URL.Path, "/") == "some":
					tt.head(w)
				default:
					t.Errorf("%s %s was not expected", r.Method, r.URL)
				}
			}))
			defer server.Close()
			t.Setenv("AWS_ENDPOINT_URL", server.URL)
			t.Setenv("AWS_ACCESS_KEY_ID", "test")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
			got, err := store.Opener{Retry: quick}.Region(t.Context(), "some")
			if got != tt.want || tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("%q (%v), want %q", got, err, tt.want)
			}
		})
	}
}

func refused(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }

func locatedIn(region string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		_, _ = w.Write([]byte(`<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/">` + region + `</LocationConstraint>`))
	}
}
