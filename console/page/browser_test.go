package page_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/console/command"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/testing/browser"
)

// chromium starts a browser that accepts the certificate of a test.
func chromium(t *testing.T) context.Context {
	return browser.ForTest(t, chromedp.Flag("ignore-certificate-errors", true))
}

// login logs a browser in, as a person does.
func (c *console) login(ctx context.Context, role access.Role) {
	c.t.Helper()
	err := chromedp.Run(ctx,
		chromedp.Navigate(c.URL+"/"), chromedp.WaitVisible("#token", chromedp.ByQuery),
		chromedp.SendKeys("#token", c.newToken(role)+"\n", chromedp.ByQuery), chromedp.WaitVisible("nav", chromedp.ByQuery),
	)
	if err != nil {
		c.t.Fatalf("log in: %v", err)
	}
}

// calm are documents of a cluster in which one node and one add-on are not ready.
func calm() map[string]string {
	d := documents()
	d["status -o"] = `{"state":"installed","bundle":"/media/usb/cluster.tar.gz","steps":31,"finished":31,"cluster":"answers","sees":"cluster","api":{"endpoint":"https://127.0.0.1:6444","answers":true,"ready":true},
"addOns":[{"name":"kubernetes","version":"1.37.2","state":"installed","health":"ready"},{"name":"flannel","version":"0.28.10","state":"installed","health":"not ready","why":"DaemonSet kube-flannel/kube-flannel-ds: 2 of 3 pods are ready"}],
"nodes":[{"name":"node-1","roles":["control-plane"],"ready":true,"version":"v1.37.2","address":"10.0.0.1","runtime":"containerd://2.4.2","os":"Debian GNU/Linux 12 (bookworm)","kernel":"6.1.0"},
{"name":"node-2","roles":["control-plane"],"ready":true,"version":"v1.37.2","address":"10.0.0.2","runtime":"containerd://2.4.2","os":"Debian GNU/Linux 12 (bookworm)","kernel":"6.1.0"},
{"name":"node-3","roles":["worker"],"ready":false,"why":"Kubelet stopped posting node status.","version":"v1.37.2","address":"10.0.0.3","runtime":"containerd://2.4.2","os":"Debian GNU/Linux 12 (bookworm)","kernel":"6.1.0"}],
"nextRenewal":"2027-05-01T00:00:00Z","snapshots":{"everySeconds":86400,"last":{"store":"/var/backups/sealift","time":"` + time.Now().UTC().Format(time.RFC3339) + `"}}}`
	d["verify"] = `{"digest":"` + strings.Repeat("0a55", 16) + `","trust":{"signer":"SHA256:bF3yVnSzUNSkhYMOg9QZqsmbBnPqpbXWp1HbYw8mQxE"}}`
	return d
}

// TestBrowserRunsAction logs in, reads the overview with its graphs, pauses an upgrade and follows its output.
func TestBrowserRunsAction(t *testing.T) {
	c := start(t, calm())
	ctx := chromium(t)
	c.login(ctx, access.Operator)
	var problems, progress, state string
	var drawn bool
	err := chromedp.Run(ctx,
		chromedp.Text(".problems", &problems, chromedp.ByQuery), browser.Screenshot("console.png"),
		chromedp.ScrollIntoView(".graphs .ends", chromedp.ByQuery), browser.Screenshot("console-graphs.png"),
		chromedp.Evaluate(`[...document.querySelectorAll(".graphs polyline")].every(line => { const box = line.getBoundingClientRect(); return box.width > 100 && box.height > 1 && getComputedStyle(line).fill == "none" })`, &drawn),
		chromedp.Click(`nav a[href="/operations"]`, chromedp.ByQuery), chromedp.WaitVisible(`form[action="/actions/upgrade-pause"] button`, chromedp.ByQuery),
		chromedp.Click(`form[action="/actions/upgrade-pause"] button`, chromedp.ByQuery), chromedp.WaitVisible("#progress", chromedp.ByQuery),
		chromedp.Text("#state", &state, chromedp.ByQuery),
	)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(problems, "Now: Node node-3 is not ready") || !strings.Contains(problems, "describe node node-3") {
		t.Errorf("the overview says %s", problems)
	}
	if !drawn {
		t.Error("a graph is not drawn")
	}
	if state != "It is running." {
		t.Errorf("the action: %s", state)
	}
	c.release()
	awaitEnd(ctx, t)
	if err := chromedp.Run(ctx, chromedp.Text("#progress", &progress, chromedp.ByQuery)); err != nil || !strings.Contains(progress, "<script>alert(1)</script>") {
		t.Errorf("the progress: %s, %v", progress, err)
	}
}

// TestBrowserFollowsRollout uses an upgrade whose nodes go through their stages while the page is open. One of them is lost.
func TestBrowserFollowsRollout(t *testing.T) {
	d := calm()
	d["upgrade status"] = `{"upgrade":{"from":"1.36.3","to":"1.37.2","leader":"node-1","began":"2026-01-02T03:04:05Z","phase":"nodes","nodes":{"node-1":{"stage":"upgraded"},"node-2":{"stage":"prepared"},"node-3":{"stage":"prepared"}}}}`
	c := start(t, d)
	ctx := chromium(t)
	c.login(ctx, access.Viewer)
	var done, lost string
	err := chromedp.Run(ctx, chromedp.Navigate(c.URL+"/upgrade"), chromedp.WaitVisible(".stage-upgraded .boxes li", chromedp.ByQuery),
		chromedp.Text(".stage-done h3", &done, chromedp.ByQuery), chromedp.Text(".stage-prepared .lost", &lost, chromedp.ByQuery))
	if err != nil || strings.TrimSpace(done) != "done 0" || !strings.Contains(lost, "node-3") || !strings.Contains(lost, "not ready: Kubelet stopped posting node status.") {
		t.Errorf("done: %q; lost: %q; %v", done, lost, err)
	}
	after := strings.Replace(d["upgrade status"], `"upgraded"`, `"done","took":61,"away":20`, 1)
	if err := atomicfile.Write(filepath.Join(c.dir, "upgrade status"), []byte(after)); err != nil {
		t.Fatal(err)
	}
	awaitText(ctx, t, ".stage-done .boxes", "1m1s, away 20s")
}

