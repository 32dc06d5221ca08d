package server_test

import (
	"bytes"
	"testing"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/server"
)

func TestSupplementIsSignedLikeBundles(t *testing.T) {
	key, err := signature.Generate()
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.Public()
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, filled(t), func(o *server.Options) { o.Key = key })
	id := post(t, s.URL, installer(both))
	for _, path := range []string{"/bundle/" + id + ".tar.gz", "/bundle/" + id + "/packages/base-1.0,user-2.0.tar.gz"} {
		a := ask(t, "GET", s.URL+path, "")
		archive, err := bundle.NewArchive(bytes.NewReader(a.body), int64(len(a.body)))
		if err != nil {
			t.Fatalf("%s: %s: %v", path, a.Status, err)
		}
		if _, err := archive.VerifySignature(public); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
