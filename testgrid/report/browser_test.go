package report_test

import (
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/sealift/sealift/internal/testing/browser"
)

// TestFiltersWorkWithoutScripts hides rows in a browser that runs no scripts, and follows a cell to its page.
func TestFiltersWorkWithoutScripts(t *testing.T) {
	ctx := browser.ForTest(t)
	f := written(t)
	var title string
	const skipped, mixed = "tr.all-skipped", "tr.mixed"
	err := chromedp.Run(ctx,
		emulation.SetScriptExecutionDisabled(true),
		chromedp.Navigate("file://"+filepath.Join(f.Path, "index.html")),
		chromedp.WaitVisible(skipped, chromedp.ByQuery),
		chromedp.Click("#hide-skipped", chromedp.ByQuery),
		chromedp.WaitNotVisible(skipped, chromedp.ByQuery),
		chromedp.WaitVisible(mixed, chromedp.ByQuery),
		chromedp.Click("#hide-skipped", chromedp.ByQuery),
		chromedp.WaitVisible(skipped, chromedp.ByQuery),
		chromedp.Click("a.failed", chromedp.ByQuery),
		chromedp.WaitVisible("details[open]", chromedp.ByQuery),
		chromedp.Text("h1", &title, chromedp.ByQuery),
	)
	if err != nil || title != "one "+hostile+" on debian-13" {
		t.Errorf("%q, %v", title, err)
	}
}

// TestPagesAreAccessible asks axe-core, in a browser, about the pages that a person sees.
func TestPagesAreAccessible(t *testing.T) {
	ctx := browser.ForTest(t)
	f := written(t)
	for _, page := range []string{"index.html", "results/one/debian-13/index.html", "results/two/debian-12/index.html", "results/three/debian-12/index.html"} {
		if err := chromedp.Run(ctx, chromedp.Navigate("file://"+filepath.Join(f.Path, page)), chromedp.WaitVisible("h1", chromedp.ByQuery)); err != nil {
			t.Fatalf("%s: %v", page, err)
		}
		browser.Accessible(ctx, t)
	}
}
