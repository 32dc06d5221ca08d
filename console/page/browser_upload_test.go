package page_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/console/upload"
	"github.com/sealift/sealift/internal/testing/browser"
)

// TestBrowserResumesUpload uploads a bundle of five chunks. The console is gone when half of it has arrived, and another one takes over. Then
// the browser leaves the page, and a person chooses the file again.
func TestBrowserResumesUpload(t *testing.T) {
	c := start(t, calm())
	ctx := chromium(t)
	c.login(ctx, access.Operator)
	content := bundleOf(strings.Repeat("x", 100))
	random := make([]byte, 5*upload.ChunkSize)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	content = append(content, random...)
	file := filepath.Join(t.TempDir(), "cluster-2.tar.gz")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	var chunks atomic.Int32
	// cut takes the console away before the nth chunk from now on.
	cut := func(n int32) {
		chunks.Store(0)
		site := *c.handler.Load()
		var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPatch && chunks.Add(1) >= n || chunks.Load() >= n && !strings.HasPrefix(r.URL.Path, "/assets") {
				chunks.Store(max(n, chunks.Load()))
				http.Error(w, "nobody is here", http.StatusBadGateway)
				return
			}
			site.ServeHTTP(w, r)
		})
		c.handler.Store(&h)
	}
	choose := func() error {
		return chromedp.Run(ctx, chromedp.Navigate(c.URL+"/bundles"), chromedp.WaitVisible("form[data-upload] button", chromedp.ByQuery),
			chromedp.SetUploadFiles("#file", []string{file}, chromedp.ByQuery), chromedp.Click("form[data-upload] button", chromedp.ByQuery))
	}
	offset := func() int64 {
		for _, u := range c.uploads() {
			return u.Offset
		}
		return 0
	}
	cut(3)
	if err := choose(); err != nil {
		t.Fatal(err)
	}
	awaitText(ctx, t, "form[data-upload] output", "Waiting: nobody is here")
	if got := offset(); got != 2*upload.ChunkSize {
		t.Errorf("%d bytes had arrived when the console was gone", got)
	}
	c.restart()
	cut(3)
	wait(t, func() bool { return chunks.Load() >= 3 }) // the browser went on, and lost the console again
	if got := offset(); got != 4*upload.ChunkSize {
		t.Errorf("%d bytes had arrived when the console was gone again", got)
	}
	c.restart()
	if err := choose(); err != nil { // the person closes the page, and comes back
		t.Fatal(err)
	}
	ready := filepath.Join(c.options.Uploads.Bundles, "cluster-2.tar.gz")
	wait(t, func() bool { _, err := os.Stat(ready); return err == nil })
	if got, err := os.ReadFile(ready); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the bundle has %d bytes, %v", len(got), err)
	}
	awaitText(ctx, t, "table", "cluster-2.tar.gz")
	if err := chromedp.Run(ctx, browser.Screenshot("console-bundles.png")); err != nil {
		t.Fatal(err)
	}
}

// TestBrowserShowsWhyBundleWasRefused uploads a bundle that nobody has signed.
func TestBrowserShowsWhyBundleWasRefused(t *testing.T) {
	c := start(t, documents())
	ctx := chromium(t)
	c.login(ctx, access.Operator)
	file := filepath.Join(t.TempDir(), "forged.tar.gz")
	if err := os.WriteFile(file, bundleOf("FORGED"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := chromedp.Run(ctx, chromedp.Navigate(c.URL+"/bundles"), chromedp.WaitVisible("form[data-upload] button", chromedp.ByQuery),
		chromedp.SetUploadFiles("#file", []string{file}, chromedp.ByQuery), chromedp.Click("form[data-upload] button", chromedp.ByQuery))
	if err != nil {
		t.Fatal(err)
	}
	awaitText(ctx, t, "form[data-upload] output", "not signed with a given key")
	var foreign int
	if err := chromedp.Run(ctx, chromedp.Evaluate(`document.querySelectorAll("img, script:not([src])").length`, &foreign)); err != nil || foreign > 0 {
		t.Errorf("the reason has %d elements, %v", foreign, err)
	}
}

// awaitText waits until an element has a text.
func awaitText(ctx context.Context, t *testing.T, selector, want string) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var got string
		err := chromedp.Run(ctx, chromedp.Text(selector, &got, chromedp.ByQuery))
		if err == nil && strings.Contains(got, want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s has the text %q, %v", selector, got, err)
		}
	}
}