// TestPagesFitAndAreAccessible reads all pages in two widths and two schemes. Nothing may violate the pages' policy.
func TestPagesFitAndAreAccessible(t *testing.T) {
	c := start(t, documents())
	c.release()
	p := c.as(access.Administrator)
	_, h, _ := p.post("/actions/"+command.PlanUpgrade, p.form("/"), url.Values{"bundle": {"cluster.tar.gz"}})
	job := h.Get("Location")
	wait(t, func() bool { _, _, text := p.get(job); return !strings.Contains(text, "It is running") })
	ctx := chromium(t)
	var said []string
	chromedp.ListenTarget(ctx, func(event any) {
		if e, ok := event.(*runtime.EventExceptionThrown); ok {
			said = append(said, e.ExceptionDetails.Error())
		}
	})
	c.login(ctx, access.Administrator)
	p.upload("other.tar.gz", bundleOf("good"))
	_, h, _ = p.post("/actions/"+command.PlanUndo, p.form("/"), nil)
	p.finish(h.Get("Location"))
	if code, _, text := p.post("/actions/"+command.UndoUpgrade, p.form("/"), nil); code != http.StatusSeeOther {
		t.Fatalf("undo: %d %s", code, text)
	}
	for _, path := range append(pages(c), job, "/fleet/rollouts/hello", "/bundles/uploaded/other.tar.gz", "/bundles/uploaded/other.tar.gz/delete", "/none") {
		for width, scheme := range map[int64]string{320: "dark", 1920: "light"} {
			t.Run(fmt.Sprintf("%s at %d", path, width), func(t *testing.T) {
				var wide, tall bool
				var dialogs int
				err := chromedp.Run(ctx,
					chromedp.EmulateViewport(width, 900),
					emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
					chromedp.Navigate(c.URL+path), chromedp.WaitReady("body", chromedp.ByQuery),
					chromedp.Evaluate(`document.documentElement.scrollWidth > document.documentElement.clientWidth`, &wide),
					chromedp.Evaluate(`document.body.scrollHeight > 0`, &tall),
					chromedp.Evaluate(`document.querySelectorAll("img, script:not([src])").length`, &dialogs),
				)
				if err != nil {
					t.Fatal(err)
				}
				if wide || !tall || dialogs > 0 {
					t.Errorf("it scrolls sideways: %t; it has content: %t; foreign elements: %d", wide, tall, dialogs)
				}
				browser.Accessible(ctx, t)
			})
		}
	}
	if len(said) > 0 {
		t.Errorf("scripts failed: %v", said)
	}
}

// TestPagesWorkWithoutScript logs in, and starts an action, with scripts switched off.
func TestPagesWorkWithoutScript(t *testing.T) {
	c := start(t, calm())
	ctx := chromium(t)
	if err := chromedp.Run(ctx, emulation.SetScriptExecutionDisabled(true)); err != nil {
		t.Fatal(err)
	}
	c.login(ctx, access.Operator)
	var text string
	err := chromedp.Run(ctx,
		chromedp.Navigate(c.URL+"/operations"), chromedp.WaitVisible(`form[action="/actions/upgrade-pause"] button`, chromedp.ByQuery),
		chromedp.Click(`form[action="/actions/upgrade-pause"] button`, chromedp.ByQuery), chromedp.WaitVisible("#progress", chromedp.ByQuery),
		chromedp.Text("#state", &text, chromedp.ByQuery),
	)
	if err != nil || text != "It is running." {
		t.Fatalf("%s %v", text, err)
	}
	c.release()
	awaitEnd(ctx, t)
}

// awaitEnd waits until the page of an action says that it is done. The page reloads itself meanwhile.
func awaitEnd(ctx context.Context, t *testing.T) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		var state string
		err := chromedp.Run(ctx, chromedp.Text("#state", &state, chromedp.ByQuery))
		if err == nil && strings.HasPrefix(state, "Done") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the page does not say that the action is done: %q, %v", state, err)
		}
	}
}

// TestCookieIsHiddenFromScripts asks the browser itself.
func TestCookieIsHiddenFromScripts(t *testing.T) {
	c := start(t, calm())
	ctx := chromium(t)
	c.login(ctx, access.Viewer)
	var seen string
	var kept []*network.Cookie
	err := chromedp.Run(ctx, chromedp.Evaluate(`document.cookie`, &seen), chromedp.ActionFunc(func(ctx context.Context) (err error) {
		kept, err = network.GetCookies().Do(cdp.WithExecutor(ctx, chromedp.FromContext(ctx).Target))
		return err
	}))
	if err != nil || seen != "" || len(kept) != 1 || kept[0].Name != sessionCookie || !kept[0].HTTPOnly || !kept[0].Secure || kept[0].SameSite != network.CookieSameSiteStrict {
		t.Errorf("scripts see %q; the browser has %+v, %v", seen, kept, err)
	}
	if code, _, _ := c.person().get("/"); code != http.StatusSeeOther {
		t.Errorf("another browser got %d", code)
	}
}
