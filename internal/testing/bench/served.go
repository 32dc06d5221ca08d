package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sealift/sealift/internal/testing/objects"
	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/testgrid/lab/daemon"
)

// load describes the packages on the servers: a bundle of all packages has a little more than 1 GB.
var load = objects.Load{Packages: 4, Own: 240_000_000, Shared: 64_000_000}

// served is a store with a server in front of it.
type served struct {
	location string // of the store
	packages store.Store
	command  daemon.Command
	daemon   *daemon.Daemon
	base     string // of the server's URLs
	close    func()
}

// servedKinds are the kinds of stores that serve makes.
func servedKinds() []string { return []string{"a folder", "versitygw"} }

// serve makes a store of each kind, with the same packages in them, and a server before each, once.
func (b *bench) serve(ctx context.Context) error {
	if len(b.stores) > 0 {
		return nil
	}
	home := b.dir.File("served")
	folder := filepath.Join(home, "packages")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	bucket, err := objects.Run(ctx, home, func(line string) { fmt.Fprintln(os.Stderr, line) })
	if err != nil {
		return err
	}
	b.stores = []*served{{location: folder, close: func() {}}, {location: bucket.URL(""), close: bucket.Stop}}
	for _, setting := range bucket.Environment() {
		name, value, _ := strings.Cut(setting, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	for n, s := range b.stores {
		if s.packages, err = store.Open(s.location); err != nil {
			return err
		}
		if err := objects.Fill(ctx, s.packages, load); err != nil {
			return err
		}
		s.command = daemon.Command{Path: b.sealift, Log: filepath.Join(home, fmt.Sprintf("server-%d.log", n)),
			Args: []string{"serve", "--store", s.location, "--listen", "127.0.0.1:0", "--rate", "1e9", "--cache", filepath.Join(home, "cache")}}
		if err := s.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// start starts the server with no cached plans.
func (s *served) start(ctx context.Context) (err error) {
	if s.daemon, err = daemon.Start(s.command); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return s.daemon.WaitReady(ctx, func(context.Context) error {
		_, rest, _ := strings.Cut(s.daemon.LogTail(), " on ")
		address, _, ok := strings.Cut(rest, "; end")
		if !ok {
			return errors.New("it has not printed its address")
		}
		s.base = "http://" + address
		return nil
	})
}

func (s *served) stop() {
	if s.daemon != nil {
		s.daemon.Stop()
	}
}

// bundle returns the URL of the bundle of the first so many packages.
func (s *served) bundle(ctx context.Context, packages int) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+"/installer", strings.NewReader(load.Installer(packages)))
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	at := strings.TrimSpace(string(text))
	if resp.StatusCode/100 != 2 {
		return "", fmt.Errorf("store an Installer: %s: %s", resp.Status, at)
	}
	return s.base + "/bundle" + at[strings.LastIndex(at, "/"):] + ".tar.gz", nil
}

// memory returns the peak of the server while f runs, in MiB.
func (s *served) memory(f func() error) (int64, error) {
	if err := daemon.ForgetPeak(s.daemon.PID()); err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	peak, err := daemon.PeakMemory(s.daemon.PID())
	return peak >> 20, err
}
