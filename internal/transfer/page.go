package transfer

import (
	"fmt"
	"net/url"
	"strings"
)

// NextPage returns the address of the page that follows a registry's answer, from its header Link (RFC 8288), or nil after the last one. A
// page on another server is refused, since it would get the credentials.
func NextPage(at *url.URL, link string) (*url.URL, error) {
	target, ok := strings.CutPrefix(strings.TrimSpace(link), "<")
	if !ok {
		return nil, nil
	}
	target, parameters, _ := strings.Cut(target, ">")
	if rel := strings.ReplaceAll(parameters, " ", ""); !strings.Contains(rel, `rel="next"`) && !strings.Contains(rel, "rel=next") {
		return nil, nil
	}
	next, err := at.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("the address of the next page: %w", err)
	}
	if next.Host != at.Host || next.Scheme != at.Scheme {
		return nil, fmt.Errorf("the list of %s continues on another server, %s", at.Host, next.Host)
	}
	return next, nil
}
