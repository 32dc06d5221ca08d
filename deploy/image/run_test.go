package main

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/sealift/sealift/testgrid/short"
)

// container runs a program as a container engine does with --read-only --tmpfs /tmp: in the files of an image, which cannot be
// written to, by the image's user and with its environment. Its first argument is the folder of the files.
const container = `mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && mount -t tmpfs tmpfs "$1/tmp" && mount -t proc proc "$1/proc"
root=$1 user=$2; shift 2; exec chroot --userspec="$user" "$root" "$@"`

// TestTheImageServes runs the server of an image, which must find all that it needs in there.
func TestTheImageServes(t *testing.T) {
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
	root := t.TempDir()
	files := mutate.Extract(image)
	defer files.Close()
	tar := exec.CommandContext(t.Context(), "tar", "x", "-C", root)
	tar.Stdin = files
	if out, err := tar.CombinedOutput(); err != nil {
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
	config := file.Config
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
