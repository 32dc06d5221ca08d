package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/server"
	"github.com/sealift/sealift/store"
)

// numbered are different Installers.
func numbered(n int) string {
	return installer(fmt.Sprintf("  base: {version: '1.0'}\n  user: {version: '2.0', size: %d}\n", n))
}

func TestClientHasDailyQuotaOfInstallers(t *testing.T) {
	front := serve(t, filled(t), func(o *server.Options) { o.MaxPerClient, o.BehindProxy = 3, true })
	from := func(client string, n int, header ...string) answer {
		return ask(t, "POST", front.URL+"/installer", numbered(n), append(header, "X-Forwarded-For", client)...)
	}
	for n, want := range []int{201, 201, 201, 429, 429} {
		if a := from("192.0.2.1", n); a.StatusCode != want {
			t.Errorf("Installer %d: %s %s, want %d", n, a.Status, a.body, want)
		}
	}
	if a := from("192.0.2.1", 0); a.StatusCode != http.StatusOK {
		t.Errorf("one that is there: %s", a.Status)
	}
	if a := from("192.0.2.2", 4); a.StatusCode != http.StatusCreated {
		t.Errorf("another client: %s", a.Status)
	}
	if a := from("192.0.2.1", 5, "Authorization", "Bearer "+token); a.StatusCode != http.StatusCreated {
		t.Errorf("with the token: %s", a.Status)
	}
}

func TestStoreHasQuotaOfInstallers(t *testing.T) {
	packages := filled(t)
	few := func(o *server.Options) { o.MaxInstallers = 2 }
	first := serve(t, packages, few)
	ask(t, "PUT", first.URL+"/installer/named", numbered(9), "Authorization", "Bearer "+token) // does not count
	for n := range 2 {
		post(t, first.URL, numbered(n))
	}
	for name, front := range map[string]*httptest.Server{"the same server": first, "another replica": serve(t, packages, few)} {
		if a := ask(t, "POST", front.URL+"/installer", numbered(2)); a.StatusCode != http.StatusInsufficientStorage || !strings.Contains(string(a.body), "--max-installers") {
			t.Errorf("%s: %s %s", name, a.Status, a.body)
		}
	}
	if a := ask(t, "POST", first.URL+"/installer", numbered(2), "Authorization", "Bearer "+token); a.StatusCode != http.StatusCreated {
		t.Errorf("with the token: %s", a.Status)
	}
}

// decorated is a store as 'sealift serve' has it.
type decorated struct{ store.Store }

func (d decorated) Unwrap() store.Store { return d.Store }

func TestUnusedInstallersExpire(t *testing.T) {
	dir := t.TempDir()
	packages := open(t, dir)
	fill(t, packages)
	const expire = 30 * 24 * time.Hour
	start := func() (*server.Server, string) {
		h := newServer(t, decorated{packages}, func(o *server.Options) { o.Expire = expire })
		front := httptest.NewServer(h)
		t.Cleanup(front.Close)
		return h, front.URL
	}
	_, url := start()
	used, script, unused := post(t, url, numbered(1)), post(t, url, numbered(2)), post(t, url, numbered(3))
	ask(t, "PUT", url+"/installer/named", numbered(4), "Authorization", "Bearer "+token)
	now := time.Now()
	// all of them are old
	for _, id := range []string{used, script, unused, "named"} {
		at := now.Add(-2 * expire)
		if err := os.Chtimes(filepath.Join(dir, "installers", id+".yaml"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	h, url := start()
	var last time.Time
	sweep := func(now time.Time) { // as often as a server does, or less
		t.Helper()
		for !last.IsZero() && now.Sub(last) > expire/3 {
			last = last.Add(expire / 3)
			if err := h.Sweep(t.Context(), last); err != nil {
				t.Fatal(err)
			}
		}
		last = now
		if err := h.Sweep(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	sweep(now) // a store of an earlier server, in which ages mean nothing yet
	if a := ask(t, "GET", url+"/bundle/"+used+".tar.gz", "", "Range", "bytes=0-9"); a.StatusCode != http.StatusPartialContent {
		t.Fatalf("%s", a.Status)
	}
	if a := ask(t, "GET", url+"/"+script, ""); a.StatusCode != http.StatusOK {
		t.Fatalf("%s", a.Status)
	}
	sweep(now.Add(expire - time.Hour)) // not long enough since use is noted
	have := func(id string) int {
		return ask(t, "HEAD", serve(t, packages, nil).URL+"/installer/"+id, "").StatusCode
	}
	if have(unused) != http.StatusOK {
		t.Error("an Installer was removed before its use was noted for as long as it may be unused")
	}
	sweep(now.Add(expire))
	for id, want := range map[string]int{used: 200, script: 200, "named": 200, unused: 404} {
		if got := have(id); got != want {
			t.Errorf("%s: %d, want %d", id, got, want)
		}
	}
	sweep(now.Add(2*expire + time.Hour))
	for id, want := range map[string]int{used: 404, "named": 200} {
		if got := have(id); got != want {
			t.Errorf("%s, after it was not used for long: %d, want %d", id, got, want)
		}
	}
}

// TestClockJumpRemovesNoInstaller sets the clock of a server ahead and back, and has it switched off for long.
func TestClockJumpRemovesNoInstaller(t *testing.T) {
	packages := open(t, t.TempDir())
	fill(t, packages)
	const expire, day = 90 * 24 * time.Hour, 24 * time.Hour
	h := newServer(t, packages, func(o *server.Options) { o.Expire = expire })
	front := httptest.NewServer(h)
	t.Cleanup(front.Close)
	id := post(t, front.URL, numbered(1))
	begin := time.Now()
	for _, clock := range []time.Duration{0, 425 * day, 426 * day, 1 * day, 31 * day, 61 * day, -365 * 50 * day, -365*50*day + day, 62 * day, 89 * day, 200 * day} {
		if err := h.Sweep(t.Context(), begin.Add(clock)); err != nil {
			t.Fatal(err)
		}
		if got := ask(t, "HEAD", serve(t, packages, nil).URL+"/installer/"+id, "").StatusCode; got != http.StatusOK {
			t.Fatalf("after a sweep %v from the begin: %d", clock, got)
		}
	}
	for clock := 200 * day; clock <= 300*day; clock += 10 * day {
		if err := h.Sweep(t.Context(), begin.Add(clock)); err != nil {
			t.Fatal(err)
		}
	}
	if got := ask(t, "HEAD", serve(t, packages, nil).URL+"/installer/"+id, "").StatusCode; got != http.StatusNotFound {
		t.Errorf("unused for a hundred days with an even clock: %d", got)
	}
}
