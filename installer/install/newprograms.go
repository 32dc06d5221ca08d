package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/files"
)

// TemporaryDir makes a folder from which programs can be run. The caller removes it.
func (i *Install) TemporaryDir() (string, error) {
	return files.MkdirTemp(i.temporary(), ".sealift-programs-")
}

// KubeadmBase reads a file of kubeadm's configuration of a new cluster, such as cluster.yaml, from the Kubernetes of the bundle.
func (c *contents) KubeadmBase(name string) ([]byte, error) {
	k, _ := kubernetes(c.addOns)
	return c.archive.ReadFile(path.Join(k.info.Dir(), "kubeadm", "init", name), maxTextSize)
}

// Program writes a program of the bundle's Kubernetes into a folder: kubeadm or the kubelet from its assets, others from the image of their
// name. Nothing is loaded for that.
func (c *contents) Program(ctx context.Context, name, dir string) (string, error) {
	k, ok := kubernetes(c.addOns)
	if !ok {
		return "", errors.New("the bundle has no Kubernetes")
	}
	to := filepath.Join(dir, name)
	if asset, ok := c.asset(k, name); ok {
		return to, c.copyEntry(asset, to)
	}
	for _, image := range k.layout.Images {
		if imageName(image.Ref) == name {
			return to, k.layout.Program(ctx, image.Ref, "/usr/local/bin/"+name, to)
		}
	}
	return "", fmt.Errorf("the Kubernetes of the bundle has neither a file nor an image %s", name)
}

// asset returns the path of an add-on's asset for this host: the one of this name and the host's architecture, or of this name.
func (c *contents) asset(a addOn, name string) (string, bool) {
	for _, name := range []string{name + "-" + host.Arch(), name} {
		at := path.Join(a.info.Dir(), "assets", name)
		if _, ok := c.archive.Entry(at); ok {
			return at, true
		}
	}
	return "", false
}

// copyEntry copies a program. Its digest is checked at its end.
func (c *contents) copyEntry(entry, to string) (err error) {
	from, err := c.archive.OpenEntry(entry)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	return files.Fill(to, 0o700, func(f *os.File) error {
		_, err := io.Copy(f, from)
		return err
	})
}
