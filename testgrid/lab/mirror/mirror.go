// Package mirror plays the outside world for the lab: a real registry with every image and a file server with every
// download of package upstream, under their real names, on loopback.
package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/scratch"
	"github.com/sealift/sealift/testgrid/lab/daemon"
	"github.com/sealift/sealift/testgrid/lab/debian"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// Default addresses of `sealift-testgrid lab serve`.
const (
	DefaultRegistry = "127.0.0.1:5000"
	DefaultFiles    = "127.0.0.1:5080"
)

// anyPort lets the kernel choose a port, for tests.
const anyPort = "127.0.0.1:0"

// shutdownGrace is how long Close waits for running downloads.
const shutdownGrace = 5 * time.Second

// Options of a mirror. The zero value serves everything on free ports from the default cache.
type Options struct {
	CacheDir string            // the lab's cache; default as in package cache
	Registry string            // host:port of the registry; default a free port of loopback
	Files    string            // host:port of the file server; default a free port of loopback
	Progress func(line string) // one line per event

	// What to serve; nil is everything, which a test can rarely afford to wait for.
	Images    []upstream.Image
	Downloads []upstream.Download
}

// Of is what to serve for the chosen versions of add-ons, as upstream.Images takes them.
func Of(chosen ...string) Options {
	return Options{Images: upstream.Images(chosen...), Downloads: upstream.Downloads(chosen...)}
}

// Mirror is a running pair of registry and file server.
type Mirror struct {
	registry string
	files    string
	archives debian.Archives
	hosts    []string // registries that are mirrored
	fileHost []string // file servers that are mirrored
	daemon   *daemon.Daemon
	server   *http.Server
	served   chan error
	dir      *scratch.Dir
}

// Serve builds uncached content, which takes a long time once per machine, and serves it until Close is called or this process
// ends. When it returns, both servers respond.
func Serve(ctx context.Context, o Options) (*Mirror, error) {
	o = o.withDefaults()
	workshop, err := upstream.NewWorkshop(upstream.Options{CacheDir: o.CacheDir, Progress: o.Progress})
	if err != nil {
		return nil, err
	}
	if _, err := workshop.Build(ctx, append(upstream.ComponentsOf(o.Images, o.Downloads), upstream.Program("registry").Component)...); err != nil {
		return nil, err
	}
	m := &Mirror{served: make(chan error, 1)}
	if m.archives, err = debian.Machine(); err != nil {
		return nil, err
	}
	if m.dir, err = scratch.New(); err != nil {
		return nil, err
	}
	err = m.serveFiles(ctx, workshop, o)
	if err == nil {
		err = m.serveImages(ctx, workshop, o)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (o Options) withDefaults() Options {
	if o.Registry == "" {
		o.Registry = anyPort
	}
	if o.Files == "" {
		o.Files = anyPort
	}
	if o.Images == nil {
		o.Images = upstream.Images()
	}
	if o.Downloads == nil {
		o.Downloads = upstream.Downloads()
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o
}

// Registry is the registry's host:port; an image is at <registry>/<upstream host>/<repository>:<tag>.
func (m *Mirror) Registry() string { return m.registry }

// Files is the file server's host:port; a file is at http://<files>/<upstream host>/<path>.
func (m *Mirror) Files() string { return m.files }

// Close stops both servers. It may be called more than once.
func (m *Mirror) Close() error {
	if m.daemon != nil {
		m.daemon.Stop()
	}
	var err error
	if m.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
		defer cancel()
		if err = m.server.Shutdown(ctx); err != nil {
			err = m.server.Close()
		}
	}
	return errors.Join(err, m.dir.Remove())
}

// Wait returns nil when ctx ends, or a server's error if it ends on its own.
func (m *Mirror) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-m.served:
		return fmt.Errorf("the file server ended: %w", err)
	case <-m.daemon.Done():
		return fmt.Errorf("the registry ended: %s", m.daemon.LogTail())
	}
}

// Rules maps upstream names to this mirror, and Debian's upstream archive to the machine's own, as mirrors of sealift.yaml.
func (m *Mirror) Rules() map[string]string {
	rules := map[string]string{
		"http://ftp.debian.org/debian/":          m.archives.Main + "/",
		"http://ftp.debian.org/debian-security/": m.archives.Security + "/",
	}
	for _, host := range m.hosts {
		rules[host] = "http://" + m.registry + "/" + host
	}
	for _, host := range m.fileHost {
		rules["https://"+host+"/"] = "http://" + m.files + "/" + host + "/"
	}
	return rules
}

// configHeader marks an unedited configuration.
const configHeader = "# Written by the lab's mirror, which also replaces it.\n"

// Config returns a sealift.yaml with Rules as its mirrors.
func (m *Mirror) Config() ([]byte, error) {
	text, err := yaml.Marshal(map[string]any{"mirrors": m.Rules()})
	return append([]byte(configHeader), text...), err
}

func (m *Mirror) serveFiles(ctx context.Context, w *upstream.Workshop, o Options) error {
	handler, err := newFiles(ctx, w, o.Downloads)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.Files)
	if err != nil {
		return fmt.Errorf("serve files: %w", err)
	}
	m.files = listener.Addr().String()
	m.fileHost = handler.hosts()
	m.server = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { m.served <- m.server.Serve(listener) }()
	return nil
}

// hostsOf lists the first elements of names, each once, in order.
func hostsOf(names []string) []string {
	var hosts []string
	for _, name := range names {
		host, _, _ := strings.Cut(name, "/")
		hosts = append(hosts, host)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// storage is where the registry of one lab cache keeps its blobs, across runs.
func storage(w *upstream.Workshop) string { return w.Cache().Path("registry-storage") }

// WriteConfig writes Config to a file atomically. It refuses to replace a file that it did not write.
func (m *Mirror) WriteConfig(path string) error {
	old, err := os.ReadFile(path)
	if err == nil && !bytes.HasPrefix(old, []byte(configHeader)) {
		return fmt.Errorf("%s has settings that the lab did not write: give another path, and copy the mirrors from there", path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write the mirrors: %w", err)
	}
	text, err := m.Config()
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".sealift-*.yaml")
	if err != nil {
		return fmt.Errorf("write the mirrors: %w", err)
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the mirrors to %s: %w", path, err), os.Remove(f.Name()))
	}
	return nil
}
