// Command image makes the container image of 'sealift serve': the server, the sealift that nodes get, certificates of the public
// authorities, and a user without rights. It needs no container engine. The same programs give the same image.
//
//	go run ./deploy/image -binary bin/sealift -node bin/sealift-node -out sealift-image.tar
//	skopeo copy oci-archive:sealift-image.tar docker://registry.example/sealift:1.0
package main

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/sealift/sealift/internal/atomicfile"
)

// epoch is the time of all files in the image.
var epoch = time.Unix(0, 0).UTC()

// user is the user of the server. It is a number, because the kubelet checks runAsNonRoot by number.
const user = "65532:65532"

type options struct {
	binary, node string
	out          string
	certificates string
	arch         string
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "bin/sealift", "the sealift to put into the image; a static one")
	flag.StringVar(&o.node, "node", "bin/sealift-node", "the sealift for nodes, which the server puts into bundles")
	flag.StringVar(&o.out, "out", "sealift-image.tar", "the image, as an OCI archive")
	flag.StringVar(&o.certificates, "certificates", "/etc/ssl/certs/ca-certificates.crt", "CA certificates that the server trusts when it reads a store")
	flag.StringVar(&o.arch, "arch", "amd64", "architecture that the programs were built for")
	flag.Parse()
	digest, err := o.make()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	fmt.Printf("%s %s\n", o.out, digest)
}

// make writes the image and returns its digest.
func (o options) make() (v1.Hash, error) {
	image, err := o.image()
	if err != nil {
		return v1.Hash{}, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(o.out), ".image-")
	if err != nil {
		return v1.Hash{}, err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := path.AppendImage(image, layout.WithPlatform(v1.Platform{OS: "linux", Architecture: o.arch})); err != nil {
		return v1.Hash{}, err
	}
	if err := atomicfile.Fill(o.out, 0o644, func(f *os.File) error { return pack(f, dir) }); err != nil {
		return v1.Hash{}, err
	}
	return image.Digest()
}

func (o options) image() (v1.Image, error) {
	certificates, err := os.ReadFile(o.certificates)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w; on Debian the package ca-certificates has them", err)
	}
	binary, err := os.ReadFile(o.binary)
	if err != nil {
		return nil, fmt.Errorf("the binary: %w; 'make build' makes it", err)
	}
	node, err := os.ReadFile(o.node)
	if err != nil {
		return nil, fmt.Errorf("the sealift for nodes: %w; 'make build' makes it", err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, files := range [][]file{
		{{"etc/passwd", 0o644, []byte("sealift:x:65532:65532::/:/sbin/nologin\n")}, {"etc/ssl/certs/ca-certificates.crt", 0o644, certificates}, {"tmp/", 0o1777, nil}},
		{{"usr/local/bin/sealift", 0o755, binary}, {"usr/local/bin/sealift-node", 0o755, node}},
	} {
		layer, err := layerOf(files)
		if err != nil {
			return nil, err
		}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "sealift deploy/image"}}); err != nil {
			return nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", o.arch, v1.Time{Time: epoch}
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/local/bin/sealift"}, Cmd: []string{"serve"}, User: user, WorkingDir: "/",
		Env:          []string{"PATH=/usr/local/bin", "SEALIFT_CACHE=/tmp/sealift"}, // the only writable folder
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		Labels:       map[string]string{"org.opencontainers.image.title": "sealift", "org.opencontainers.image.licenses": "Apache-2.0"},
	}
	return mutate.ConfigFile(image, config)
}

type file struct {
	name string // a folder if it ends with a slash
	mode int64
	data []byte
}

func layerOf(files []file) (v1.Layer, error) {
	var packed bytes.Buffer
	t := tar.NewWriter(&packed)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), Typeflag: tar.TypeReg, ModTime: epoch}
		if f.data == nil {
			header.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := t.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// pack writes a folder as a tar that depends only on its files.
func pack(w io.Writer, dir string) error {
	t := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		below, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := t.WriteHeader(&tar.Header{Name: filepath.ToSlash(below), Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg, ModTime: epoch}); err != nil {
			return err
		}
		_, err = t.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	return t.Close()
}
