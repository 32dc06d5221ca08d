package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/catalog/origin"
)

const gitHubAPI = "https://api.github.com/"

const (
	maxReleasePages = 20       // of 100 releases each
	maxReleasePage  = 32 << 20 // bytes; release notes are part of it
)

// gitHub lists the releases of a repository. Drafts are not published.
func (s *Source) gitHub(ctx context.Context, rule origin.Rule) ([]Release, error) {
	header := http.Header{"Accept": {"application/vnd.github+json"}, "X-Github-Api-Version": {"2022-11-28"}}
	if s.options.GitHubToken != "" && s.options.Mirrors.URL(gitHubAPI) == gitHubAPI {
		header.Set("Authorization", "Bearer "+s.options.GitHubToken)
	}
	var all []Release
	for page := 1; page <= maxReleasePages; page++ {
		var list []struct {
			Tag        string `json:"tag_name"`
			Draft      bool   `json:"draft"`
			PreRelease bool   `json:"prerelease"`
		}
		more := false
		address := fmt.Sprintf("%srepos/%s/releases?per_page=100&page=%d", gitHubAPI, rule.Name, page)
		err := s.get(ctx, address, maxReleasePage, header, func(resp *http.Response) error {
			more = strings.Contains(resp.Header.Get("Link"), `rel="next"`)
			list = nil
			return json.NewDecoder(resp.Body).Decode(&list)
		})
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			if !r.Draft {
				all = append(all, Release{Version: r.Tag, PreRelease: r.PreRelease})
			}
		}
		if !more {
			return all, nil
		}
	}
	return all, nil // the newest are first
}

// LimitError reports that an upstream answers no more requests for now.
type LimitError struct {
	Host  string
	Until time.Time // zero if the upstream does not say
}

func (e *LimitError) Error() string {
	if e.Until.IsZero() {
		return e.Host + " refuses more requests for now (rate limit)"
	}
	return fmt.Sprintf("%s refuses more requests until %s (rate limit)", e.Host, e.Until.UTC().Format(time.RFC3339))
}

// Hint returns what to do next.
func (e *LimitError) Hint() string {
	return "try again later; a token in GITHUB_TOKEN raises GitHub's limit"
}

// limited turns an answer about a rate limit that does not end in seconds into a *LimitError, which is not retried. GitHub answers
// 403 or 429, and says when the limit ends in X-RateLimit-Reset or Retry-After.
func limited(err error, now time.Time) error {
	var status *fetch.StatusError
	if !errors.As(err, &status) || status.Code != http.StatusForbidden && status.Code != http.StatusTooManyRequests {
		return err
	}
	host := status.URL
	if _, rest, ok := strings.Cut(host, "://"); ok {
		host, _, _ = strings.Cut(rest, "/")
	}
	reset, wait := status.Header.Get("X-Ratelimit-Reset"), status.Header.Get("Retry-After")
	switch {
	case status.Header.Get("X-Ratelimit-Remaining") == "0":
		seconds, parseErr := strconv.ParseInt(reset, 10, 64)
		if parseErr != nil {
			return &LimitError{Host: host}
		}
		return &LimitError{Host: host, Until: time.Unix(seconds, 0)}
	case status.Code == http.StatusForbidden && wait != "":
		seconds, parseErr := strconv.ParseUint(wait, 10, 31)
		if parseErr != nil {
			return &LimitError{Host: host}
		}
		return &LimitError{Host: host, Until: now.Add(time.Duration(seconds) * time.Second)}
	}
	return err
}
