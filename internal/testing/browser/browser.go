// Package browser runs a headless Chromium for tests of the web pages.
package browser

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/scratch"
	"github.com/sealift/sealift/internal/tail"
	"github.com/sealift/sealift/internal/testing/short"
)

const (
	// startTime is the timeout for its start on a busy machine.
	startTime = 5 * time.Minute
	// useTime is the timeout for everything that a test does with it.
	useTime = 10 * time.Minute
)

// ForTest starts a browser that ends with t, and returns the context for chromedp.Run. flags override the default flags.
//
// The browser is killed when the thread that started it ends (chromedp sets PR_SET_PDEATHSIG, prctl(2)), so one goroutine keeps
// that thread. Otherwise a test that enters a network namespace on that thread would end the browser.
func ForTest(t testing.TB, flags ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	return Within(t, useTime, flags...)
}

// Within is ForTest for a test that uses the browser for longer.
func Within(t testing.TB, limit time.Duration, flags ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	short.Skip(t, "a browser")
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 900), chromedp.WSURLReadTimeout(startTime),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.UserDataDir(profile(t)))
	var said tail.Buffer
	t.Cleanup(func() { // after the browser has ended
		if t.Failed() {
			t.Logf("the browser said: %s", said.String())
		}
	})
	options = append(options, chromedp.CombinedOutput(&said))
	allocator, cancel := chromedp.NewExecAllocator(t.Context(), append(options, flags...)...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, limit)
	t.Cleanup(cancel)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		started <- chromedp.Run(ctx)
		<-ctx.Done()
	}()
	if err := <-started; err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	return ctx
}

// profile returns a profile folder. Chromium's processes still write to it for some time after they are stopped.
func profile(t testing.TB) string {
	t.Helper()
	dir, err := scratch.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 600 {
			if err = dir.Remove(); err == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Errorf("the browser does not end: %v", err)
	})
	return dir.Path()
}

// Choose sets a field and fires the events that a person's input would, so that the page's script reacts.
func Choose(selector, value string) chromedp.Action {
	return chromedp.Tasks{
		chromedp.SetValue(selector, value, chromedp.ByQuery),
		chromedp.Evaluate(`document.querySelector('`+selector+`').dispatchEvent(new Event('input', {bubbles: true}))`, nil),
	}
}

// Screenshot keeps a picture of the page in docs/images when UPDATE_SCREENSHOTS is set. The test must run in a folder of a folder of the
// repository.
func Screenshot(name string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		if os.Getenv("UPDATE_SCREENSHOTS") == "" {
			return nil
		}
		var png []byte
		if err := chromedp.CaptureScreenshot(&png).Do(ctx); err != nil {
			return err
		}
		return atomicfile.Write(filepath.Join("../../docs/images", name), png)
	})
}
