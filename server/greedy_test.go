package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/server"
	"github.com/sealift/sealift/store"
)

// counted is a store that counts its requests.
type counted struct {
	store.Store
	listings       atomic.Int64
	installerBytes atomic.Int64
}

func (c *counted) List(ctx context.Context, prefix string) ([]store.Info, error) {
	c.listings.Add(1)
	return c.Store.List(ctx, prefix)
}

func (c *counted) Get(ctx context.Context, key string) (store.Object, error) {
	o, err := c.Store.Get(ctx, key)
	if err != nil || !strings.HasPrefix(key, "installers/") {
		return o, err
	}
	return countedObject{o, c}, nil
}

type countedObject struct {
	store.Object
	in *counted
}

func (o countedObject) ReadAt(p []byte, off int64) (int, error) {
	n, err := o.Object.ReadAt(p, off)
	o.in.installerBytes.Add(int64(n))
	return n, err
}

// ranges requests single bytes of a bundle, several at a time.
func ranges(t *testing.T, url string, number int) {
	t.Helper()
	var group sync.WaitGroup
	for worker := range 10 {
		group.Go(func() {
			for n := worker; n < number; n += 10 {
				if a := ask(t, "GET", url, "", "Range", fmt.Sprintf("bytes=%d-%d", n, n)); a.StatusCode != http.StatusPartialContent {
					t.Errorf("%s: %s", a.Status, a.body)
					return
				}
			}
		})
	}
	group.Wait()
}

// large is an Installer of nearly the maximum size.
func large() string {
	return installer(both + "  kurl:\n    additionalNoProxyAddresses: [" + strings.Repeat("a,", 12_000) + "a]\n")
}

func TestRangesOfBundleReadItsInstallerOnce(t *testing.T) {
	c := &counted{Store: filled(t)}
	id := post(t, serve(t, c, nil).URL, large())
	h := newServer(t, c, nil)
	front := httptest.NewServer(h)
	t.Cleanup(front.Close)
	stored := int64(len(ask(t, "GET", serve(t, c, nil).URL+"/installer/"+id, "").body))
	c.installerBytes.Store(0)
	ranges(t, front.URL+"/bundle/"+id+".tar.gz", 1500)
	ask(t, "GET", front.URL+"/"+id, "")
	ask(t, "GET", front.URL+"/installer/"+id, "")
	if n := h.Parsed(); n != 2 { // to learn its add-ons, and to plan
		t.Errorf("1,500 ranges of a bundle parsed its Installer %d times", n)
	}
	if n := c.installerBytes.Load(); n > 2*stored {
		t.Errorf("1,500 ranges of a bundle read %d bytes of its Installer of %d", n, stored)
	}
}

func TestRangesOfBundleWithPatternsListStoreOnce(t *testing.T) {
	c := &counted{Store: filled(t)}
	front := serve(t, c, nil)
	id := post(t, front.URL, installer("  base: {version: latest}\n  user: {version: 2.x}\n"))
	c.listings.Store(0)
	begin := time.Now()
	ranges(t, front.URL+"/bundle/"+id+".tar.gz", 300)
	most := 2 * (1 + int64(time.Since(begin)/server.FreshFor))
	if n := c.listings.Load(); n > most {
		t.Errorf("300 ranges of a bundle with two patterns listed the store %d times, want at most %d", n, most)
	}
}

func TestReplacedInstallerIsServedAtOnce(t *testing.T) {
	s := folder(t)
	for _, version := range []string{"1.0", "1.1", "1.0"} {
		ask(t, "PUT", s.URL+"/installer/demo", installer("  base: {version: '"+version+"'}\n"), "Authorization", "Bearer "+token)
		if a := ask(t, "GET", s.URL+"/installer/demo", ""); !strings.Contains(string(a.body), `"`+version+`"`) {
			t.Errorf("base %s was put, and this is given:\n%s", version, a.body)
		}
	}
}

// TestClientsAlternate lets one client ask for a hundred slots before another one asks for one.
func TestClientsAlternate(t *testing.T) {
	turns := server.NewTurns(server.MaxTexts)
	first, err := turns.Take(t.Context(), "greedy", server.MaxTexts)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan string, server.MaxWaiting+1)
	wait := func(client string) {
		before := turns.Waiting()
		go func() {
			done, err := turns.Take(t.Context(), client, server.MaxTexts)
			if err != nil {
				t.Error(err)
				return
			}
			served <- client
			done()
		}()
		for turns.Waiting() == before {
			time.Sleep(time.Millisecond)
		}
	}
	for range server.MaxWaiting {
		wait("greedy")
	}
	wait("modest")
	if _, err := turns.Take(t.Context(), "greedy", 1); err == nil || !strings.Contains(err.Error(), "wait until they are answered") {
		t.Errorf("one more request of a client with %d that wait: %v", server.MaxWaiting, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := turns.Take(gone, "impatient", 1); err == nil {
		t.Error("one who has gone got a turn")
	}
	first()
	var order []string
	for range server.MaxWaiting + 1 {
		order = append(order, <-served)
	}
	if at := slices.Index(order, "modest"); at > 2 {
		t.Errorf("a modest client was served after %d requests of a greedy one", at)
	}
}

func TestSlotsBoundConcurrentWork(t *testing.T) {
	turns := server.NewTurns(server.MaxTexts)
	var working, most atomic.Int64
	var group sync.WaitGroup
	for n := range 90 {
		group.Go(func() {
			const size = server.MaxTexts / 8
			done, err := turns.Take(t.Context(), strconv.Itoa(n%3), size)
			if err != nil {
				t.Error(err)
				return
			}
			now := working.Add(size)
			for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
			}
			time.Sleep(time.Millisecond)
			working.Add(-size)
			done()
		})
	}
	group.Wait()
	if got := most.Load(); got > server.MaxTexts {
		t.Errorf("%d bytes were worked on at once, want at most %d", got, server.MaxTexts)
	}
}

// TestMistakesQuoteLittle sends one long value in many places.
func TestMistakesQuoteLittle(t *testing.T) {
	text := "  a0: {version: &v '" + strings.Repeat(`"`, 30_000) + "'}\n"
	for n := range 30 {
		text += fmt.Sprintf("  a%d: {version: *v}\n", n+1)
	}
	a := ask(t, "POST", folder(t).URL+"/installer", installer(text))
	if a.StatusCode != http.StatusUnprocessableEntity || strings.Count(string(a.body), "bad version") < 31 || len(a.body) > server.MaxTexts {
		t.Errorf("%s, %d bytes", a.Status, len(a.body))
	}
	word := "  iptablesConfig: {iptablesCmds: [[" + strings.Repeat("a", 30_000) + "]]}\n"
	if a := ask(t, "POST", folder(t).URL+"/installer", installer(both+word)); a.StatusCode != http.StatusForbidden || len(a.body) > 2<<10 {
		t.Errorf("%s, %d bytes", a.Status, len(a.body))
	}
}

func TestLargeAnswersCountForTheirClient(t *testing.T) {
	for size, want := range map[int]int{100: http.StatusOK, 100_000: http.StatusTooManyRequests} {
		if got := server.AnswerWithoutRoom(size); got != want {
			t.Errorf("an answer of %d bytes to a client without room: %d, want %d", size, got, want)
		}
	}
}
