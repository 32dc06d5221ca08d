package builder_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/internal/testing/realregistry"
)

type countedTags struct{ pages atomic.Int32 }

func (c *countedTags) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/tags/list") {
		c.pages.Add(1)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestTagsAreListedPageByPage uses more tags in distribution's registry than one answer has.
func TestTagsAreListedPageByPage(t *testing.T) {
	const tags = 1100
	host := realregistry.Start(t)
	ref, err := name.ParseReference(host + "/mirrored/app:v0.0.0")
	if err != nil {
		t.Fatal(err)
	}
	app, err := mutate.AppendLayers(empty.Image, layer(1, 100))
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, app); err != nil {
		t.Fatal(err)
	}
	var group errgroup.Group
	group.SetLimit(8)
	for n := 1; n < tags; n++ {
		group.Go(func() error { return remote.Tag(ref.Context().Tag(fmt.Sprintf("v0.0.%d", n)), app) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	mirrors, err := mirror.New(map[string]string{"registry.example.io": host + "/mirrored"})
	if err != nil {
		t.Fatal(err)
	}
	var counted countedTags
	source := image.NewSource(image.Options{Mirrors: mirrors, Transport: &counted, Keychain: authn.NewMultiKeychain()})
	got, err := source.Tags(t.Context(), "registry.example.io/app")
	if err != nil || len(got) != tags || counted.pages.Load() < 2 {
		t.Errorf("%d tags in %d pages, %v", len(got), counted.pages.Load(), err)
	}
}
