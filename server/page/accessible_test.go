package page_test

import (
	"encoding/json"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/sealift/sealift/internal/testing/browser"
)

// barriers checks a rendered page for accessibility: text with less contrast than 4.5 (WCAG 2.1 §1.4.3), fields and buttons without a
// name, tables without heads, a skipped level of headings, a page without a language or a title.
const barriers = `(() => {
  const found = [];
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (color) => {
    const [r, g, b] = rgb(color).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const color = getComputedStyle(e).backgroundColor;
      if (rgb(color)[3] === 255) return color;
    }
    return "white";
  };
  const name = (e) => e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + " " + e.textContent.trim().slice(0, 40);
  for (const e of document.body.querySelectorAll("*")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || e.tagName === "SCRIPT") continue;
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) found.push("contrast " + contrast.toFixed(2) + ": " + name(e));
  }
  for (const e of document.querySelectorAll("input, select, textarea")) {
    if (!e.labels.length || !e.labels[0].textContent.trim()) found.push("no label: " + name(e));
    const help = e.getAttribute("aria-describedby");
    if (help && !document.getElementById(help)) found.push("described by nothing: " + name(e));
  }
  for (const e of document.querySelectorAll("button, a")) if (!e.textContent.trim()) found.push("no name: " + name(e));
  for (const e of document.querySelectorAll("table")) if (!e.querySelector("th[scope=col]")) found.push("no heads: " + name(e));
  let level = 0;
  for (const e of document.querySelectorAll("h1, h2, h3, h4")) {
    if (+e.tagName[1] > level + 1) found.push("skipped a level: " + name(e));
    level = +e.tagName[1];
  }
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push("twice: #" + id);
  if (!document.documentElement.lang || !document.title) found.push("no language or no title");
  return JSON.stringify({ found, texts: document.body.innerText.length });
})()`

// TestPagesAreAccessible in light and in dark colours.
func TestPagesAreAccessible(t *testing.T) {
	s := serve(t)
	ctx := browser.ForTest(t)
	for _, scheme := range []string{"light", "dark"} {
		for _, path := range []string{"/", "/packages/engine/2.2.1", "/packages/none/1", "/compose", "/compose?version.engine=2.2.1&option.engine.workers=many", "/compose?version.kubernetes=1.36.x"} {
			var answer string
			err := chromedp.Run(ctx,
				emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
				chromedp.Navigate(s.URL+path), chromedp.WaitVisible("h1", chromedp.ByQuery), chromedp.Evaluate(barriers, &answer),
			)
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Found []string
				Texts int
			}
			if err := json.Unmarshal([]byte(answer), &got); err != nil || got.Texts == 0 {
				t.Fatalf("%s: %v %s", path, err, answer)
			}
			for _, barrier := range got.Found {
				t.Errorf("%s, %s: %s", path, scheme, barrier)
			}
		}
	}
}
