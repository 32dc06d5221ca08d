package mirror

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/sealift/sealift/testgrid/lab/daemon"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// registryConfig is the registry's whole configuration.
const registryConfig = `version: 0.1
log: {level: warn}
storage:
  filesystem: {rootdirectory: %q}
  delete: {enabled: true}
  maintenance: {uploadpurging: {enabled: false}}
http: {addr: %q}
`

// registryTimeout is the timeout for the registry's start, which takes well under a second.
const registryTimeout = 30 * time.Second

// attempts is how often another process may take a free port before the registry binds it.
const attempts = 3

// serveImages starts the registry and pushes the images that it lacks.
func (m *Mirror) serveImages(ctx context.Context, w *upstream.Workshop, o Options) error {
	binary, err := w.File(ctx, upstream.Program("registry"))
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		if m.registry, err = address(o.Registry); err != nil {
			return err
		}
		err = m.startRegistry(ctx, binary, storage(w))
		if err == nil {
			break
		}
		if o.Registry != anyPort || attempt == attempts || ctx.Err() != nil {
			return err
		}
	}
	var names []string
	for _, image := range o.Images {
		names = append(names, image.Ref)
	}
	m.hosts = hostsOf(names)
	unlock, err := w.Cache().Lock(ctx, "registry-storage") // two registries on one storage may read, but one pushes
	if err != nil {
		return err
	}
	defer unlock()
	for _, image := range o.Images {
		if err := m.push(ctx, w, image, o.Progress); err != nil {
			return fmt.Errorf("put %s into the lab's registry: %w", image.Ref, err)
		}
	}
	return nil
}

// address replaces port 0 by a free port. Another process may take it before the registry does.
func address(want string) (string, error) {
	l, err := net.Listen("tcp", want)
	if err != nil {
		return "", fmt.Errorf("serve images: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (m *Mirror) startRegistry(ctx context.Context, binary, storage string) error {
	config := m.dir.File("registry.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, registryConfig, storage, m.registry), 0o600); err != nil {
		return err
	}
	var err error
	m.daemon, err = daemon.Start(daemon.Command{
		Path: binary, Args: []string{"serve", config}, Log: m.dir.File("registry.log"),
		// Otherwise the registry looks for a trace collector on every request.
		Env: []string{"OTEL_TRACES_EXPORTER=none"},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	return m.daemon.WaitReady(ctx, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.registry+"/v2/", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("the registry answers %s", resp.Status)
		}
		return nil
	})
}

// push uploads one image unless the registry already has it.
func (m *Mirror) push(ctx context.Context, w *upstream.Workshop, image upstream.Image, progress func(string)) error {
	ref, err := name.ParseReference(m.registry+"/"+image.Ref, name.Insecure)
	if err != nil {
		return err
	}
	content, write, err := m.content(ctx, w, image, ref)
	if err != nil {
		return err
	}
	want, err := content.Digest()
	if err != nil {
		return err
	}
	have, err := remote.Head(ref, remote.WithContext(ctx))
	if err == nil && have.Digest == want {
		return nil
	}
	var answer *transport.Error
	if err != nil && (!errors.As(err, &answer) || answer.StatusCode != http.StatusNotFound) {
		return err
	}
	progress("pushing " + image.Ref)
	return write()
}

// content returns what a reference names, an image or a chart, and how to upload it.
func (m *Mirror) content(ctx context.Context, w *upstream.Workshop, image upstream.Image, ref name.Reference) (interface{ Digest() (v1.Hash, error) }, func() error, error) {
	if image.Chart.Component != "" {
		chart, err := w.Chart(ctx, image)
		return chart, func() error { return remote.Write(ref, chart, remote.WithContext(ctx)) }, err
	}
	index, err := w.Image(ctx, image)
	return index, func() error { return remote.WriteIndex(ref, index, remote.WithContext(ctx)) }, err
}
