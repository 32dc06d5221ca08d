package mirror

import (
	"strings"
	"testing"

	"github.com/distribution/reference"
)

// FuzzRequest parses paths of hostile clients. What is accepted names one repository, and one tag or digest in it.
func FuzzRequest(f *testing.F) {
	sha := "sha256:" + strings.Repeat("a", 64)
	for _, path := range []string{
		"/v2/", "/v2/library/busybox/manifests/1.36", "/v2/a/blobs/" + sha, "/v2/a/b/c/referrers/" + sha, "/v2/a/tags/list",
		"/v2/manifests/manifests/manifests", "/v2/a/../b/manifests/1", "/v2/a/manifests/" + strings.Repeat("x", 200), "/v1/index", "/v2/a/manifests/sha512:00",
	} {
		f.Add(path, "docker.io")
		f.Add(path, "")
		f.Add(path, "[::1]:5000")
		f.Add(path, "a/b@c")
	}
	f.Fuzz(func(t *testing.T, path, registry string) {
		r, err := parse(path, registry)
		if err != nil || r.kind == version {
			if err == nil && path != Path {
				t.Fatalf("%q is taken for the version", path)
			}
			return
		}
		named, err := reference.ParseNamed(r.repository)
		if err != nil || named.String() != r.repository || !reference.IsNameOnly(named) || registry != "" && reference.Domain(named) != registry {
			t.Fatalf("%q of %q: repository %q, %v", path, registry, r.repository, err)
		}
		switch {
		case r.kind == tags:
			if r.tag != "" || r.digest != "" {
				t.Fatalf("%q: %+v", path, r)
			}
		case (r.tag == "") == (r.digest == ""):
			t.Fatalf("%q: %+v", path, r)
		case r.tag != "":
			if _, err := reference.WithTag(named, r.tag); err != nil || r.kind != manifests {
				t.Fatalf("%q: %+v, %v", path, r, err)
			}
		case r.digest.Validate() != nil:
			t.Fatalf("%q: digest %q", path, r.digest)
		}
	})
}
