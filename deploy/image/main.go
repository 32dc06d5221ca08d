// Command image makes container images. It needs no container engine. The same files yield the same image.
//
// The image of 'sealift serve' has the server, the sealift that nodes get, certificates of the public authorities, and a user
// without rights:
//
//	go run ./deploy/image -binary bin/sealift -node bin/sealift-node -out sealift-image.tar
//	skopeo copy oci-archive:sealift-image.tar docker://registry.example/sealift:1.0
//
// Pods of 'sealift build --on kubernetes' run the same image. Pods of 'sealift testgrid run --on kubernetes' need sealift-testgrid, too:
//
//	go run ./deploy/image -binary bin/sealift -node bin/sealift-node -testgrid bin/sealift-testgrid -out sealift-testgrid-image.tar
//
// The image of 'sealift operator' has the operator under its three names, /shell_lib.sh, and the Debian packages that
// operator.lock names, which hooks need. Programs, packages and folders can be added:
//
//	go run ./deploy/image -operator bin/sealift-controller -program kubectl=bin/kubectl -layer hooks=/hooks -out operator-image.tar
package main

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
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
	testgrid     string // "" leaves it out
	out          string
	certificates string
	arch         string
}

func main() {
	var o options
	var operator operatorOptions
	operator.flags()
	flag.StringVar(&o.binary, "binary", "bin/sealift", "the sealift to put into the image; a static one")
	flag.StringVar(&o.node, "node", "bin/sealift-node", "the sealift for nodes, which the server puts into bundles")
	flag.StringVar(&o.testgrid, "testgrid", "", "the sealift-testgrid to put beside it, for tests in pods")
	flag.StringVar(&o.out, "out", "sealift-image.tar", "the image, as an OCI archive")
	flag.StringVar(&o.certificates, "certificates", "/etc/ssl/certs/ca-certificates.crt", "CA certificates that the server trusts when it reads a store")
	flag.StringVar(&o.arch, "arch", "amd64", "architecture that the programs were built for")
	flag.Parse()
	make := o.make
	if operator.binary != "" {
		operator.options = o
		make = operator.make
	}
	digest, err := make()
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
	return o.write(image)
}

// write puts an image into the archive, and returns its digest.
func (o options) write(image v1.Image) (v1.Hash, error) {
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
	programs := []file{{name: "usr/local/bin/sealift", mode: 0o755, data: binary}, {name: "usr/local/bin/sealift-node", mode: 0o755, data: node}}
	if o.testgrid != "" {
		testgrid, err := os.ReadFile(o.testgrid)
		if err != nil {
			return nil, fmt.Errorf("the sealift for tests: %w; 'make build' makes it", err)
		}
		programs = append(programs, file{name: "usr/local/bin/sealift-testgrid", mode: 0o755, data: testgrid})
	}
	return o.compose([][]file{
		{
			{name: "etc/passwd", mode: 0o644, data: []byte("sealift:x:65532:65532::/:/sbin/nologin\n")},
			{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: certificates}, {name: "tmp/", mode: 0o1777},
		},
		programs,
	}, v1.Config{
		Entrypoint: []string{"/usr/local/bin/sealift"}, Cmd: []string{"serve"}, User: user, WorkingDir: "/",
		Env:          []string{"PATH=/usr/local/bin", "SEALIFT_CACHE=/tmp/sealift"}, // the only writable folder
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		Labels:       map[string]string{"org.opencontainers.image.title": "sealift", "org.opencontainers.image.licenses": "Apache-2.0"},
	})
}

// compose makes an image of layers.
func (o options) compose(layers [][]file, settings v1.Config) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, files := range layers {
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
	config.Config = settings
	return mutate.ConfigFile(image, config)
}

type file struct {
	name string // a folder if it ends with a slash
	mode int64
	data []byte
	link string // where a symbolic link leads
}

func layerOf(files []file) (v1.Layer, error) {
	var packed bytes.Buffer
	t := tar.NewWriter(&packed)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), Typeflag: tar.TypeReg, ModTime: epoch}
		switch {
		case f.link != "":
			header.Typeflag, header.Linkname = tar.TypeSymlink, f.link
		case strings.HasSuffix(f.name, "/"):
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
