package upstream

import (
	"archive/tar"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// TestHostImageHasItsSystem reads the file as engines do. That it boots is for testgrid/airgap to show.
func TestHostImageHasItsSystem(t *testing.T) {
	w := workshop(t)
	file := filepath.Join(t.TempDir(), "host.tar")
	digest, err := w.WriteHostImage(t.Context(), HostDebian12, "example.org/host:1", file)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("example.org/host:1")
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(file, &tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	script := config.Config.Entrypoint[2]
	if out, err := exec.CommandContext(t.Context(), "sh", "-n", "-c", script).CombinedOutput(); err != nil || !strings.Contains(script, "exec /sbin/init") || digest.Hex == "" {
		t.Errorf("the entry point %q: %v %s", script, err, out)
	}
	files := mutate.Extract(image)
	defer files.Close()
	found := map[string]bool{}
	for r := tar.NewReader(files); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = true
	}
	for _, want := range []string{"usr/sbin/init", "usr/lib/systemd/systemd", "usr/bin/unshare", "etc/os-release"} {
		if !found[want] {
			t.Errorf("the image lacks %s", want)
		}
	}
}
