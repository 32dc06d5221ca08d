package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/internal/testing/objects"
	"github.com/sealift/sealift/internal/testing/short"
)

// alone is a client with one connection for each request.
func alone() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ReadBufferSize: 4 << 10}}
}

// maxGrowth bounds the memory for clients, beside the memory of the started server, which is mostly the program itself: the
// kernel counts some 80 MiB of the file as memory.
const maxGrowth = 56 << 20

// TestHundredsOfClientsTakeBoundedMemory has 200 downloads that all run at once, while 200 others read ranges of the same bundle.
func TestHundredsOfClientsTakeBoundedMemory(t *testing.T) {
	short.Skip(t, "minutes of both cores")
	dir := t.TempDir()
	installer := fill(t, dir, objects.Load{Packages: 4, Own: 20_000_000, Shared: 10_000_000})
	s := startServer(t, "--store", dir, "--rate", "100000", "--max-connections", "512", "--max-connections-per-client", "512")
	at := s.bundleURL(t, installer)
	size := sizeOf(t, at)
	before := s.peak(t)
	var under atomic.Int64
	all := make(chan struct{})
	var group errgroup.Group
	for range 200 {
		group.Go(func() error {
			resp, err := alone().Get(at)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if _, err := io.CopyN(io.Discard, resp.Body, 1<<20); err != nil {
				return err
			}
			if under.Add(1) == 200 {
				close(all)
			}
			<-all // each has begun when the first continues
			_, err = io.CopyN(io.Discard, resp.Body, 4<<20)
			return err
		})
	}
	for n := range 200 {
		group.Go(func() error {
			client := alone()
			for round := range 5 {
				from := (int64(n)*7919 + int64(round)*104_729_000) % (size - 1<<20)
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
				if err != nil {
					return err
				}
				req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, from+1<<20-1))
				resp, err := client.Do(req)
				if err != nil {
					return err
				}
				n, err := io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if err != nil || n != 1<<20 {
					return fmt.Errorf("%d bytes of a range: %w", n, err)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	peak := s.peak(t)
	t.Logf("the server used up to %d MiB, %d MiB before 200 downloads and 200 readers of ranges", peak>>20, before>>20)
	if peak-before > maxGrowth {
		t.Errorf("it grew by more than %d MiB", maxGrowth>>20)
	}
}

func sizeOf(t *testing.T, at string) int64 {
	t.Helper()
	resp, err := http.Head(at)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.ContentLength
}

// TestManyFormsTakeBoundedMemory sends more forms with settings of 9.5 kB than wait at once. One client may, within the default rate.
func TestManyFormsTakeBoundedMemory(t *testing.T) {
	short.Skip(t, "minutes of both cores")
	dir := t.TempDir()
	fill(t, dir, objects.Load{Packages: 2, Own: 1_000_000})
	s := startServer(t, "--store", dir)
	further := "kurl: {additionalNoProxyAddresses: [" + strings.Repeat("a,", 4_700) + "a]}"
	at := "http://" + s.address + "/compose?further=" + url.QueryEscape(further)
	sizeOf(t, at) // what the program reads of its own files to answer a form is not counted
	before := s.peak(t)
	begin := time.Now()
	var answered, turnedAway atomic.Int64
	var group errgroup.Group
	for range 120 { // more than wait at once
		group.Go(func() error {
			resp, err := alone().Get(at)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			switch resp.StatusCode {
			case http.StatusOK:
				answered.Add(1)
			case http.StatusTooManyRequests:
				turnedAway.Add(1)
			default:
				return fmt.Errorf("answered %s", resp.Status)
			}
			_, err = io.Copy(io.Discard, resp.Body)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	peak := s.peak(t)
	t.Logf("the server used up to %d MiB, %d MiB before; %d forms were answered and %d turned away in %s", peak>>20, before>>20, answered.Load(), turnedAway.Load(), time.Since(begin).Round(time.Millisecond))
	if peak-before > maxGrowth || answered.Load() == 0 {
		t.Errorf("it grew by more than %d MiB, or no form was answered", maxGrowth>>20)
	}
}
