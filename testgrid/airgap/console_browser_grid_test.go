//go:build grid

package airgap_test

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/sealift/sealift/internal/testing/browser"
	"github.com/sealift/sealift/internal/testing/issuer/op"
)

// issuerButton is the button of the login page that leads to the issuer.
const issuerButton = `form[action="/login/oidc"] button`

// run does something in the browser.
func (c *consoleCluster) run(actions ...chromedp.Action) {
	c.t.Helper()
	if err := chromedp.Run(c.browser, actions...); err != nil {
		c.t.Fatal(err)
	}
}

// open opens a page. The page that is left may load itself again at that moment, at the end of a change, and Chromium drops one of the two.
func (c *consoleCluster) open(path string) {
	c.t.Helper()
	for attempt := 1; ; attempt++ {
		err := chromedp.Run(c.browser, chromedp.Navigate(c.url+path))
		if err == nil {
			return
		}
		if attempt == 5 || !strings.Contains(err.Error(), "net::ERR_ABORTED") {
			c.t.Fatal(err)
		}
	}
}

// text returns the text of an element, or "" without one, and while the page is left for another one. It does not wait.
func (c *consoleCluster) text(selector string) (text string) {
	c.t.Helper()
	if err := chromedp.Run(c.browser, chromedp.Evaluate(fmt.Sprintf("document.querySelector(%q)?.textContent ?? ''", selector), &text)); err != nil && c.browser.Err() != nil {
		c.t.Fatal(err)
	}
	return text
}

// await polls until something is so, while a page changes by itself.
func (c *consoleCluster) await(what string, limit time.Duration, is func() bool) {
	c.t.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("%s: not within %s; the page says %s", what, limit, c.text("main"))
		}
	}
}

func (c *consoleCluster) awaitText(selector, want string, limit time.Duration) {
	c.t.Helper()
	c.await(selector+" says "+want, limit, func() bool { return strings.Contains(c.text(selector), want) })
}

// logInByToken logs in with a token that root makes on the node.
func (c *consoleCluster) logInByToken(role string) {
	c.t.Helper()
	token := strings.TrimSpace(c.nodes[0].must("sealift-console token --role " + role + " --name jane 2>/dev/null"))
	c.run(chromedp.Navigate(c.url+"/login"), chromedp.WaitVisible("#token", chromedp.ByQuery), chromedp.SendKeys("#token", token+"\n", chromedp.ByQuery), chromedp.WaitVisible("nav", chromedp.ByQuery))
}

// logInAtIssuer ends the session, and logs in on the page of the issuer.
func (c *consoleCluster) logInAtIssuer(u op.User) {
	c.t.Helper()
	c.run(chromedp.Click(".who button", chromedp.ByQuery), chromedp.WaitVisible(issuerButton, chromedp.ByQuery), browser.Screenshot("console-login.png"), chromedp.Click(issuerButton, chromedp.ByQuery),
		chromedp.WaitVisible("#username", chromedp.ByQuery), chromedp.SendKeys("#username", u.Name, chromedp.ByQuery), chromedp.SendKeys("#password", u.Password+"\n", chromedp.ByQuery), chromedp.WaitVisible("nav", chromedp.ByQuery))
	if who := c.text(".who span"); who != "oidc:"+u.Name+", administrator" {
		c.t.Errorf("logged in as %q", who)
	}
}

