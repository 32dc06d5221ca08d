package page_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/sealift/sealift/console/oidc"
	"github.com/sealift/sealift/internal/testing/browser"
	"github.com/sealift/sealift/internal/testing/issuer/op"
	"github.com/sealift/sealift/spec"
)

// TestBrowserLogsInAtIssuer logs in at an issuer that others wrote, which is another site for the browser: 127.0.0.1, while the console is
// localhost. Only so do the cookies prove something.
func TestBrowserLogsInAtIssuer(t *testing.T) {
	c := &atIssuer{console: start(t, calm())}
	c.URL = strings.Replace(c.URL, "127.0.0.1", "localhost", 1)
	settings := oidc.Settings{ClientID: "console", URL: c.URL}
	i := op.Start(t, settings.ClientID, settings.RedirectURI(),
		op.User{Name: "otto", Password: "of-operators", Groups: []string{"operators", "staff"}}, op.User{Name: "gast", Password: "of-nobody", Groups: []string{"guests"}})
	c.installer = &spec.OIDC{
		Issuers:   []spec.Issuer{{URL: i.URL, Audiences: []string{"kubernetes"}, CACertificate: i.CA, Claims: spec.Claims{Username: "sub", UsernamePrefix: "oidc:", Groups: "groups", GroupsPrefix: "oidc:"}}},
		Operators: []string{"oidc:operators"}, Viewers: []string{"oidc:staff"},
	}
	c.setLogin()
	c.options.Issuer = oidc.New(settings, c.dir+"/"+loginFile, c.clock.now)
	c.options.Host = func(name string) bool { return name == "localhost" }
	c.restart()
	ctx := chromium(t)
	logIn := func(name, password, until string) {
		t.Helper()
		const button = `form[action="/login/oidc"] button`
		err := chromedp.Run(ctx,
			chromedp.Navigate(c.URL+"/login"), chromedp.WaitVisible(button, chromedp.ByQuery), chromedp.Click(button, chromedp.ByQuery), chromedp.WaitVisible("#username", chromedp.ByQuery),
			chromedp.SendKeys("#username", name, chromedp.ByQuery), chromedp.SendKeys("#password", password+"\n", chromedp.ByQuery), chromedp.WaitVisible(until, chromedp.ByQuery))
		if err != nil {
			t.Fatalf("log in as %s: %v", name, err)
		}
	}
	var problem, who, at string
	logIn("gast", "of-nobody", ".problem")
	browser.Accessible(ctx, t)
	if err := chromedp.Run(ctx, chromedp.Text(".problem", &problem, chromedp.ByQuery)); err != nil || !strings.Contains(problem, "oidc:gast has no role") {
		t.Errorf("without a role: %q, %v", problem, err)
	}
	logIn("otto", "of-operators", "nav")
	err := chromedp.Run(ctx, chromedp.Text(".who span", &who, chromedp.ByQuery), chromedp.Location(&at))
	if err != nil || who != "oidc:otto, operator" || at != c.URL+"/" {
		t.Errorf("logged in as %q, at %s, %v", who, at, err)
	}
	err = chromedp.Run(ctx, chromedp.Click(".who button", chromedp.ByQuery), chromedp.WaitVisible("#token", chromedp.ByQuery), chromedp.Navigate(c.URL+"/"), chromedp.WaitVisible("#token", chromedp.ByQuery))
	if err != nil {
		t.Errorf("log out: %v", err)
	}
}
