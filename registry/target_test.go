package registry_test

import (
	"math/rand"
	"strings"
	"testing"

	"github.com/sealift/sealift/registry"
)

func newSource(seed int64) rand.Source { return rand.NewSource(seed) }

func TestTargetsAreParsed(t *testing.T) {
	for text, want := range map[string]registry.Target{
		"oci://harbor.corp/mirror":    {Host: "harbor.corp", Prefix: "mirror"},
		"oci://harbor.corp":           {Host: "harbor.corp"},
		"oci://harbor.corp:8443/a/b/": {Host: "harbor.corp:8443", Prefix: "a/b"},
		"oci://127.0.0.1:5000/x":      {Host: "127.0.0.1:5000", Prefix: "x", Plain: true},
		"oci://localhost/x":           {Host: "localhost", Prefix: "x", Plain: true},
	} {
		if got, err := registry.ParseTarget(text, false); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "harbor.corp/x", "https://harbor.corp/x", "oci://", "oci:///x", "oci://harbor.corp/X", "oci://user:secret@harbor.corp/x", "oci://harbor.corp/x?y", "oci://harbor.corp/a b"} {
		if got, err := registry.ParseTarget(text, false); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, text := range []string{"oci://harbor.corp/mirror", "oci://[::1]:5000/x", "oci://h"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		target, err := registry.ParseTarget(text, false)
		if err != nil {
			return
		}
		if again, err := registry.ParseTarget(target.String(), target.Plain); err != nil || again != target {
			t.Fatalf("%q is %+v, and then %+v, %v", text, target, again, err)
		}
	})
}