// uploadOverKills uploads the bundle. At half of it, the console is killed, and the page resumes by itself. Then the page is closed, and the
// console killed once more. Whoever chooses the file again resumes, too.
func (c *consoleCluster) uploadOverKills() {
	c.t.Helper()
	c.logInByToken("operator")
	info, err := os.Stat(c.bundle)
	if err != nil {
		c.t.Fatal(err)
	}
	choose := func() {
		c.t.Helper()
		const button = "form[data-upload] button"
		c.run(chromedp.Navigate(c.url+"/bundles"), chromedp.WaitVisible(button, chromedp.ByQuery), chromedp.SetUploadFiles("#file", []string{c.bundle}, chromedp.ByQuery), chromedp.Click(button, chromedp.ByQuery))
	}
	began, before := time.Now(), c.console.sent.Load()
	sent := func() int64 { return c.console.sent.Load() - before }
	kill := func() { c.nodes[0].must("systemctl kill --signal=KILL sealift-console") }
	choose()
	c.await("half of the bundle has arrived", 10*time.Minute, func() bool { return sent() > info.Size()/2 })
	kill()
	killed := sent()
	c.await("the page resumes", 5*time.Minute, func() bool { return sent() > killed+32<<20 })
	c.run(browser.Screenshot("console-upload.png"))
	c.run(chromedp.Navigate("about:blank"))
	kill()
	c.nodes[0].must("for i in $(seq 60); do sleep 1; (echo >/dev/tcp/127.0.0.1/6446) 2>/dev/null && exit 0; done; exit 1")
	choose()
	var said string
	c.await("the bundle is listed", 15*time.Minute, func() bool {
		said = c.text("form[data-upload] output")
		return strings.Contains(c.text("table"), "newer.tar.gz") || strings.Contains(said, "Refused")
	})
	if strings.Contains(said, "Refused") {
		c.t.Fatal(said)
	}
	c.t.Logf("the browser sent %d bytes for a bundle of %d bytes, in %s", sent(), info.Size(), time.Since(began).Round(time.Second))
	if most := info.Size() + info.Size()/20 + 32<<20; sent() > most {
		c.t.Errorf("the upload began again: the browser sent %d bytes for a bundle of %d bytes", sent(), info.Size())
	}
}

// plan starts an action that plans a change, waits for its end, and opens the page of upgrades, which must show the plan.
func (c *consoleCluster) plan(action string, want ...string) {
	c.t.Helper()
	c.open("/upgrade")
	c.click(action)
	c.run(chromedp.WaitVisible("#progress", chromedp.ByQuery))
	c.await("the plan is made", 15*time.Minute, func() bool { s := c.text("#state"); return s != "" && s != "It is running." })
	if state := c.text("#state"); !strings.HasPrefix(state, "Done") {
		c.t.Fatalf("%s: %s\n%s", action, state, c.text("main"))
	}
	c.open("/upgrade")
	page := c.text("main")
	for _, text := range want {
		if !strings.Contains(page, text) {
			c.t.Errorf("the plan lacks %q: %s", text, page)
		}
	}
}

func (c *consoleCluster) click(action string) {
	c.t.Helper()
	button := `form[action="/actions/` + action + `"] button`
	c.run(chromedp.WaitVisible(button, chromedp.ByQuery), chromedp.Click(button, chromedp.ByQuery))
}

// start starts a planned change.
func (c *consoleCluster) start(action string) {
	c.t.Helper()
	c.click(action)
	c.await(action+" is running", 2*time.Minute, func() bool { return strings.HasPrefix(c.text("#live #state"), "It is running") })
}

// ended follows a change to its end on the open page, and returns why it failed.
func (c *consoleCluster) ended() (problem string) {
	c.t.Helper()
	began := time.Now()
	c.await("the change ends", 30*time.Minute, func() bool { s := c.text("#live #state"); return s != "" && !strings.HasPrefix(s, "It is running") })
	state := c.text("#live #state")
	c.t.Logf("after %s on its page: %s\n%s", time.Since(began).Round(time.Second), state, c.text("#live #progress"))
	if strings.HasPrefix(state, "Done, in ") {
		return ""
	}
	return state
}

// upgradeWithLostNode starts the planned upgrade. When the first node is done, the last one loses its network. The page shows that, and the
// upgrade goes on when the node is back, or resumes.
func (c *consoleCluster) upgradeWithLostNode() {
	c.t.Helper()
	c.start("upgrade-start")
	last := c.nodes[2]
	c.await("a node is done", 30*time.Minute, func() bool { return c.text(".stage-done .boxes li strong") != "" })
	restore, err := last.CutNetwork(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	c.await("the page shows the lost node", 10*time.Minute, func() bool { return strings.Contains(c.text(".boxes .lost"), last.Name()) })
	c.run(chromedp.Evaluate(`document.querySelector(".stages").scrollIntoView({block: "end"})`, nil), browser.Screenshot("console-rollout.png"))
	browser.Accessible(c.browser, c.t)
	if err := restore(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	problem := c.ended()
	for range 2 {
		if problem == "" {
			break
		}
		c.nodes[0].must(kubectl + "wait --for=condition=Ready nodes --all --timeout=300s")
		c.plan("upgrade-plan", "This resumes an upgrade that has begun.")
		c.start("upgrade-start")
		problem = c.ended()
	}
	if problem != "" {
		c.t.Fatalf("upgrade: %s", problem)
	}
	c.await("the page shows all nodes as done", time.Minute, func() bool { return strings.TrimSpace(c.text(".stage-done h3")) == "done 3" })
}
