package page_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/console/command"
	"github.com/sealift/sealift/console/history"
	"github.com/sealift/sealift/console/upload"
)

// eventsOfUpgrade is a stream that does not end.
const eventsOfUpgrade = "/upgrade/events"

// pages are the addresses of all pages that a person can read.
func pages(c *console) (all []string) {
	for _, r := range c.site.Routes() {
		if r.Method == "GET" && r.Right != "" && r.Pattern != "/" && r.Pattern != eventsOfUpgrade && !strings.ContainsAny(strings.TrimSuffix(r.Pattern, "{$}"), "{") {
			all = append(all, strings.TrimSuffix(r.Pattern, "{$}"))
		}
	}
	return all
}

// TestHostileNamesStayText puts a hostile text into every string that a cluster, a worker or a command writes, and reads all pages.
func TestHostileNamesStayText(t *testing.T) {
	c := start(t, documents())
	c.release()
	p := c.as(access.Administrator)
	if u := p.upload("forged.tar.gz", bundleOf("FORGED")); u.State != upload.Refused {
		t.Errorf("a forged bundle: %+v", u)
	}
	p.upload("other.tar.gz", bundleOf("good"))
	paths := append(pages(c), "/fleet/rollouts/hello", "/bundles/uploaded/other.tar.gz", "/bundles/uploaded/other.tar.gz/delete", "/bundles/folder/cluster.tar.gz")
	for _, action := range command.Actions() {
		code, h, _ := p.post("/actions/"+action.Name, p.form("/"), url.Values{"snapshot": {"snapshot-0123abcd-node-20260102T030405Z.tar.gz.age"}, "bundle": {"cluster.tar.gz"}})
		if code != http.StatusSeeOther {
			t.Fatalf("%s: %d", action.Name, code)
		}
		path := h.Get("Location")
		p.finish(path)
		paths = append(paths, path)
	}
	for _, path := range paths {
		code, h, text := p.get(path)
		if code != http.StatusOK || !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none';") || strings.Contains(h.Get("Content-Security-Policy"), "unsafe") {
			t.Errorf("%s: %d, %v", path, code, h)
		}
		if len(text) > 200_000 {
			t.Errorf("%s has %d bytes", path, len(text))
		}
		if strings.ContainsAny(text, "\x1b\x07\u202e") {
			t.Errorf("%s has control characters", path)
		}
		if !strings.Contains(text, "&lt;script&gt;alert(1)") && path != "/jobs" && path != "/audit" && path != "/sessions" && path != "/join" && !strings.HasSuffix(path, "/delete") && !strings.HasPrefix(path, "/jobs/") {
			t.Errorf("%s does not show the hostile text", path)
		}
		harmless(t, path, text)
	}
}

// harmless fails t for elements and attributes that the console does not write itself.
func harmless(t *testing.T, path, text string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data == "img" || n.Data == "style" || n.Data == "script" && n.FirstChild != nil {
			t.Errorf("%s has an element %s", path, n.Data)
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || (a.Key == "href" || a.Key == "src" || a.Key == "action") && !strings.HasPrefix(a.Val, "/") && a.Val != "#main" {
				t.Errorf("%s has %s=%q in %s", path, a.Key, a.Val, n.Data)
			}
		}
	}
}

