package kurl_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/sealift/sealift/builder/kurl"
)

// saved is the output of 'docker save' for images with these names.
func saved(t *testing.T, refs ...string) string {
	t.Helper()
	images := map[name.Tag]v1.Image{}
	for _, ref := range refs {
		tag, err := name.NewTag(ref)
		if err != nil {
			t.Fatal(err)
		}
		if images[tag], err = random.Image(1<<10, 2); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := tarball.MultiWrite(images, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestKurlUtilityImageBecomesAddOn imports a bundle, and kURL's common.tar.gz, which has no add-on.
func TestKurlUtilityImageBecomesAddOn(t *testing.T) {
	const ref = "replicated/kurl-util:v2026.08.07-0"
	image := saved(t, ref)
	for name, row := range map[string]struct {
		entries  []entry
		packages []string
		leftOut  []string
	}{
		"a bundle":      {append(addOn("kurl/", "velero", "1.18.2"), entry{"kurl/shared/kurl-util.tar", image}), []string{"kurl-util", "velero"}, nil},
		"common.tar.gz": {[]entry{{"./shared/kurl-util.tar", image}, {"./krew/index.tar", "x"}}, []string{"kurl-util"}, []string{"krew"}},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := kurl.Import(t.Context(), bytes.NewReader(archive(t, row.entries...)), kurl.Options{Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, made := range result.Packages {
				names = append(names, made.Name)
			}
			if !slices.Equal(names, row.packages) || !slices.Equal(result.LeftOut, row.leftOut) {
				t.Fatalf("packages %v, left out %v", names, result.LeftOut)
			}
			made := result.Packages[0]
			a := open(t, made)
			if got := a.Index.Packages[0].Images; made.Version != "v2026.08.07-0" || len(got) != 1 || got[0].Ref != ref {
				t.Errorf("%+v has images %+v", made, got)
			}
			data, err := a.ReadFile("addons/kurl-util/v2026.08.07-0/images/kurl-util.tar.gz", 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			z, err := gzip.NewReader(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			if inside, err := io.ReadAll(z); err != nil || string(inside) != image {
				t.Errorf("another image than kURL's: %d bytes, %v", len(inside), err)
			}
		})
	}
}

func TestOtherUtilityImagesAreRefused(t *testing.T) {
	for name, row := range map[string]struct{ image, want string }{
		"no tar":          {"no tar", "shared/kurl-util.tar: not what 'docker save' writes"},
		"a cut one":       {saved(t, "replicated/kurl-util:1")[:700], "not what 'docker save' writes"},
		"an empty one":    {strings.Repeat("\x00", 1024), "has no manifest.json"},
		"another image":   {saved(t, "replicated/other:1"), `its image is named ["replicated/other:1"], not kurl-util:TAG`},
		"several":         {saved(t, "replicated/kurl-util:1", "replicated/kurl-util:2"), "has 2 images, not one"},
		"words for names": {named(t, "x/kurl-util:1 no_remote_load"), "invalid reference format"},
	} {
		t.Run(name, func(t *testing.T) {
			data := archive(t, append(addOn("", "x", "1"), entry{"shared/kurl-util.tar", row.image})...)
			if _, err := kurl.Import(t.Context(), bytes.NewReader(data), kurl.Options{Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

// named is an archive whose image has a name that 'docker save' would not write.
func named(t *testing.T, ref string) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(archive(t, entry{"manifest.json", `[{"RepoTags":["` + ref + `"]}]`})))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
