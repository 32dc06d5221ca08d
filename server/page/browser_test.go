package page_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/sealift/sealift/internal/testing/browser"
)

// TestBrowserComposesInstaller chooses versions and options, sees the result change, stores it and reads the commands.
func TestBrowserComposesInstaller(t *testing.T) {
	s := serve(t)
	ctx := browser.ForTest(t)
	var problem, yaml, address, command string
	err := chromedp.Run(ctx,
		chromedp.Navigate(s.URL+"/"), chromedp.WaitVisible("table", chromedp.ByQuery), browser.Screenshot("packages.png"),
		chromedp.Click(`nav a[href="/compose"]`, chromedp.ByQuery), chromedp.WaitVisible("#compose", chromedp.ByQuery),
		browser.Choose("#version-engine", "2.2.1"), chromedp.WaitVisible("#yaml", chromedp.ByQuery),
		chromedp.Click("fieldset details summary", chromedp.ByQuery),
		browser.Choose(`[name="option.engine.mirrors"]`, "["), chromedp.WaitVisible(".problem", chromedp.ByQuery),
		chromedp.Text(".problem", &problem, chromedp.ByQuery),
		browser.Choose(`[name="option.engine.mirrors"]`, "[near.example]"), chromedp.WaitNotPresent(".problem", chromedp.ByQuery),
		browser.Choose("#version-kubernetes", "1.36.x"),
		chromedp.Poll(`document.querySelector("#yaml")?.textContent.includes("1.36.x")`, nil, chromedp.WithPollingTimeout(5*time.Minute)),
		chromedp.Text("#yaml", &yaml, chromedp.ByQuery), chromedp.Location(&address), browser.Screenshot("compose.png"),
		chromedp.Click("button.first", chromedp.ByQuery), chromedp.WaitVisible("#command-online", chromedp.ByQuery),
		chromedp.Text("#command-online", &command, chromedp.ByQuery), browser.Screenshot("commands.png"),
	)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(problem, "option mirrors: not a valid array") {
		t.Errorf("problem %q", problem)
	}
	if !strings.Contains(yaml, "near.example") {
		t.Errorf("Installer %q", yaml)
	}
	if !strings.Contains(address, "version.kubernetes=1.36.x") {
		t.Errorf("address %q", address)
	}
	if !strings.HasPrefix(command, "curl -fsSL "+s.URL+"/") || !strings.HasSuffix(command, " | sudo bash") {
		t.Errorf("command %q", command)
	}
}

// scriptsOff is the setting of a careful reader.
func scriptsOff() chromedp.Action { return emulation.SetScriptExecutionDisabled(true) }

// TestPagesWorkWithoutScript composes with scripts switched off.
func TestPagesWorkWithoutScript(t *testing.T) {
	s := serve(t)
	ctx := browser.ForTest(t)
	var yaml string
	err := chromedp.Run(ctx,
		scriptsOff(), chromedp.Navigate(s.URL+"/compose"), chromedp.WaitVisible("#compose", chromedp.ByQuery),
		chromedp.SetAttributeValue(`#version-kubernetes option:nth-child(4)`, "selected", "", chromedp.ByQuery),
		chromedp.Click("#compose button:not(.first)", chromedp.ByQuery),
		chromedp.WaitVisible("#yaml", chromedp.ByQuery), chromedp.Text("#yaml", &yaml, chromedp.ByQuery),
	)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(yaml, "version: 1.36.3") {
		t.Errorf("Installer %q", yaml)
	}
}
