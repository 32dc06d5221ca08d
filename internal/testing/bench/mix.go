package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// The load of the request mix: the number of clients and of requests per client.
const (
	mixClients  = 32
	mixRequests = 250
)

// ask is one kind of request with its share in percent.
type ask struct {
	name, method, path string
	share              int
	body               string
	byteRange          func(*rand.Rand) string
	status             int
}

// mixOf returns the requests, some of them for one bundle and its Installer.
func mixOf(bundle string) []ask {
	id := strings.TrimSuffix(strings.TrimPrefix(bundle, "/bundle/"), ".tar.gz")
	piece := func(random *rand.Rand) string {
		from := random.IntN(load.Packages * load.Own)
		return fmt.Sprintf("bytes=%d-%d", from, from+random.IntN(1<<20))
	}
	return []ask{
		{"a script", "GET", "/" + id, 20, "", nil, 200},
		{"an Installer", "GET", "/installer/" + id, 10, "", nil, 200},
		{"an Installer is stored again", "POST", "/installer", 5, load.Installer(load.Packages), nil, 200},
		{"an Installer is validated", "POST", "/installer/validate", 10, load.Installer(2), nil, 200},
		{"a wrong Installer is validated", "POST", "/installer/validate", 5, "a: [", nil, 422},
		{"the list of packages", "GET", "/api/packages", 10, "", nil, 200},
		{"HEAD of a bundle", "HEAD", bundle, 5, "", nil, 200},
		{"up to 1 MiB of a bundle", "GET", bundle, 20, "", piece, 206},
		{"the page of all packages", "GET", "/", 5, "", nil, 200},
		{"the page of a package", "GET", "/packages/part-0/1.0", 5, "", nil, 200},
		{"the form", "GET", "/compose?version.part-0=1.0", 5, "", nil, 200},
	}
}

// mix sends the requests that a vendor's users send in an hour within seconds.
func (b *bench) mix(ctx context.Context, s *served) error {
	at, err := s.bundle(ctx, load.Packages)
	if err != nil {
		return err
	}
	asks := mixOf(strings.TrimPrefix(at, s.base))
	var mu sync.Mutex
	waits, failed := map[string][]float64{}, map[string]int{}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: mixClients}}
	begin := time.Now()
	peak, err := s.memory(func() error {
		var group errgroup.Group
		for n := range mixClients {
			group.Go(func() error {
				random := rand.New(rand.NewPCG(uint64(n), 1))
				for range mixRequests {
					a := pick(asks, random)
					wait, err := a.send(ctx, client, s.base, random)
					mu.Lock()
					waits[a.name] = append(waits[a.name], wait.Seconds())
					if err != nil {
						failed[a.name]++
					}
					mu.Unlock()
				}
				return ctx.Err()
			})
		}
		return group.Wait()
	})
	if err != nil {
		return err
	}
	fmt.Printf("%d clients, %.0f requests a second, server's peak %d MiB\n", mixClients, mixClients*mixRequests/time.Since(begin).Seconds(), peak)
	t := newTable(waitsHeader)
	var all []float64
	total := 0
	for _, a := range asks {
		all, total = append(all, waits[a.name]...), total+failed[a.name]
		printWaits(t, a.name, waits[a.name], failed[a.name])
	}
	printWaits(t, "all", all, total)
	return t.Flush()
}

// pick chooses a request by its share.
func pick(asks []ask, random *rand.Rand) ask {
	n := random.IntN(100)
	i := slices.IndexFunc(asks, func(a ask) bool {
		n -= a.share
		return n < 0
	})
	return asks[i]
}

// send sends a request, checks the status, and reads the whole response.
func (a ask) send(ctx context.Context, client *http.Client, base string, random *rand.Rand) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, a.method, base+a.path, strings.NewReader(a.body))
	if err != nil {
		return 0, err
	}
	if a.byteRange != nil {
		req.Header.Set("Range", a.byteRange(random))
	}
	begin := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return time.Since(begin), err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return time.Since(begin), err
	}
	if resp.StatusCode != a.status {
		return time.Since(begin), fmt.Errorf("%s %s: %s", a.method, a.path, resp.Status)
	}
	return time.Since(begin), nil
}
