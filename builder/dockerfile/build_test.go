package dockerfile_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/dockerfile"
	"github.com/sealift/sealift/builder/mirror"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/internal/testing/short"
)

// registryWithBase serves a base image with busybox as example.com/base and returns what builds need of it.
func registryWithBase(t *testing.T) (mirrors mirror.Set, base dockerfile.Base, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	place := strings.TrimPrefix(server.URL, "http://") + "/base"
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(busybox(t))), nil })
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config.Env = "linux", "amd64", []string{"PATH=/bin"}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(place + ":1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, image); err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if mirrors, err = mirror.New(map[string]string{"example.com/base": "http://" + place}); err != nil {
		t.Fatal(err)
	}
	return mirrors, dockerfile.Base{Written: "example.com/base:1", Repository: "example.com/base", Digest: digest.String()}, requests
}

func busybox(t *testing.T) []byte {
	t.Helper()
	program, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatalf("%v; apt-get install busybox-static", err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h *tar.Header, data []byte) {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"bin/", "tmp/", "proc/", "sys/", "dev/", "etc/"} {
		add(&tar.Header{Name: dir, Mode: 0o755, Typeflag: tar.TypeDir}, nil)
	}
	add(&tar.Header{Name: "bin/busybox", Mode: 0o755, Size: int64(len(program))}, program)
	for _, applet := range []string{"sh", "mkdir", "cp", "echo", "chmod", "ln", "ls", "cat"} {
		add(&tar.Header{Name: "bin/" + applet, Typeflag: tar.TypeSymlink, Linkname: "busybox"}, nil)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func newBuild(t *testing.T, base dockerfile.Base, text string, args map[string]string) dockerfile.Build {
	t.Helper()
	f, err := dockerfile.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := f.Settle(args, "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	b, err := dockerfile.New("rhel-9", "Dockerfile", "linux/amd64", args, plan, []dockerfile.Base{base}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func openCache(t *testing.T) *cache.Cache {
	t.Helper()
	c, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// withBuildah makes buildah work where overlay file systems and namespaces may be missing, as in a container.
func withBuildah(t *testing.T) {
	t.Helper()
	short.Skip(t, "root for buildah")
	if _, err := exec.LookPath("buildah"); err != nil {
		t.Fatalf("%v; apt-get install buildah", err)
	}
	t.Setenv("STORAGE_DRIVER", "vfs")
	t.Setenv("BUILDAH_ISOLATION", "chroot")
}

func TestEngineBuildsDockerfileOutput(t *testing.T) {
	for _, engine := range []string{"buildah", "podman"} {
		t.Run(engine, func(t *testing.T) {
			short.Skip(t, "root for "+engine)
			if _, err := exec.LookPath(engine); err != nil {
				t.Fatalf("%v; apt-get install %s", err, engine)
			}
			buildsWhatIsWritten(t, engine)
		})
	}
}

func buildsWhatIsWritten(t *testing.T, engine string) {
	withBuildah(t)
	mirrors, base, requests := registryWithBase(t)
	c := openCache(t)
	source := dockerfile.NewSource(dockerfile.Options{Cache: c, Mirrors: mirrors, Engine: engine})
	const text = `FROM example.com/base:1
ARG VERSION
ARG NOTE
RUN mkdir -p /packages/repodata && echo "$VERSION" > /packages/tool.rpm && echo "$NOTE" > /packages/repodata/repomd.xml
RUN echo run > /packages/tool.sh && chmod 755 /packages/tool.sh
CMD cp -r /packages/* /out/
`
	args := map[string]string{"VERSION": "1.6.33", "NOTE": `$(echo no) "; ls 'x`}
	killed := filepath.Join(c.Dir(), "engine", "build-killed", "store")
	if err := os.MkdirAll(killed, 0o755); err != nil {
		t.Fatal(err)
	}
	build := newBuild(t, base, text, args)
	files, err := source.Files(t.Context(), build)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		data, err := c.Read(f.SHA256, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %v %s", f.Path, f.Pack("x", c).Mode, strings.TrimSpace(string(data))))
	}
	want := []string{"repodata/repomd.xml -rw-r--r-- " + args["NOTE"], "tool.rpm -rw-r--r-- 1.6.33", "tool.sh -rwxr-xr-x run"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	t.Run("what was built is not built again", func(t *testing.T) {
		before := requests.Load()
		t.Setenv("PATH", t.TempDir()) // no engine is installed any longer
		again, err := dockerfile.NewSource(dockerfile.Options{Cache: c, Mirrors: mirrors}).Files(t.Context(), build)
		if err != nil || !slices.Equal(again, files) || requests.Load() != before {
			t.Errorf("got %v, %v, %d requests", again, err, requests.Load()-before)
		}
	})
	t.Run("nothing of a build is left behind, nor of one that was killed", func(t *testing.T) {
		left, err := filepath.Glob(filepath.Join(c.Dir(), "engine", "build-*"))
		if err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	})
}

func TestBuildSeesOnlyItsContext(t *testing.T) {
	withBuildah(t)
	mirrors, base, _ := registryWithBase(t)
	repository := t.TempDir()
	write := func(name, content string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(repository, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), mode)); err != nil {
			t.Fatal(err)
		}
	}
	write("files/src/tool", "echo one", 0o700)
	write("files/.git/config", "secret", 0o600)
	write("shared/notice", "by many", 0o600)
	write("other", "not for the build", 0o600)
	if err := os.Symlink("../shared/notice", filepath.Join(repository, "files", "notice")); err != nil {
		t.Fatal(err)
	}
	c := openCache(t)
	run := func(t *testing.T) (string, error) {
		t.Helper()
		files, err := dockerfile.ReadContext(t.Context(), repository, "files")
		if err != nil {
			t.Fatal(err)
		}
		build := newBuild(t, base, "FROM example.com/base:1\nCOPY . /seen/\nRUN ls -aR /seen > /list\nCMD cp -r /list /seen/src/tool /seen/notice /out/\n", nil)
		build.Context = files
		outputs, err := dockerfile.NewSource(dockerfile.Options{Cache: c, Mirrors: mirrors, Engine: "buildah"}).Files(t.Context(), build)
		var said []string
		for _, f := range outputs {
			data, err := c.Read(f.SHA256, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			said = append(said, fmt.Sprintf("%s %v: %s", f.Path, f.Executable, strings.Join(strings.Fields(string(data)), " ")))
		}
		return strings.Join(said, "; "), err
	}
	const want = "list false: /seen: . .. notice src /seen/src: . .. tool; notice false: by many; tool true: echo "
	if got, err := run(t); err != nil || got != want+"one" {
		t.Fatalf("got  %s, %v\nwant %sone", got, err, want)
	}
	t.Run("a change there leads to another build", func(t *testing.T) {
		write("files/src/tool", "echo two", 0o700)
		if got, err := run(t); err != nil || got != want+"two" {
			t.Errorf("got  %s, %v\nwant %stwo", got, err, want)
		}
	})
	t.Run("what changes between reading and building is refused", func(t *testing.T) {
		files, err := dockerfile.ReadContext(t.Context(), repository, "files")
		if err != nil {
			t.Fatal(err)
		}
		write("files/src/tool", "echo three", 0o700)
		build := newBuild(t, base, "FROM example.com/base:1\nCOPY . /out/\nCMD echo\n", nil)
		build.Context = files
		_, err = dockerfile.NewSource(dockerfile.Options{Cache: openCache(t), Mirrors: mirrors, Engine: "buildah"}).Files(t.Context(), build)
		if err == nil || !strings.Contains(err.Error(), "changed during the build") {
			t.Errorf("got %v", err)
		}
	})
}

func TestInvalidContextIsRefused(t *testing.T) {
	repository := t.TempDir()
	elsewhere := t.TempDir()
	if err := errors.Join(
		os.MkdirAll(filepath.Join(repository, "leaves"), 0o755), os.Symlink(elsewhere, filepath.Join(repository, "leaves", "out")),
		os.MkdirAll(filepath.Join(repository, "pipe"), 0o755), syscall.Mkfifo(filepath.Join(repository, "pipe", "fifo"), 0o644),
		os.MkdirAll(filepath.Join(repository, ".git"), 0o755), os.WriteFile(filepath.Join(repository, ".git", "config"), nil, 0o644),
		os.MkdirAll(filepath.Join(repository, "secrets"), 0o755), os.Symlink("../.git/config", filepath.Join(repository, "secrets", "link")),
		os.Symlink(elsewhere, filepath.Join(repository, "link")), os.WriteFile(filepath.Join(repository, "file"), nil, 0o644),
	); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		"none": "not a directory of the repository", "file": "not a directory of the repository", "../x": "not a directory of the repository",
		"link": "not a directory of the repository", "leaves": "outside the repository", "pipe": "not a regular file",
		"secrets": "outside the repository",
	} {
		if c, err := dockerfile.ReadContext(t.Context(), repository, dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v, want %q", dir, c, err, want)
		}
	}
}

func TestFailedBuildReportsReason(t *testing.T) {
	withBuildah(t)
	mirrors, base, _ := registryWithBase(t)
	other := base
	other.Digest = "sha256:" + strings.Repeat("0", 64)
	for name, row := range map[string]struct {
		base dockerfile.Base
		text string
		want string
	}{
		"a command fails":                     {base, "FROM example.com/base:1\nRUN echo because of this && ls /nowhere\nCMD cp x /out\n", "/nowhere"},
		"nothing is written":                  {base, "FROM example.com/base:1\nCMD echo hello\n", "it wrote no files to /out"},
		"a link is written":                   {base, "FROM example.com/base:1\nCMD ln -s /etc/passwd /out/passwd\n", "/out/passwd, which is neither a file nor a directory"},
		"the base image is not what was said": {other, "FROM example.com/base:1\nCMD cp x /out\n", "manifest unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			source := dockerfile.NewSource(dockerfile.Options{Cache: openCache(t), Mirrors: mirrors, Engine: "buildah"})
			_, err := source.Files(t.Context(), newBuild(t, row.base, row.text, nil))
			if err == nil || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), "build Dockerfile for rhel-9 on linux/amd64") {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
	t.Run("it takes too long", func(t *testing.T) {
		source := dockerfile.NewSource(dockerfile.Options{Cache: openCache(t), Mirrors: mirrors, Engine: "buildah", Timeout: time.Nanosecond})
		_, err := source.Files(t.Context(), newBuild(t, base, "FROM example.com/base:1\nCMD cp /bin/busybox /out/x\n", nil))
		if err == nil || !strings.Contains(err.Error(), "not done after 1ns") {
			t.Errorf("got %v", err)
		}
	})
}

func TestFindEngine(t *testing.T) {
	program := func(dir, name, script string) {
		if err := fixture.WriteProgram(filepath.Join(dir, name), "#!/bin/sh\n"+script+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	find := func(name string) string {
		engine, err := dockerfile.FindEngine(context.Background(), name)
		if err != nil {
			return err.Error()
		}
		return engine
	}
	if got := find(""); !strings.Contains(got, "install buildah") {
		t.Errorf("without any: %s", got)
	}
	program(dir, "docker", "exit 1")
	program(dir, "buildctl", "exit 0")
	if got := find(""); got != "buildctl" {
		t.Errorf("with a docker whose daemon does not answer: %s", got)
	}
	program(dir, "podman", "exit 0")
	if got := find(""); got != "podman" {
		t.Errorf("with several: %s", got)
	}
	if got := find("docker"); got != "docker" {
		t.Errorf("one that is asked for: %s", got)
	}
	if got := find("buildah"); !strings.Contains(got, "choose another with --engine") {
		t.Errorf("one that is not there: %s", got)
	}
	if got := find("make"); !strings.Contains(got, "is not an engine") {
		t.Errorf("one that is none: %s", got)
	}
}
