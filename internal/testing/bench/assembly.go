package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sealift/sealift/store"
)

// flow is one way to get the bytes of a bundle. Its script prints their number and discards them, so that no disk is
// measured.
type flow struct {
	name, script string
}

// assembly compares the download of a bundle, which is assembled while it is sent, with the download of a ready file.
func (b *bench) assembly(ctx context.Context, s *served) error {
	at, err := s.bundle(ctx, load.Packages)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(b.dir.Path(), "assembly-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ready := filepath.Join(dir, "ready.tar.gz")
	if err := b.shell(dir, "curl -fsS -o ready.tar.gz "+at); err != nil {
		return err
	}
	get := "curl -fsS -w '%{size_download}\\n'"
	flows := []flow{{"cat of the same bytes", "cat " + ready + " | wc -c"}}
	if presigner, ok := s.packages.(store.Presigner); ok {
		// only the server's own reads: the same objects, in sequence on one connection
		script := get
		for n := range load.Packages {
			url, err := presigner.Presign(ctx, fmt.Sprintf("part-%d-1.0.tar.gz", n), time.Hour)
			if err != nil {
				return err
			}
			script += fmt.Sprintf(" -o /dev/null '%s'", url)
		}
		flows = append([]flow{{"GET of the packages, by URLs that are signed in advance", script}}, flows...)
	} else {
		files, stop, err := fileServer(dir)
		if err != nil {
			return err
		}
		defer stop()
		flows = append(flows, flow{"GET of the same bytes as a file, from Go's file server", get + " -o /dev/null " + files + "/ready.tar.gz"})
	}
	flows = append(flows, flow{"GET of the bundle, sealift serve", get + " -o /dev/null " + at})
	times, err := b.flows(dir, flows)
	if _, ok := s.packages.(store.Presigner); ok && err == nil {
		b.aim("serve: a bundle from versitygw, wall for each byte", times, 1.5, "x")
	}
	return err
}

// fileServer serves the files of a folder.
func fileServer(dir string) (base string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: http.FileServer(http.Dir(dir)), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	return "http://" + l.Addr().String(), func() { _ = server.Close() }, nil
}

// flows runs each flow in turn, round by round, and prints their medians. It returns how many times as long as the first one the last one
// takes for each byte.
func (b *bench) flows(dir string, flows []flow) (times float64, err error) {
	walls, sizes := make([][]float64, len(flows)), make([]int64, len(flows))
	for range b.rounds {
		for i, f := range flows {
			begin := time.Now()
			out, err := b.output(dir, f.script)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", f.name, err)
			}
			walls[i] = append(walls[i], time.Since(begin).Seconds())
			sizes[i] = 0
			for line := range strings.FieldsSeq(out) {
				n, err := strconv.ParseInt(line, 10, 64)
				if err != nil {
					return 0, fmt.Errorf("%s printed %q: %w", f.name, out, err)
				}
				sizes[i] += n
			}
		}
	}
	t := newTable("\twall s\tMB\tMB/s\ttimes the first's wall for each byte\t")
	perByte := func(i int) float64 { return middle(walls[i]) / float64(sizes[i]) }
	for i, f := range flows {
		fmt.Fprintf(t, "%s\t%.2f\t%.1f\t%.0f\t%.2f\t\n", f.name, middle(walls[i]), float64(sizes[i])/1e6, 1/perByte(i)/1e6, perByte(i)/perByte(0))
	}
	return perByte(len(flows)-1) / perByte(0), t.Flush()
}

func middle(all []float64) float64 { return quantile(all, 0.5) }

// quantile returns the value below which the given share of all values is.
func quantile(all []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// firstByte measures how long a client waits for the first byte of a bundle: from a server that has just started, from one that
// has planned the bundle before, and in the middle of the bundle, which is read from the store.
func (b *bench) firstByte(ctx context.Context, s *served) error {
	at, err := s.bundle(ctx, load.Packages)
	if err != nil {
		return err
	}
	path := strings.TrimPrefix(at, s.base)
	half := fmt.Sprintf("bytes=%d-", load.Packages*load.Own/2)
	var cold, warm, mid []float64
	for range 5 {
		s.stop()
		if err := s.start(ctx); err != nil {
			return err
		}
		if cold, err = appendWait(ctx, cold, s.base+path, ""); err != nil {
			return err
		}
	}
	for range 200 {
		if warm, err = appendWait(ctx, warm, s.base+path, ""); err != nil {
			return err
		}
		if mid, err = appendWait(ctx, mid, s.base+path, half); err != nil {
			return err
		}
	}
	t := newTable(waitsHeader)
	for _, row := range []struct {
		name  string
		waits []float64
	}{{"of a bundle, the server has just started", cold}, {"of a bundle that was asked for before", warm}, {"of the middle of that bundle", mid}} {
		printWaits(t, row.name, row.waits, 0)
	}
	return t.Flush()
}

// waitsHeader is the header of printWaits.
const waitsHeader = "\trequests\tp50 ms\tp95 ms\tp99 ms\tmost ms\tfailed\t"

func printWaits(t io.Writer, name string, seconds []float64, failed int) {
	ms := func(q float64) float64 { return 1000 * quantile(seconds, q) }
	fmt.Fprintf(t, "%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t\n", name, len(seconds), ms(0.5), ms(0.95), ms(0.99), ms(1), failed)
}

// appendWait measures the time from the request to the first content byte on a new connection, and disconnects.
func appendWait(ctx context.Context, waits []float64, at, byteRange string) ([]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	if byteRange != "" {
		req.Header.Set("Range", byteRange)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	begin := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s: %s", at, resp.Status)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
		return nil, err
	}
	return append(waits, time.Since(begin).Seconds()), nil
}
