package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/testing/objects"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/store"
)

// container runs a program as a container engine does with --read-only --tmpfs /tmp: in the files of an image, which cannot be
// written to, by the image's user and with its environment. Its first argument is the folder of the files.
const container = `mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && mount -t tmpfs tmpfs "$1/tmp" && mount -t proc proc "$1/proc"
root=$1 user=$2; shift 2; exec chroot --userspec="$user" "$root" "$@"`

// unpacked builds the programs, makes the image, and unpacks it into a folder.
func unpacked(t *testing.T) (root string, config v1.Config) {
	t.Helper()
	short.Skip(t, "root for chroot")
	o := settings(t)
	dir := t.TempDir()
	o.binary, o.node = filepath.Join(dir, "sealift"), filepath.Join(dir, "sealift-node")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/", "../../cmd/sealift", "../../cmd/sealift-node")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	digest, err := o.make()
	if err != nil {
		t.Fatal(err)
	}
	image := read(t, o.out, digest)
	root = t.TempDir()
	files := mutate.Extract(image)
	defer files.Close()
	extract := exec.CommandContext(t.Context(), "tar", "x", "-C", root)
	extract.Stdin = files
	if out, err := extract.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, folder := range []string{"proc", "store"} { // an engine makes those that it mounts
		if err := os.Mkdir(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return root, file.Config
}

// TestImageServes runs the server of an image, which must find all that it needs in there. Before, it builds a package, as a pod does.
func TestImageServes(t *testing.T) {
	root, config := unpacked(t)
	t.Run("and builds", func(t *testing.T) { buildsInPod(t, root, config) })
	args := []string{"--mount", "bash", "-c", container, "-", root, config.User}
	server := exec.CommandContext(t.Context(), "unshare", append(append(args, config.Entrypoint...), config.Cmd...)...)
	server.Env = slices.Concat(config.Env, []string{"PATH=" + os.Getenv("PATH"), "SEALIFT_STORE=/store", "SEALIFT_LISTEN=127.0.0.1:0"})
	var said strings.Builder
	server.Stderr = &said
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	_, rest, _ := strings.Cut(line, " on ")
	address, _, ok := strings.Cut(rest, ";")
	if err != nil || !ok {
		_ = server.Wait()
		t.Fatalf("the server said %q: %v\n%s", line, err, said.String())
	}
	resp, err := http.Get("http://" + address + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("it answers %s", resp.Status)
	}
}

// buildsInPod runs the command of a pod of 'sealift build --on kubernetes'.
func buildsInPod(t *testing.T, root string, config v1.Config) {
	run := func(environment []string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "unshare", slices.Concat([]string{"--mount", "bash", "-c", container, "-", root, config.User}, config.Entrypoint, args)...)
		cmd.Env = slices.Concat(config.Env, []string{"PATH=" + os.Getenv("PATH"), "HOME=/tmp"}, environment)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	var version struct{ Version string }
	if err := json.Unmarshal([]byte(run(nil, "version", "-o", "json")), &version); err != nil {
		t.Fatal(err)
	}
	server := objects.Start(t)
	location := server.URL("pods")
	s, err := store.Opener{Write: true}.Open(location)
	if err != nil {
		t.Fatal(err)
	}
	put := func(key func(digest string) string, data []byte) string {
		t.Helper()
		value := store.Bytes(data)
		if _, err := s.Put(t.Context(), key(value.SHA256), value); err != nil {
			t.Fatal(err)
		}
		return value.SHA256
	}
	var sources bytes.Buffer
	zip := gzip.NewWriter(&sources)
	archive := tar.NewWriter(zip)
	for _, name := range []string{"addons/demo/1/Manifest", "addons/demo/1/install.sh"} {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	digest := put(func(digest string) string { return "sources/" + digest + ".tar.gz" }, sources.Bytes())
	input := fmt.Sprintf(`{"sealift":%q,"name":"demo","version":"1","dir":"addons/demo/1","sources":%q,"platforms":["linux/amd64"],"imageFormat":"oci"}`+"\n", version.Version, digest)
	plan := put(func(digest string) string { return "batch/plans/" + digest }, []byte(input))
	run(append(server.Environment(), "SEALIFT_BATCH_PLAN="+plan, "JOB_COMPLETION_INDEX=0"), "build-in-pod", "--store", location)
	built, err := s.Get(t.Context(), "demo-1.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer built.Close()
	opened, err := bundle.OpenPackage(built, built.Size())
	if err != nil || opened.Index.Packages[0].Name != "demo" {
		t.Errorf("the package is %+v: %v", opened, err)
	}
}