// TestRolesWalkEverything asks for every route and every action as every role.
func TestRolesWalkEverything(t *testing.T) {
	c := start(t, documents())
	c.release()
	for _, role := range access.Roles() {
		p := c.as(role)
		form := p.form("/")
		for _, r := range c.site.Routes() {
			if r.Right == "" || r.Pattern == "/" || r.Pattern == "/logout" || r.Pattern == "/actions/{name}" || r.Pattern == eventsOfUpgrade {
				continue
			}
			path := strings.NewReplacer("{$}", "", "{id}", "none", "{from}", "folder", "{name}", "none.tar.gz").Replace(r.Pattern)
			code, _, _ := p.do(r.Method, path, url.Values{"form": {form}}, func(q *http.Request) {
				q.Header.Set("Sealift-Form", form)
			})
			if refused := code == http.StatusForbidden; refused == role.Has(r.Right) {
				t.Errorf("%s, %s %s: got %d", role, r.Method, path, code)
			}
		}
		for _, action := range command.Actions() {
			before := strings.Count(c.calls(), action.Example(command.Settings{}, nil))
			code, h, _ := p.post("/actions/"+action.Name, form, url.Values{"snapshot": {"snapshot-0123abcd-node-20260102T030405Z.tar.gz.age"}, "bundle": {"cluster.tar.gz"}})
			if want := map[bool]int{true: http.StatusSeeOther, false: http.StatusForbidden}[role.Has(action.Right)]; code != want {
				t.Errorf("%s, %s: got %d, want %d", role, action.Name, code, want)
			}
			if location := h.Get("Location"); code == http.StatusSeeOther {
				wait(t, func() bool { _, _, text := p.get(location); return !strings.Contains(text, "It is running") })
			} else if after := strings.Count(c.calls(), action.Example(command.Settings{}, nil)); after != before {
				t.Errorf("%s has run %s", role, action.Name)
			}
		}
	}
}

// TestActionsAreInTheAudit starts an action, and reads who did it. Without an audit it does not run.
// TestTokenOutlastsFullConsole has all sessions in use.
func TestTokenOutlastsFullConsole(t *testing.T) {
	c := start(t, documents())
	for n := range 256 {
		if _, _, err := c.options.Sessions.Begin(access.Person{Name: fmt.Sprint("p", n), Role: access.Viewer}, "192.0.2.1"); err != nil {
			t.Fatal(n, err)
		}
	}
	p, token := c.person(), c.newToken(access.Viewer)
	if code, h, _ := p.post("/login", p.form("/login"), url.Values{"token": {token}}); code == http.StatusSeeOther || h.Get("Set-Cookie") != "" {
		t.Errorf("got %d", code)
	}
	if _, err := c.token.Redeem(token); err != nil {
		t.Errorf("the token was used: %v", err)
	}
}

func TestActionsAreInTheAudit(t *testing.T) {
	c := start(t, documents())
	p := c.as(access.Operator)
	if code, _, _ := p.post("/actions/"+command.ResumeUpgrade, p.form("/"), nil); code != http.StatusForbidden {
		t.Fatalf("got %d", code)
	}
	c.release()
	p.post("/actions/"+command.PauseUpgrade, p.form("/"), nil)
	var lines string
	wait(t, func() bool {
		all, err := c.audit.Last(10)
		if err != nil {
			t.Fatal(err)
		}
		lines = ""
		for _, e := range all {
			lines = fmt.Sprintf("%s %s %s %s|", e.Who, e.Role, e.What, e.Result) + lines
		}
		return strings.Contains(lines, "pause done")
	})
	want := "jane operator login done|jane operator action upgrade-pause started|jane  action upgrade-pause done|"
	if lines != want {
		t.Errorf("the audit has\n%s, want\n%s", lines, want)
	}
	refused, err := c.options.Refused.Last(10)
	if err != nil || len(refused) != 1 || refused[0].Who != "jane" || refused[0].What != string(access.ResumeUpgrade) || refused[0].Result != "refused" {
		t.Errorf("refused: %+v, %v", refused, err)
	}
	all, err := os.ReadFile(filepath.Join(c.dir, "audit"))
	if err != nil || !strings.Contains(string(all), `"from":"127.0.0.1"`) || strings.Contains(string(all), p.form("/")) {
		t.Errorf("%s %v", all, err)
	}
	if err := os.Remove(filepath.Join(c.dir, "audit")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(c.dir, "audit"), 0o700); err != nil {
		t.Fatal(err)
	}
	before := strings.Count(c.calls(), "upgrade pause")
	if code, _, text := p.post("/actions/"+command.PauseUpgrade, p.form("/"), nil); code != http.StatusBadRequest || !strings.Contains(text, "was not started") {
		t.Errorf("without an audit: %d", code)
	}
	if strings.Count(c.calls(), "upgrade pause") != before {
		t.Error("an action ran without an audit")
	}
}

