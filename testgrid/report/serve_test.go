package report_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/sealift/sealift/internal/testing/browser"
	"github.com/sealift/sealift/testgrid/report"
)

// watched serves a report that a run works on: it has finished one test, runs one, and has one to begin.
func watched(t *testing.T) (report.Folder, *httptest.Server, []report.Result) {
	t.Helper()
	f := report.Folder{Path: t.TempDir()}
	unlock, err := f.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unlock)
	all := []report.Result{
		{Test: "done", Name: "done", System: "a", Attempt: 1, Verdict: report.Passed, Took: 3, Started: time.Now()},
		{Test: "now", Name: "now", System: "a", Attempt: 1, Took: 2, Started: time.Now(), Machines: []report.Machine{{Name: "m-1", Address: "192.0.2.7", Enter: []string{"ssh", "m-1"}}},
			Steps: []report.Step{{Name: "preparation", Verdict: report.Passed, Took: 1, Log: "01.log"}, {Name: "install", Verdict: report.Running, Begin: 1, Log: "02.log"}}},
		{Test: "later", Name: "later", System: "a", Attempt: 1},
	}
	if err := f.Plan(all); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(all[0]); err != nil {
		t.Fatal(err)
	}
	if err := f.Note(all[1]); err != nil {
		t.Fatal(err)
	}
	s, err := report.NewServer(f)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go s.Watch(ctx)
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		stop()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return f, server, all
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func TestLivePagesNeedNoScript(t *testing.T) {
	t.Parallel()
	f, server, _ := watched(t)
	if code, page := get(t, server.URL+"/"); code != 200 || !strings.Contains(page, "1 passed, 0 failed, 0 flaky, 0 skipped, 1 running, 1 waiting") || !strings.Contains(page, "2s install") {
		t.Errorf("%d: %s", code, page)
	}
	if code, page := get(t, server.URL+"/results/now/a/index.html"); code != 200 || !strings.Contains(page, "<code>ssh m-1</code>") || !strings.Contains(page, "install: running") {
		t.Errorf("%d: %s", code, page)
	}
	if err := os.WriteFile(filepath.Join(f.Dir("now", "a", 1), "02.log"), []byte("a line"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, page := get(t, server.URL+"/results/now/a/1/02.log"); code != 200 || page != "a line" {
		t.Errorf("a log while it is written: %d: %s", code, page)
	}
	for _, path := range []string{"/results/nothing/a/", "/../../etc/passwd", "/results/now/a/1/../../../../../etc/passwd"} {
		if code, page := get(t, server.URL+path); code != 404 {
			t.Errorf("%s: %d: %s", path, code, page)
		}
	}
}

// TestTestOfKilledRunIsWaiting reads the folder of a dead run.
func TestTestOfKilledRunIsWaiting(t *testing.T) {
	t.Parallel()
	f := report.Folder{Path: t.TempDir()}
	r := report.Result{Test: "now", Name: "now", System: "a", Attempt: 1}
	if err := f.Plan([]report.Result{r}); err != nil {
		t.Fatal(err)
	}
	if err := f.Note(r); err != nil {
		t.Fatal(err)
	}
	if all, err := f.Read(); err != nil || len(all) != 1 || all[0].Verdict != report.Waiting {
		t.Errorf("%+v, %v", all, err)
	}
	r.Verdict = report.Passed
	if err := f.Save(r); err != nil {
		t.Fatal(err)
	}
	if all, err := f.Read(); err != nil || len(all) != 1 || all[0].Verdict != report.Passed {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestLivePageFollowsRun has a browser open while tests end. What the person has chosen stays.
func TestLivePageFollowsRun(t *testing.T) {
	ctx := browser.ForTest(t)
	f, server, all := watched(t)
	save := func(r report.Result) chromedp.Action {
		return chromedp.ActionFunc(func(context.Context) error {
			r.Verdict = report.Passed
			return f.Save(r)
		})
	}
	var counts string
	var chosen bool
	if err := chromedp.Run(ctx, chromedp.Navigate(server.URL), chromedp.WaitVisible("a.running", chromedp.ByQuery), chromedp.Click("#hide-skipped", chromedp.ByQuery)); err != nil {
		t.Fatal(err)
	}
	browser.Accessible(ctx, t)
	if err := chromedp.Run(ctx, save(all[1]), chromedp.WaitNotPresent("a.running", chromedp.ByQuery), chromedp.Text("#counts", &counts, chromedp.ByQuery),
		chromedp.Evaluate(`document.querySelector("#hide-skipped").checked`, &chosen)); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(counts, "2 passed") || !chosen {
		t.Errorf("the page shows %q, and the filter is on: %t", counts, chosen)
	}
	var open bool
	if err := chromedp.Run(ctx, chromedp.ActionFunc(func(context.Context) error { return f.Note(all[2]) }), chromedp.WaitVisible("a.running", chromedp.ByQuery), save(all[2]),
		chromedp.WaitNotPresent("a.running", chromedp.ByQuery), chromedp.Navigate(server.URL+"/results/now/a/"), chromedp.WaitVisible("summary", chromedp.ByQuery)); err != nil {
		t.Fatal(err)
	}
	browser.Accessible(ctx, t)
	if err := chromedp.Run(ctx, chromedp.Click("summary", chromedp.ByQuery), chromedp.ActionFunc(func(context.Context) error {
		return os.WriteFile(filepath.Join(f.Dir("now", "a", 1), "01.log"), []byte("one more line"), 0o600)
	}), chromedp.Poll(`document.querySelector("main").textContent.includes("one more line")`, nil), chromedp.Evaluate(`document.querySelector("details").open`, &open)); err != nil || !open {
		t.Errorf("the log that was open is open: %t, %v", open, err)
	}
}
