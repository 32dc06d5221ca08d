package install

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/internal/testing/containerd"
	"github.com/sealift/sealift/internal/testing/imagepackage"
)

const shop = "registry.example.com/shop/web:1"

// shopImage is an image for this host, with layers of some size.
func shopImage(t *testing.T, bytes int64) v1.Image {
	t.Helper()
	image, err := random.Image(bytes, 2)
	if err != nil {
		t.Fatal(err)
	}
	return imagepackage.Runnable(t, image)
}

// ociLayout writes an OCI layout whose image is called ref, "" for an image without a name, and for another platform beside it.
func ociLayout(t *testing.T, image v1.Image, ref string) string {
	t.Helper()
	dir := t.TempDir()
	written, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	annotations := map[string]string{"org.opencontainers.image.ref.name": "latest"} // a tag alone is not a name
	if ref != "" {
		annotations["org.opencontainers.image.ref.name"] = ref
	}
	if err := written.AppendImage(image, layout.WithAnnotations(annotations)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// tarOf packs a folder, compressed if its name says so.
func tarOf(t *testing.T, dir, file string) string {
	t.Helper()
	file = filepath.Join(t.TempDir(), file)
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out io.WriteCloser = f
	if strings.HasSuffix(file, ".gz") {
		out = gzip.NewWriter(f)
	}
	archive := tar.NewWriter(out)
	if err := errors.Join(archive.AddFS(os.DirFS(dir)), archive.Close()); err != nil {
		t.Fatal(err)
	}
	if out != f {
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// dockerSave writes an image as 'docker save' of old did.
func dockerSave(t *testing.T, image v1.Image, ref string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "docker.tar")
	tag, err := name.NewTag(ref)
	if err == nil {
		err = tarball.WriteToFile(file, tag, image)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// from opens a source as a bundle, if it is one.
func from(source, socket, name string) AddOptions {
	open := func() (*bundle.Archive, error) { return bundle.Open(source) }
	return AddOptions{ImageOptions: ImageOptions{Archive: source, Open: open, Socket: socket, Progress: func(string) {}}, Name: name}
}

func add(ctx context.Context, o AddOptions) (_ Addition, err error) {
	a, err := OpenImages(ctx, o)
	if err != nil {
		return Addition{}, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	return a.Add(ctx)
}

// stored returns the images of a containerd, by their first names.
func stored(t *testing.T, socket string) map[string]runtime.Stored {
	t.Helper()
	r, err := runtime.Connect(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all, err := r.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]runtime.Stored)
	for _, one := range all {
		byName[one.Names[0]] = one
	}
	return byName
}

// TestImagesAreAdded adds an image from each kind of source, twice.
func TestImagesAreAdded(t *testing.T) {
	socket := containerd.ForTest(t)
	bundled := filepath.Join(t.TempDir(), "app.tar.gz")
	imagepackage.Write(t, bundled, "registry.example.com/shop/bundled:1")
	image := func() v1.Image { return shopImage(t, 50_000) }
	for kind, row := range map[string]struct {
		source, name, want string
		unread             bool // names are not known before
	}{
		"a package":             {bundled, "", "registry.example.com/shop/bundled:1", false},
		"a folder":              {ociLayout(t, image(), "registry.example.com/shop/folder:1"), "", "registry.example.com/shop/folder:1", false},
		"a folder, short name":  {ociLayout(t, image(), "shop:2"), "", "docker.io/library/shop:2", false},
		"a folder without name": {ociLayout(t, image(), ""), "shop/unnamed:1", "docker.io/shop/unnamed:1", false},
		"an archive":            {tarOf(t, ociLayout(t, image(), "registry.example.com/shop/archive:1"), "a.tar"), "", "registry.example.com/shop/archive:1", false},
		"compressed":            {tarOf(t, ociLayout(t, image(), "registry.example.com/shop/gzip:1"), "a.tar.gz"), "", "registry.example.com/shop/gzip:1", true},
		"a docker-archive":      {dockerSave(t, image(), "registry.example.com/shop/docker:1"), "", "registry.example.com/shop/docker:1", false},
	} {
		o := from(row.source, socket, row.name)
		plan, err := OpenImages(t.Context(), o)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if want := []string{row.want}; row.unread != (len(plan.Images) == 0) || !row.unread && !slices.Equal(plan.Images, want) || plan.Bytes < 1000 {
			t.Errorf("%s: planned %+v", kind, plan.Addition)
		}
		if err := plan.Close(); err != nil {
			t.Error(err)
		}
		if _, there := stored(t, socket)[row.want]; there {
			t.Errorf("%s: the plan changed something", kind)
		}
		for range 2 {
			if got, err := add(t.Context(), o); err != nil || !slices.Equal(got.Images, []string{row.want}) {
				t.Errorf("%s: %+v, %v", kind, got, err)
			}
		}
		got := stored(t, socket)[row.want]
		byDigest := strings.TrimSuffix(row.want, row.want[strings.LastIndex(row.want, ":"):]) + "@" + got.Digest.String()
		if got.Origin != runtime.OfApplication || !got.Pinned || !slices.Contains(got.Names, byDigest) {
			t.Errorf("%s: %+v", kind, got)
		}
	}
}

// TestWrongSourcesAreRefused tries files that have no images.
func TestWrongSourcesAreRefused(t *testing.T) {
	socket := containerd.ForTest(t)
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("not an archive\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := ociLayout(t, shopImage(t, 50_000), shop)
	blobs, err := filepath.Glob(damaged + "/blobs/sha256/*")
	if err != nil {
		t.Fatal(err)
	}
	largest := slices.MaxFunc(blobs, func(a, b string) int { return int(sizeOf(t, a) - sizeOf(t, b)) })
	data, err := os.ReadFile(largest)
	if err == nil {
		data[len(data)/2] ^= 1
		err = os.WriteFile(largest, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for kind, row := range map[string]struct{ source, name, want string }{
		"nothing":              {filepath.Join(t.TempDir(), "none"), "", "no such file"},
		"a text":               {text, "", "is neither a bundle nor an archive of images"},
		"an empty folder":      {t.TempDir(), "", "no such file"},
		"without a name":       {ociLayout(t, shopImage(t, 1000), ""), "", "name it with --name"},
		"two names":            {ociLayout(t, shopImage(t, 1000), shop), shop, "leave --name out"},
		"a name that is none":  {ociLayout(t, shopImage(t, 1000), ""), "Shop:", "is not a name of an image"},
		"a damaged layer":      {damaged, "", "or it is damaged"},
		"another kind of tar":  {tarOf(t, filepath.Dir(text), "a.tar"), "", "is neither a bundle nor"},
		"a name for nothing":   {tarOf(t, filepath.Dir(text), "a.tar"), shop, "is neither a bundle nor"},
		"a compressed text":    {tarOf(t, filepath.Dir(text), "a.tar.gz"), "", "unrecognized image format"},
		"an archive cut short": {cut(t, tarOf(t, ociLayout(t, shopImage(t, 50_000), shop), "a.tar")), "", "unexpected EOF"},
	} {
		_, err := add(t.Context(), from(row.source, socket, row.name))
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if diff := cmp.Diff(map[string]runtime.Stored{}, stored(t, socket)); diff != "" {
		t.Error(diff)
	}
}

func sizeOf(t *testing.T, file string) int64 {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// cut cuts a tar of an image inside a layer.
func cut(t *testing.T, file string) string {
	t.Helper()
	if err := os.Truncate(file, 20_000); err != nil { // inside the first large blob, whatever the order of the blobs
		t.Fatal(err)
	}
	return file
}

// sourceVariable and socketVariable make this test a program that adds images, so that it can be killed.
const sourceVariable, socketVariable = "SEALIFT_TEST_ADD", "SEALIFT_TEST_SOCKET"

// TestMain adds images if it is that program.
func TestMain(m *testing.M) {
	if source := os.Getenv(sourceVariable); source != "" {
		if _, err := add(context.Background(), from(source, os.Getenv(socketVariable), "")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestKilledAddIsRepeated kills the command at several moments, and runs it again.
func TestKilledAddIsRepeated(t *testing.T) {
	image := shopImage(t, 20<<20)
	layoutDir := ociLayout(t, image, shop)
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for kind, source := range map[string]string{"a folder": layoutDir, "an archive": tarOf(t, layoutDir, "a.tar")} {
		socket := containerd.ForTest(t)
		killed := 0
		for _, after := range []time.Duration{50, 100, 150, 200, 300, 400, 600} {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), sourceVariable+"="+source, socketVariable+"="+socket)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(after * time.Millisecond)
			if cmd.Process.Signal(syscall.SIGKILL) == nil && cmd.Wait() != nil {
				killed++
			}
		}
		if killed == 0 {
			t.Errorf("%s: nothing was killed", kind)
		}
		if _, err := add(t.Context(), from(source, socket, "")); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if got := stored(t, socket); len(got) != 1 || got[shop].Digest.String() != digest.String() || got[shop].Origin != runtime.OfApplication {
			t.Errorf("%s: %+v", kind, got)
		}
		t.Logf("%s: killed %d times", kind, killed)
	}
}