// TestRefusalsLeaveTheAuditAlone has requests that a person can repeat for ever. They must not rotate the audit away.
func TestRefusalsLeaveTheAuditAlone(t *testing.T) {
	c := start(t, documents())
	viewer, operator := c.as(access.Viewer), c.named("joe", access.Operator)
	before, err := c.audit.Last(99)
	if err != nil {
		t.Fatal(err)
	}
	viewer.get("/audit")
	viewer.post("/actions/"+command.PauseUpgrade, viewer.form("/"), nil)
	operator.post("/actions/"+command.PlanUpgrade, operator.form("/"), url.Values{"bundle": {"../x.tar.gz"}})
	operator.begin(operator.form("/"), "", 0)
	after, err := c.audit.Last(99)
	if err != nil || len(after) != len(before) {
		t.Errorf("the audit has %+v, %v", after, err)
	}
	refused, err := c.options.Refused.Last(99)
	if err != nil || len(refused) != 4 {
		t.Errorf("refused: %+v, %v", refused, err)
	}
}

// TestOutputIsStreamed follows an action while it runs.
func TestOutputIsStreamed(t *testing.T) {
	c := start(t, documents())
	p := c.as(access.Operator)
	_, h, _ := p.post("/actions/"+command.PauseUpgrade, p.form("/"), nil)
	path := h.Get("Location")
	if _, _, text := p.get(path); !strings.Contains(text, "It is running") || !strings.Contains(text, `<noscript><meta http-equiv="refresh"`) {
		t.Errorf("the page of a running action: %s", text)
	}
	if code, _, _ := p.post("/actions/"+command.PauseUpgrade, p.form("/"), nil); code != http.StatusConflict {
		t.Errorf("the same action again: %d", code)
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", c.URL+path+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	c.release()
	var got, events string
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		events += lines.Text() + "\n"
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var part string
			if err := json.Unmarshal([]byte(data), &part); err != nil {
				t.Errorf("%s: %v", data, err)
			}
			got += part
		}
	}
	if want := strings.NewReplacer("\x1b", `\u001b`, "\a", `\u0007`, "\u202e", `\u202e`).Replace(hostile) + "\n"; got != want || !strings.Contains(events, "event: end\n") {
		t.Errorf("got %q, want %q; events %s", got, want, events)
	}
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("type %s", resp.Header.Get("Content-Type"))
	}
}

// TestConsoleSaysWhyTheClusterIsDown runs without an API, and then without a working command.
func TestConsoleSaysWhyTheClusterIsDown(t *testing.T) {
	c := start(t, map[string]string{"status -o": `{"state":"installed","steps":9,"finished":9,"addOns":[],"nodes":[],"stopped":["kubelet.service"],"cluster":"does not answer: connection refused",
"certificates":[{"file":"/etc/kubernetes/pki/apiserver.crt","kind":"certificate","end":"2025-01-02T03:04:05Z","daysLeft":-5,"usedBy":[]}],
"api":{"endpoint":"https://10.0.0.1:6443","answers":false,"ready":false,"why":"connection refused"}}`})
	p := c.as(access.Viewer)
	_, _, text := p.get("/")
	for _, want := range []string{
		"Now: The Kubernetes API does not answer", "https://10.0.0.1:6443: connection refused", "sudo journalctl --no-pager -n 50 -u kubelet",
		"Now: Service kubelet.service does not run", "sudo systemctl start kubelet.service",
		"Now: /etc/kubernetes/pki/apiserver.crt has ended", "certs renew --plan",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the overview lacks %q", want)
		}
	}
	c = start(t, nil)
	p = c.as(access.Viewer)
	for _, path := range pages(c) {
		code, _, text := p.get(path)
		if allowed := code == http.StatusOK; allowed && path != "/upgrade" && path != "/bundles" && path != "/join" && path != "/support" && !strings.Contains(text, "no document for") {
			t.Errorf("%s does not say what is wrong: %s", path, text)
		}
	}
}

