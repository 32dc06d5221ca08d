package airgap_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"path"
	"strings"

	"github.com/chromedp/chromedp"

	"github.com/sealift/sealift/internal/testing/browser"
)

// composed lets a browser compose a cluster of add-ons on the page of a server on the host, and returns the command that the
// page finally shows. The browser runs on this machine and uses the host as its proxy.
func (n node) composed(base string, addOns []string) string {
	n.t.Helper()
	forward := &httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, Transport: &http.Transport{DialContext: n.Dial}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if "http://"+r.URL.Host != base { // requests of a browser to its vendor
			http.Error(w, "there is no way there", http.StatusForbidden)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	n.t.Cleanup(proxy.Close)
	ctx := browser.ForTest(n.t, chromedp.ProxyServer(proxy.URL))
	actions := chromedp.Tasks{chromedp.Navigate(base + "/"), chromedp.Click(`nav a[href="/compose"]`, chromedp.ByQuery), chromedp.WaitVisible("#compose", chromedp.ByQuery)}
	for _, a := range addOns {
		actions = append(actions, browser.Choose("#version-"+path.Dir(a), path.Base(a)))
	}
	var command string
	actions = append(actions, chromedp.WaitVisible("#yaml", chromedp.ByQuery), chromedp.Click("button.first", chromedp.ByQuery),
		chromedp.WaitVisible("#command-online", chromedp.ByQuery), chromedp.Text("#command-online", &command, chromedp.ByQuery))
	if err := chromedp.Run(ctx, actions); err != nil {
		n.t.Fatalf("compose on the page: %v", err)
	}
	return strings.TrimSpace(command)
}
