package page_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/console/audit"
	"github.com/sealift/sealift/console/background"
	"github.com/sealift/sealift/console/command"
	"github.com/sealift/sealift/console/history"
	"github.com/sealift/sealift/console/page"
	"github.com/sealift/sealift/console/upload"
)

// hostile is a text that a worker or a cluster may write anywhere.
const hostile = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>` + "\u001b]0;title\u0007\u202e"

// hostileJSON is hostile inside of a string of JSON.
const hostileJSON = `<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u001b]0;title\u0007\u202e`

// documents are what the sealift of the tests prints, by the first words of a command.
func documents() map[string]string {
	return map[string]string{
		"status -o": `{"state":"failed","bundle":"/media/@.tar.gz","log":"/var/log/@.log","resume":"sudo sealift install @","steps":9,"finished":7,
"failure":{"step":"@","time":"2026-01-02T03:04:05Z","error":"@ did not work","log":"/var/log/@.log"},"lastStep":"2026-01-02T03:04:05Z",
"addOns":[{"name":"@","version":"@","state":"failed","health":"not ready","why":"@"}],
"nodes":[{"name":"@","roles":["@","worker"],"ready":false,"why":"@","version":"@","address":"@","runtime":"@","os":"@","kernel":"@"}],
"stopped":["@.service"],"settings":[{"name":"@","is":"@"},{"name":"@","is":"0","file":"@"}],
"certificates":[{"file":"@","kind":"@","usedBy":["@"],"problem":"@","end":"2025-01-02T03:04:05Z","daysLeft":-5}],
"rotation":{"since":"@","parts":["@"],"next":"@"},
"underWay":[{"kind":"@","leader":"@","stage":"@","about":"@","next":"@","waits":true,"began":"2026-01-02T03:04:05Z","failed":true}],
"undo":{"leader":"@"},"snapshots":{"everySeconds":60,"problem":"@","last":{"store":"@","time":"2026-01-02T03:04:05Z"}},
"drill":{"time":"2026-01-02T03:04:05Z","snapshot":"2026-01-02T03:04:05Z","passed":false},
"space":[{"path":"@","freeBytes":5,"neededBytes":18446744073709551615}],"sees":"@","cluster":"@","api":{"endpoint":"@","answers":true,"ready":false,"why":"@"}}`,
		"certs -o":       `[{"file":"@","kind":"@","subject":"@","issuer":"@","end":"2026-02-02T03:04:05Z","daysLeft":3,"usedBy":["@"],"renewedBy":"@","problem":"@"},{"file":"@","kind":"keys","usedBy":[]}]`,
		"snapshot list":  `[{"file":"snapshot-0123abcd-node-20260102T030405Z.tar.gz.age","cluster":"@","node":"@","time":"2026-01-02T03:04:05Z","size":12345678},{"file":"@","cluster":"@","node":"@","time":"2026-01-02T03:04:05Z","size":1}]`,
		"journal -o":     `[{"time":"2026-01-02T03:04:05Z","operation":"@","step":"@","phase":"@","inputs":"@","outcome":"failed","duration":1500000000,"error":"@"}]`,
		"upgrade status": `{"paused":true,"upgrade":{"from":"@","to":"@","leader":"@","began":"2026-01-02T03:04:05Z","phase":"@","error":"@","changes":[],"nodes":{"@":{"stage":"@","error":"@","took":12.5,"away":3}}}}`,
		"upgrade --bundle": `{"plan":{"from":"@","to":"@","stops":["@"],"changes":[{"addOn":"@","from":"@","to":"@","options":true}],"nodes":[{"name":"@","role":"@","version":"@","drained":true}],"bytes":1000000,"resumes":true},
"checks":[{"check":"@","status":"fail","message":"@","hint":"@"}]}`,
		"verify":       `{"digest":"@","trust":{"signer":"@"}}`,
		"inspect":      `{"digest":"@","kind":"bundle","signed":true,"base":"@","platforms":["@"],"packages":[{"name":"@","version":"@","targets":["@"],"images":[{}]}],"entries":[{"path":"addons/a/1/x","length":5},{"path":"addons/@","length":5},{"path":"bin/sealift","length":7}]}`,
		"upgrade undo": `{"from":"@","time":"2026-01-02T03:04:05Z","nodes":["@"],"controlPlanes":["@"],"lost":{"unknown":"@","created":["@"],"changed":["@"],"deleted":["@"]}}`,
		"restore snapshot-0123abcd-node-20260102T030405Z.tar.gz.age": "12 pods\n",
		"snapshot save":  `{"file":"@"}`,
		"fleet clusters": `[{"name":"@","available":"@","lastSeen":"2026-01-02T03:04:05Z","version":"@","set":"@","addOns":-1,"message":"@"},{"name":"ship","available":"Unknown","occasional":true,"asleep":true},{"name":"sea","available":"True","carried":true}]`,
		"fleet status":   `[{"name":"@","clusters":1,"paused":true,"placements":[{"placement":"@","message":"@"}]},{"name":"hello","clusters":3,"unhealthy":1}]`,
		"fleet status hello": `{"name":"@","paused":true,"placements":[{"placement":"@","message":"@"}],"rows":[{"cluster":"@","status":"@","wave":"@","waitsFor":"@","available":"@","message":"@"},
{"cluster":"oslo","status":"Failed","wave":"@","available":"False","message":"@"},{"cluster":"ship","status":"Waiting","skipped":true,"lastSeen":"2026-01-02T03:04:05Z"},{"cluster":"rome","status":"Succeeded","available":"True"}]}`,
		"fleet carried":   `[{"name":"@","reported":"2026-01-02T03:04:05Z","works":3,"waiting":["@"],"removed":["@"],"failed":["@"]},{"name":"sea","works":1,"waiting":["addon-hello-deploy-0"]}]`,
		"snapshot verify": `{"file":"@"}`,
	}
}

// console is the console of a test, with a browser that has no script.
type console struct {
	t     *testing.T
	URL   string
	dir   string // of the documents, and of the file "go" for which slow commands wait
	site  *page.Site
	token access.Tokens
	clock *clock
	audit *audit.Log

	options page.Options
	handler atomic.Pointer[http.Handler]
	stop    func()
}

// clock is a clock that tests move.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// script is the sealift of the tests. It notes its arguments. Commands that change something say hostile things.
const script = `#!/bin/sh
cd "$(dirname "$0")"
echo "$*" >>calls
case "$1 $2" in
"upgrade pause") while [ ! -e go ]; do sleep 0.05; done; cat hostile >&2; exit 0;;
"snapshot save"|"snapshot verify"|"upgrade --bundle"|"upgrade undo") cat hostile >&2;;
esac
case "$*" in
*--yes*|*--drill*) while [ ! -e go ]; do sleep 0.05; done;;
esac
case "$1" in
verify|inspect) grep -q FORGED "$2" && { echo "sealift: $2 is not to be trusted: not signed with a given key" >&2; cat hostile >&2; exit 1; }; [ -e "$1" ] && exec cat "$1";;
esac
[ -e "$1 $2 $3" ] && exec cat "$1 $2 $3"
[ -e "$1 $2" ] && exec cat "$1 $2"
echo "no document for $*" >&2
exit 1
`

// start serves a console whose sealift prints documents. An @ in them stands for a hostile text.
func start(t *testing.T, documents map[string]string) *console {
	t.Helper()
	dir := tempDir(t)
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"sealift", "sealift-controller"} {
		write(program, script, 0o700)
	}
	write("hostile", hostile+"\n", 0o600)
	for name, text := range documents {
		write(name, strings.ReplaceAll(text, "@", hostileJSON), 0o600)
	}
	bundles := filepath.Join(dir, "bundles")
	if err := os.Mkdir(bundles, 0o700); err != nil {
		t.Fatal(err)
	}
	write("bundles/cluster.tar.gz", "", 0o600)
	c := &console{t: t, dir: dir, clock: &clock{}, audit: audit.New(filepath.Join(dir, "audit"), 0)}
	c.token = access.Tokens{Dir: filepath.Join(dir, "tokens"), Now: c.clock.now}
	c.options = page.Options{
		Program: filepath.Join(dir, "sealift"), Node: "node-1", Now: c.clock.now, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Settings: command.Settings{SnapshotKey: "age1key", SnapshotStore: "/backups", SnapshotIdentity: "/root/key", Bundles: bundles, BundleKeys: []string{"/root/release.pub"},
			Fleet: command.Fleet{Program: filepath.Join(dir, "sealift-controller"), Kubeconfig: "/root/hub.kubeconfig"}},
		Uploads: upload.Options{Spool: filepath.Join(dir, "uploads"), Bundles: filepath.Join(dir, "ready"),
			Space: func(string) (uint64, error) { return 1 << 40, nil }},
		Background: c.background(), Tokens: c.token, Sessions: access.Sessions{Dir: filepath.Join(dir, "sessions"), Now: c.clock.now},
		History: func() []history.Sample { return sampled(c.clock.now(), 120) },
		Audit:   c.audit, Refused: audit.New(filepath.Join(dir, "refused"), 0), Host: func(name string) bool { return name == "127.0.0.1" },
	}
	c.restart()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*c.handler.Load()).ServeHTTP(w, r) }))
	t.Cleanup(s.Close)
	c.URL = s.URL
	return c
}

// sampled returns n samples until now. The API did not answer for five minutes in the middle.
func sampled(now time.Time, n int) (all []history.Sample) {
	for i := n - 1; i >= 0; i-- {
		s := history.Sample{Time: now.Add(-time.Duration(i) * history.Every), Etcd: 40<<20 + int64(i%7)<<18, API: 12.5 + float64(i*i%11)}
		if i >= 55 && i < 65 {
			s.API = 0
		}
		all = append(all, s)
	}
	return all
}

// tempDir makes a folder. Reads that outlast the person who asked still write to it when a test ends.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "console")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 300 {
			if err = os.RemoveAll(dir); err == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Error(err)
	})
	return dir
}

// background runs changes in this process, as systemd runs them in a unit.
func (c *console) background() *background.Runner {
	dir := filepath.Join(c.dir, "background")
	worker := background.Worker{
		Dir: dir, Now: c.clock.now,
		Run: func(ctx context.Context, words []string, out, errOut io.Writer) error {
			return command.Run(ctx, filepath.Join(c.dir, "sealift"), words, out, errOut)
		},
		Ended: func(background.State) error { return nil },
	}
	var working atomic.Int32
	return &background.Runner{
		Dir: dir, Active: func(context.Context) (bool, error) { return working.Load() > 0, nil },
		Start: func(context.Context) error {
			working.Add(1)
			go func() {
				defer working.Add(-1)
				if err := worker.Work(c.t.Context()); err != nil && c.t.Context().Err() == nil {
					c.t.Error(err)
				}
			}()
			return nil
		},
	}
}

// finish waits until an action that a person has started ends. Its page says so.
func (p *person) finish(path string) {
	p.t.Helper()
	wait(p.t, func() bool { _, _, text := p.get(path); return !strings.Contains(text, "It is running") })
}

// restart serves another console with the same folders, as after an upgrade of its program.
func (c *console) restart() {
	c.t.Helper()
	if c.stop != nil {
		c.stop()
	}
	ctx, cancel := context.WithCancel(c.t.Context())
	c.stop = cancel
	var err error
	if c.site, err = page.New(ctx, c.options); err != nil {
		c.t.Fatal(err)
	}
	h := c.site.Handler()
	c.handler.Store(&h)
}

// newToken makes a token for one login of jane.
func (c *console) newToken(role access.Role) string { return c.tokenFor("jane", role) }

func (c *console) tokenFor(name string, role access.Role) string {
	c.t.Helper()
	text, _, err := c.token.Create(name, role)
	if err != nil {
		c.t.Fatal(err)
	}
	return text
}

// person is a browser without a script.
type person struct {
	*console
	http.Client
}

func (c *console) person() *person {
	jar, err := cookiejar.New(nil)
	if err != nil {
		c.t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // httptest's certificate
	c.t.Cleanup(transport.CloseIdleConnections)
	return &person{c, http.Client{Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// as returns jane, who has logged in.
func (c *console) as(role access.Role) *person { return c.named("jane", role) }

func (c *console) named(name string, role access.Role) *person {
	c.t.Helper()
	p := c.person()
	if code, _, text := p.post("/login", p.form("/login"), url.Values{"token": {c.tokenFor(name, role)}}); code != http.StatusSeeOther {
		c.t.Fatalf("log in: %d %s", code, text)
	}
	return p
}

// do sends a request, and returns status, header and body.
func (p *person) do(method, path string, body url.Values, change func(*http.Request)) (int, http.Header, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.URL+path, strings.NewReader(body.Encode()))
	if err != nil {
		p.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if change != nil {
		change(r)
	}
	resp, err := p.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

func (p *person) get(path string) (int, http.Header, string) {
	p.t.Helper()
	return p.do(http.MethodGet, path, nil, nil)
}

// post sends a form with its token.
func (p *person) post(path, form string, values url.Values) (int, http.Header, string) {
	p.t.Helper()
	if values == nil {
		values = url.Values{}
	}
	values.Set("form", form)
	return p.do(http.MethodPost, path, values, nil)
}

var formToken = regexp.MustCompile(`name="form" value="([^"]+)"`)

// form returns the token of the forms of a page.
func (p *person) form(path string) string {
	p.t.Helper()
	_, _, text := p.get(path)
	found := formToken.FindStringSubmatch(text)
	if found == nil {
		p.t.Fatalf("%s has no form: %s", path, text)
	}
	return found[1]
}

// calls are the commands that were run.
func (c *console) calls() string {
	text, err := os.ReadFile(filepath.Join(c.dir, "calls"))
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	return string(text)
}

// uploads are the records of uploads on the disk.
func (c *console) uploads() (all []upload.Upload) {
	c.t.Helper()
	names, err := filepath.Glob(filepath.Join(c.options.Uploads.Spool, "*.json"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, name := range names {
		var u upload.Upload
		text, err := os.ReadFile(name)
		if err := errors.Join(err, json.Unmarshal(text, &u)); err != nil {
			c.t.Fatal(err)
		}
		all = append(all, u)
	}
	return all
}

// release lets the slow command end.
func (c *console) release() {
	if err := os.WriteFile(filepath.Join(c.dir, "go"), nil, 0o600); err != nil {
		c.t.Fatal(err)
	}
}