// TestGraphsHaveWords reads the graphs of the overview as somebody who does not see them. A time without an answer is a gap in the line.
func TestGraphsHaveWords(t *testing.T) {
	c := start(t, documents())
	p := c.as(access.Viewer)
	_, _, text := p.get("/")
	for _, want := range []string{
		"<strong>Size of etcd&#39;s database</strong>: 40.0 MiB, between 40.0 MiB and 41.5 MiB in the last hour", "<strong>Time until the Kubernetes API of this node answers</strong>: 12.5 ms, between 12.5 ms and 21.5 ms",
		`role="img" aria-labelledby="etcd"`, "<td>no value</td>", "<td>40.0 MiB</td>",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the overview lacks %q: %s", want, text)
		}
	}
	if lines := strings.Count(text, "<polyline"); lines != 3 {
		t.Errorf("%d lines, want one for etcd and two for the API", lines)
	}
	for what, samples := range map[string][]history.Sample{"no sample": nil, "no value": {{Time: c.clock.now()}}} {
		c.options.History = func() []history.Sample { return samples }
		c.restart()
		if _, _, text := p.get("/"); strings.Contains(text, "The last hour") {
			t.Errorf("%s: there is a graph", what)
		}
	}
	c.options.History = func() []history.Sample { return append(sampled(c.clock.now(), 5), history.Sample{Time: c.clock.now()}) }
	c.restart()
	if _, _, text := p.get("/"); !strings.Contains(text, "no value now; between") {
		t.Errorf("without an answer now: %s", text)
	}
}

// TestLargeClusterFitsOnPages has 5,000 nodes, add-ons, certificates and steps with long texts.
func TestLargeClusterFitsOnPages(t *testing.T) {
	long := strings.Repeat("x", 100)
	many := func(one string) string { return strings.TrimSuffix(strings.Repeat(one+",", 5000), ",") }
	c := start(t, map[string]string{
		"status -o":          `{"state":"installed","cluster":"answers","nodes":[` + many(`{"name":"`+long+`","roles":["worker"],"ready":false,"why":"`+long+`"}`) + `],"addOns":[` + many(`{"name":"a","health":"not ready","why":"`+long+`"}`) + `]}`,
		"certs -o":           `[` + many(`{"file":"`+long+`","problem":"`+long+`"}`) + `]`,
		"snapshot list":      `[` + many(`{"file":"snapshot-0123abcd-node-20260102T030405Z.tar.gz.age"}`) + `]`,
		"journal -o":         `[` + many(`{"step":"`+long+`","error":"`+strings.Repeat("e", 2000)+`"}`) + `]`,
		"fleet clusters":     `[` + many(`{"name":"`+long+`","available":"Unknown","message":"`+long+`"}`) + `]`,
		"fleet status":       `[` + many(`{"name":"hello","unhealthy":1,"placements":[{"placement":"`+long+`","message":"`+long+`"}]}`) + `]`,
		"fleet status hello": `{"name":"hello","rows":[` + many(`{"cluster":"`+long+`","status":"Failed","available":"False","message":"`+long+`"}`) + `]}`,
		"fleet carried":      `[` + many(`{"name":"`+long+`","waiting":["`+long+`","`+long+`"]}`) + `]`,
	})
	p := c.as(access.Administrator)
	for _, path := range append(pages(c), "/fleet/rollouts/hello") {
		code, _, text := p.get(path)
		if code != http.StatusOK || len(text) > 200_000 {
			t.Errorf("%s: %d, %d bytes", path, code, len(text))
		}
	}
	if _, _, text := p.get("/nodes"); !strings.Contains(text, "more rows are left out") {
		t.Error("the page of nodes does not say that rows are left out")
	}
}
