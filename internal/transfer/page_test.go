package transfer_test

import (
	"net/url"
	"testing"

	"github.com/sealift/sealift/internal/transfer"
)

func TestNextPageStaysOnItsServer(t *testing.T) {
	at := &url.URL{Scheme: "https", Host: "reg.example", Path: "/v2/a/tags/list"}
	for link, want := range map[string]string{
		"":                                        "",
		`</v2/a/tags/list?last=b>; rel="next"`:    "https://reg.example/v2/a/tags/list?last=b",
		`<https://reg.example/x?n=1>;rel=next`:    "https://reg.example/x?n=1",
		`<?last=b>; rel="next"`:                   "https://reg.example/v2/a/tags/list?last=b",
		`</v2/a/tags/list>; rel="first"`:          "",
		`<https://evil.example/x>; rel="next"`:    "refused",
		`<http://reg.example/v2/x>; rel="next"`:   "refused",
		"<https://reg.example/%zz>; rel=\"next\"": "refused",
	} {
		got := ""
		next, err := transfer.NextPage(at, link)
		if next != nil {
			got = next.String()
		}
		if err != nil {
			got = "refused"
		}
		if got != want {
			t.Errorf("%s: got %q, %v, want %q", link, got, err, want)
		}
	}
}
