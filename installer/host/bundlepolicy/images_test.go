package bundlepolicy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/host/bundlepolicy"
	"github.com/sealift/sealift/internal/testing/cosigned"
	"github.com/sealift/sealift/internal/testing/imagepackage"
)

// TestImagesWithoutSignatureAreRefused has archives with an image as somebody could have changed them after the build.
func TestImagesWithoutSignatureAreRefused(t *testing.T) {
	image, err := random.Image(1000, 1)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	key, dir := cosigned.New(t), t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	write("site.pub", key.Public(t))
	policy := write("signatures.yaml", "signatures: {example.org: {keys: [site.pub]}}\n")
	const ref, other = "example.org/app:1", "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	signed := []v1.Image{key.Simple(t, cosigned.Payload(hash.String()))}
	for name, row := range map[string]struct {
		policy   string
		attached []v1.Image
		want     string
		archive  bool // a docker-archive is beside the layout
	}{
		"a docker-archive beside it":    {policy, signed, "image addons/app/1.0/images/x.tar.gz (sha256:", true},
		"one, without a demand":         {write("free.yaml", "signatures: {example.org: {unsigned: true}}\n"), nil, "", true},
		"signed":                        {policy, []v1.Image{key.Simple(t, cosigned.Payload(hash.String()))}, "", false},
		"unsigned":                      {policy, nil, "image " + ref + " (" + hash.String() + "): it is not signed, and signatures of \"example.org\" in " + policy + " demand one by key site.pub (SHA256:", false},
		"the signature of another":      {policy, []v1.Image{key.Simple(t, cosigned.Payload(other))}, "the signature of another image", false},
		"the signature of another key":  {policy, []v1.Image{cosigned.New(t).Simple(t, cosigned.Payload(hash.String()))}, "not by one of the keys", false},
		"unsigned, without a policy":    {filepath.Join(dir, "absent.yaml"), nil, "", false},
		"unsigned, with another prefix": {write("other.yaml", "signatures: {example.com: {keys: [site.pub]}}\n"), nil, "", false},
		"a policy without signatures":   {write("empty.yaml", "{}\n"), nil, "has no signatures", false},
		"a policy with other things":    {write("more.yaml", "signatures: {}\nmirrors: {}\n"), nil, `unknown key "mirrors"`, false},
		"identities":                    {write("identities.yaml", "signatures: {'*': {trustedRoot: '{}', identities: [{issuer: https://a.b, subject: c}]}}\n"), []v1.Image{key.Simple(t, cosigned.Payload(hash.String()))}, "does not verify identities", false},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "app-1.0.tar.gz")
			files := cosigned.Files(t, ref, hash.String(), row.attached...)
			if row.archive {
				files = append(files, bundle.BytesFile("addons/app/1.0/images/x.tar.gz", 0o644, []byte("x")))
			}
			imagepackage.WriteImage(t, file, ref, image, files...)
			a, err := bundle.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			err = bundlepolicy.CheckImages(a, row.policy)
			if (err != nil) != (row.want != "") || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}
