package chart

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/internal/transfer"
	"github.com/sealift/sealift/manifest"
)

// listed is the kind of fact that the cache keeps of an archive that is outside its repository, where the index says it is.
const listed = "chart-listed"

func listedKey(c lock.Chart) string {
	return strings.Join([]string{c.Repository, c.Name, c.Version, c.URL, c.SHA256}, " ")
}

// rememberListed records that the index of a repository leads to an archive outside it.
func (s *Source) rememberListed(c lock.Chart) error {
	if isIn(c.Repository, c.URL) {
		return nil
	}
	return s.options.Cache.Remember(listed, listedKey(c), true)
}

// FetchLocked brings the archive of a chart of a lock into the cache, as Fetch does. A lock is a file of a pull request: the
// archive must be in the chart's repository. It may be elsewhere if the repository's index says so, now or when the chart was
// resolved with the same cache.
func (s *Source) FetchLocked(ctx context.Context, r *Resolved) error {
	if err := s.checkLocked(ctx, r.Chart); err != nil {
		return err
	}
	return s.Fetch(ctx, r)
}

func (s *Source) checkLocked(ctx context.Context, c lock.Chart) error {
	if isIn(c.Repository, c.URL) {
		return nil
	}
	if !strings.HasPrefix(c.Repository, manifest.OCIScheme) {
		var known bool
		if s.options.Cache.Recall(listed, listedKey(c), &known) && known {
			return nil
		}
		address, digest, err := s.find(ctx, c.Repository, c.Name, c.Version)
		if err != nil {
			return fmt.Errorf("locked chart: %w", err)
		}
		if leadsTo(address, digest, c) {
			return s.rememberListed(c)
		}
	}
	return fmt.Errorf("chart %s %s: %s locks it to %s (sha256 %s), which is not in repository %s; lock the add-on again with sealift lock --update",
		c.Name, c.Version, lock.FileName, transfer.Shown(c.URL), c.SHA256, c.Repository)
}

// leadsTo reports whether what an index says of a chart is the locked archive. In a registry, its tag may have moved since.
func leadsTo(address, digest string, c lock.Chart) bool {
	if in := registryOf(address); in != "" {
		return in == registryOf(c.URL)
	}
	return address == c.URL && (digest == "" || digest == c.SHA256)
}

// isIn reports whether an archive is in a repository by its URL alone.
func isIn(repository, address string) bool {
	if in := registryOf(repository); in != "" {
		return in == registryOf(address)
	}
	at, err := url.Parse(repository)
	if err != nil {
		return false
	}
	to, err := url.Parse(address)
	if err != nil || to.User != nil || to.RawQuery != "" || to.Scheme != at.Scheme || to.Host != at.Host {
		return false
	}
	return strings.HasPrefix(path.Clean(to.Path), strings.TrimSuffix(path.Clean("/"+at.Path), "/")+"/")
}

// registryOf is the repository in a registry that a URL with oci:// names, or "".
func registryOf(address string) string {
	name, ok := strings.CutPrefix(address, manifest.OCIScheme)
	if !ok {
		return ""
	}
	ref, err := image.ParseReference(name)
	if err != nil {
		return ""
	}
	return ref.Repository()
}
