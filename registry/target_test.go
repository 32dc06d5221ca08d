package registry_test

import (
	"math/rand"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/realregistry"
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

// TestHostsOfEveryFormArePushed pushes images from registries whose names cannot be part of a repository's path.
func TestHostsOfEveryFormArePushed(t *testing.T) {
	host := realregistry.Start(t)
	image := index(platformImage(t, "amd64", layer(t, 1)))
	a := content(t, map[string]v1Index{"Reg.Example:5000/app:1": image, "[2001:db8::1]:5000/app:1": image, "[2001:db8::2]/app:1": image})
	if _, err := push(t.Context(), a, recorded(t, host)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"reg.example_5000", "2001-0db8-0000-0000-0000-0000-0000-0001_5000", "2001-0db8-0000-0000-0000-0000-0000-0002"} {
		check(t, host+"/mirror/"+want+"/app:1", image)
	}
	if states := prune(t, withChart(t, "none", nil), recorded(t, host)); len(states[registry.Removed]) != 3 {
		t.Errorf("%v", states)
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
