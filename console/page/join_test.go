package page_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/console/access"
)

// TestJoinTokenIsOnlyInItsAnswer makes a command for a worker, and looks for its token everywhere else.
func TestJoinTokenIsOnlyInItsAnswer(t *testing.T) {
	const secret = "abcdef.0123456789abcdef"
	c := start(t, map[string]string{"token create": `{"controlPlane":false,"expires":"2026-01-02T03:04:05Z","command":"curl -k https://10.0.0.1:6445/join.sh | sudo bash -s -- --token ` + secret + `@"}`})
	p := c.as(access.Administrator)
	form := p.form("/join")
	code, h, text := p.post("/join", form, url.Values{"ttl": {"8h"}})
	if code != http.StatusOK || !strings.Contains(text, secret) || h.Get("Cache-Control") != "no-store" || h.Get("Location") != "" {
		t.Fatalf("%d %v %s", code, h, text)
	}
	harmless(t, "/join", text)
	if calls := c.calls(); !strings.Contains(calls, "token create --ttl 8h --description made in the console by jane -o json\n") || strings.Contains(calls, "control-plane") {
		t.Errorf("the calls are %s", calls)
	}
	for _, path := range pages(c) {
		if _, _, text := p.get(path); strings.Contains(text, "0123456789abcdef") {
			t.Errorf("%s has the token", path)
		}
	}
	if kept, err := os.ReadFile(filepath.Join(c.dir, "audit")); err != nil || strings.Contains(string(kept), "abcdef.") || !strings.Contains(string(kept), "for workers, until 2026-01-02T03:04:05Z") {
		t.Errorf("the audit has %s, %v", kept, err)
	}
	before := strings.Count(c.calls(), "token create")
	for _, ttl := range []string{"", "0", "8760h", "1h --control-plane", "--control-plane"} {
		if code, _, _ := p.post("/join", form, url.Values{"ttl": {ttl}, "control-plane": {"true"}}); code != http.StatusBadRequest {
			t.Errorf("%q: %d", ttl, code)
		}
	}
	if code, _, _ := p.get("/join?ttl=1h&form=" + form); code != http.StatusOK {
		t.Errorf("by GET: %d", code)
	}
	operator := c.as(access.Operator)
	if code, _, _ := operator.post("/join", operator.form("/join"), url.Values{"ttl": {"1h"}}); code != http.StatusForbidden {
		t.Errorf("as an operator: %d", code)
	}
	if after := strings.Count(c.calls(), "token create"); after != before {
		t.Errorf("%d tokens were made", after-before)
	}
	if err := os.Remove(filepath.Join(c.dir, "token create")); err != nil {
		t.Fatal(err)
	}
	if code, _, text := p.post("/join", form, url.Values{"ttl": {"1h"}}); code != http.StatusBadGateway || !strings.Contains(text, "no document for token create") {
		t.Errorf("without an API: %d %s", code, fmt.Sprintf("%.300s", text))
	}
}
