package browser_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/sealift/sealift/internal/testing/browser"
)

// init keeps the first thread, which never ends, from running a test's goroutine.
func init() { runtime.LockOSThread() }

func TestBrowserOutlivesRequestingThread(t *testing.T) {
	t.Parallel()
	contexts := make(chan context.Context)
	go func() {
		runtime.LockOSThread() // a locked thread ends with its goroutine
		defer close(contexts)
		ctx := browser.ForTest(t)
		if err := chromedp.Run(ctx, chromedp.Navigate("about:blank")); err != nil {
			t.Error(err)
		}
		contexts <- ctx
	}()
	ctx, ok := <-contexts
	if !ok {
		return
	}
	time.Sleep(100 * time.Millisecond) // the thread ends at some moment after its goroutine
	if err := chromedp.Run(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Error(err)
	}
}
