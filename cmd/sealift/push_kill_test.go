package main

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/testing/imagepackage"
	"github.com/sealift/sealift/internal/testing/realregistry"
)

// TestKilledPushIsRepeated kills the program with SIGKILL while it pushes. What the killed runs sent is in the record, so that a later push
// can prune it.
func TestKilledPushIsRepeated(t *testing.T) {
	p := patching{t, t.TempDir()}
	host := realregistry.Start(t)
	image, err := random.Image(2<<20, 8)
	if err != nil {
		t.Fatal(err)
	}
	asset := bundle.BytesFile("addons/app/1.0/assets/tool", 0o755, []byte(programText(1, 0)))
	p.write("store/.keep", "")
	imagepackage.WriteImage(t, filepath.Join(p.dir, "store/app.tar.gz"), "a.example/app:1", image, asset)
	imagepackage.WriteImage(t, filepath.Join(p.dir, "store/other.tar.gz"), "a.example/other:1", image)
	push := func(archive, prefix string, more ...string) []string {
		return append([]string{"push", "store/" + archive, "oci://" + host + "/" + prefix}, more...)
	}
	takes := p.run("pushed", push("app.tar.gz", "once")...)
	seed := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	running := 0
	for range kills {
		if p.killed(takes, seed.Float64(), "pushed", push("app.tar.gz", "killed")...) {
			running++
		}
	}
	p.run("pushed", push("app.tar.gz", "killed")...)
	want, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"once", "killed"} {
		got, err := p.pull(host + "/" + prefix + "/a.example/app:1")
		if err != nil {
			t.Fatal(err)
		}
		if d, err := got.Digest(); err != nil || d != want {
			t.Errorf("%s: after %d kills the image is %v, %v", prefix, running, d, err)
		}
		if err := validate.Image(got); err != nil {
			t.Errorf("%s: %v", prefix, err)
		}
		if _, err := p.pull(host + "/" + prefix + "/files/app:1.0"); err != nil {
			t.Errorf("%s: %v", prefix, err)
		}
	}

	out, err := p.command("pushed", push("other.tar.gz", "killed", "--prune", "--yes")...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "0 to remove, 2 removed") {
		t.Errorf("%v: %s", err, out)
	}
	for _, gone := range []string{"a.example/app:1", "files/app:1.0"} {
		if _, err := p.pull(host + "/killed/" + gone); err == nil {
			t.Errorf("%s is there", gone)
		}
	}
	for _, there := range []string{"killed/a.example/other:1", "once/a.example/app:1"} {
		if _, err := p.pull(host + "/" + there); err != nil {
			t.Error(err)
		}
	}
}

// pull reads the manifest of an image.
func (p patching) pull(target string) (v1.Image, error) {
	p.Helper()
	ref, err := name.ParseReference(target)
	if err != nil {
		return nil, err
	}
	return remote.Image(ref)
}
