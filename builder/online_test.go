package builder_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/internal/trust"
	"github.com/sealift/sealift/manifest"
)

func TestOneAnsweringHostMeansOnline(t *testing.T) {
	there := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(there.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	mirrors, err := mirror.New(map[string]string{
		"there.example.com": strings.TrimPrefix(there.URL, "http://"), "gone.example.com": strings.TrimPrefix(gone.URL, "http://"),
		"https://there.example.com/": there.URL + "/", "https://gone.example.com/": gone.URL + "/",
	})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		manifest string
		want     bool
	}{
		"a registry that answers, whatever":    {"image a there.example.com/a:1\n", true},
		"a file server that answers, whatever": {"asset a https://there.example.com/a\n", true},
		"one of two that answers":              {"image a gone.example.com/a:1\nasset a https://there.example.com/a\n", true},
		"none that answers":                    {"image a gone.example.com/a:1\nasset a https://gone.example.com/a\n", false},
		"a registry that has a chart":          {"chart a oci://there.example.com/a 1.0.0\n", true},
		"a repository that has a chart":        {"chart a https://there.example.com/charts 1.0.0\n", true},
		"no repository that answers":           {"chart a oci://gone.example.com/a 1.0.0\nchart b https://gone.example.com/charts 1.0.0\n", false},
		"nothing to ask for":                   {"asset a ./a\n", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := manifest.Parse("Manifest", strings.NewReader(test.manifest))
			if err != nil {
				t.Fatal(err)
			}
			if got := builder.Online(t.Context(), mirrors, trust.CAs{}, m); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
