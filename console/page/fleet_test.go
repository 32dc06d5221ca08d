package page_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/console/command"
	"github.com/sealift/sealift/internal/testing/browser"
)

// TestFleetPagesHaveWhatIsWrongFirst reads the pages about a fleet: what needs attention is first, and commands are beside it.
func TestFleetPagesHaveWhatIsWrongFirst(t *testing.T) {
	d := documents()
	d["fleet clusters"] = `[{"name":"bergen","available":"True","addOns":1},{"name":"oslo","available":"Unknown","addOns":1,"message":"no heartbeat"},{"name":"ship","available":"Unknown","occasional":true,"asleep":true}]`
	d["fleet status"] = `[{"name":"calm","clusters":1,"available":1},{"name":"hello","clusters":4,"unhealthy":1,"placements":[{"placement":"default/all","done":false,"message":"1/4 progressing"}]}]`
	d["fleet status hello"] = `{"name":"hello","clusters":4,"rows":[{"cluster":"bergen","status":"Succeeded","available":"True"},{"cluster":"oslo","status":"Failed","available":"False","message":"crashes"},{"cluster":"rome","status":"Waiting","waitsFor":"Capacity"},{"cluster":"$(reboot)","status":"Failed"}]}`
	d["fleet carried"] = `[{"name":"calm","works":1},{"name":"sea","works":2,"waiting":["addon-hello-deploy-0"]}]`
	c := start(t, d)
	p := c.as(access.Viewer)
	fleet := "sudo " + c.options.Settings.Fleet.Program + " fleet "
	const hub = " --kubeconfig /root/hub.kubeconfig"
	for path, want := range map[string][]string{
		"/fleet":                {"1 of the clusters below", "oslo", "no heartbeat", "bergen", "ship", "now and then, away", fleet + "join CLUSTER --out FILE" + hub},
		"/fleet/rollouts":       {`<a href="/fleet/rollouts/hello">`, "progressing", "1/4 progressing", `<a href="/fleet/rollouts/calm">`, "done"},
		"/fleet/rollouts/hello": {"waiting <span>1</span>", "rome", "waits for Capacity", "failed <span>2</span>", "oslo", "crashes", "done <span>1</span>", "bergen", fleet + "why hello --cluster oslo" + hub, fleet + "why hello --cluster rome" + hub, fleet + "plan hello -f FILE" + hub, fleet + "pause hello" + hub},
		"/fleet/carried":        {"sea", "addon-hello-deploy-0", "calm", fleet + "pack sea --out FOLDER" + hub, fleet + "take REPORT" + hub},
	} {
		code, _, text := p.get(path)
		if code != http.StatusOK {
			t.Errorf("%s: %d", path, code)
		}
		_, rest, _ := strings.Cut(text, "<main")
		for _, one := range want {
			_, after, ok := strings.Cut(rest, one)
			if !ok {
				t.Errorf("%s lacks %q, or has it earlier: %s", path, one, text)
				break
			}
			rest = after
		}
		if strings.Contains(text, "--cluster &#39;$(reboot)") || strings.Contains(text, "pack calm") {
			t.Errorf("%s has a command too many: %s", path, text)
		}
	}
}

// TestBrowserShowsRolloutOfFleet looks at an add-on that does not go on.
func TestBrowserShowsRolloutOfFleet(t *testing.T) {
	d := calm()
	d["fleet status"] = `[{"name":"hello"}]`
	d["fleet status hello"] = `{"name":"hello","clusters":6,"placements":[{"placement":"default/all","message":"2/6 progressing, 1 failed"}],"rows":[
{"cluster":"bergen","status":"Succeeded","wave":"canary","available":"True"},{"cluster":"drammen","status":"Succeeded","wave":"canary","available":"True"},{"cluster":"oslo","status":"Failed","wave":"north","available":"False","message":"Deployment default/hello: 0 of 2 pods are ready"},
{"cluster":"rome","status":"Waiting","wave":"rest","waitsFor":"Wave"},{"cluster":"ship-7","status":"Waiting","wave":"rest","waitsFor":"Wave","skipped":true,"lastSeen":"2026-01-02T03:04:05Z"},{"cluster":"tromso","status":"Working","wave":"north","available":"True"}]}`
	c := start(t, d)
	ctx := chromium(t)
	c.login(ctx, access.Viewer)
	var lost string
	var boxes int
	err := chromedp.Run(ctx, chromedp.Navigate(c.URL+"/fleet/rollouts/hello"), chromedp.WaitVisible(".stage-done .boxes li", chromedp.ByQuery),
		chromedp.Text(".stage-failed .lost", &lost, chromedp.ByQuery), chromedp.Evaluate(`document.querySelectorAll(".boxes li").length`, &boxes), browser.Screenshot("console-fleet.png"))
	if err != nil || !strings.Contains(lost, "oslo") || !strings.Contains(lost, "0 of 2 pods are ready") || boxes != 6 {
		t.Errorf("%d boxes; lost is %q, %v", boxes, lost, err)
	}
}

// TestNameOfURLIsNoWordOfCommand asks for add-ons that the hub does not have.
func TestNameOfURLIsNoWordOfCommand(t *testing.T) {
	c := start(t, documents())
	p := c.as(access.Administrator)
	for _, name := range []string{"other", "--help", "..%2f..%2fetc", "a%00b", "hello%20-f%20x"} {
		if code, _, _ := p.get("/fleet/rollouts/" + name); code != http.StatusNotFound && code != http.StatusBadRequest {
			t.Errorf("%s: got %d", name, code)
		}
	}
	if calls := c.calls(); strings.Count(calls, "fleet status ") != strings.Count(calls, "fleet status --kubeconfig") {
		t.Errorf("ran %s", calls)
	}
}

// TestFleetIsOffUntilRootNamesItsProgram reads the pages, and the menu, of a console without a fleet.
func TestFleetIsOffUntilRootNamesItsProgram(t *testing.T) {
	c := start(t, documents())
	c.options.Settings.Fleet = command.Fleet{}
	c.restart()
	p := c.as(access.Administrator)
	for _, path := range []string{"/fleet", "/fleet/rollouts", "/fleet/rollouts/hello", "/fleet/carried"} {
		if code, _, text := p.get(path); code != http.StatusOK || !strings.Contains(text, "sudo sealift-console on --fleet FILE") || strings.Contains(text, `href="/fleet"`) {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if strings.Contains(c.calls(), "fleet") {
		t.Errorf("ran %s", c.calls())
	}
}
