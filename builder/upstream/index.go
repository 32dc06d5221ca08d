package upstream

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/sealift/sealift/builder/chart"
	"github.com/sealift/sealift/catalog/origin"
)

// Limits of documents, in bytes.
const (
	maxPage     = 8 << 20
	maxIndex    = 256 << 20 // of packages, compressed
	maxUnpacked = 2 << 30   // of packages
)

// registry lists the tags of a repository of images.
func (s *Source) registry(ctx context.Context, rule origin.Rule) ([]Release, error) {
	tags, err := s.images.Tags(ctx, rule.Name)
	return releasesOf(tags), err
}

func releasesOf(versions []string) (all []Release) {
	for _, v := range versions {
		all = append(all, Release{Version: v})
	}
	return all
}

// chart lists the versions of a chart. In a registry they are tags, which have "_" for "+".
func (s *Source) chart(ctx context.Context, rule origin.Rule) ([]Release, error) {
	if repository, ok := strings.CutPrefix(rule.Repository, "oci://"); ok {
		tags, err := s.images.Tags(ctx, strings.TrimSuffix(repository, "/")+"/"+rule.Name)
		all := releasesOf(tags)
		for i := range all {
			all[i].Version = strings.ReplaceAll(all[i].Version, "_", "+")
		}
		return all, err
	}
	address, err := chart.IndexURL(rule.Repository)
	if err != nil {
		return nil, err
	}
	data, err := s.text(ctx, address, chart.MaxSize)
	if err != nil {
		return nil, err
	}
	listed, err := chart.Versions(data, rule.Name)
	if err != nil {
		return nil, err
	}
	var all []Release
	for _, l := range listed {
		r := Release{Version: l.Version}
		if l.Deprecated {
			r.Withdrawn = "deprecated"
		}
		all = append(all, r)
	}
	return all, nil
}

// apt lists the versions of a package in one index of an archive.
func (s *Source) apt(ctx context.Context, rule origin.Rule) ([]Release, error) {
	words := strings.Fields(rule.Repository)
	address := strings.TrimSuffix(words[0], "/")
	if len(words) == 3 {
		address += fmt.Sprintf("/dists/%s/%s/binary-amd64", words[1], words[2])
	}
	var all []Release
	err := s.unpack(ctx, address+"/Packages.gz", func(r io.Reader) (err error) {
		all, err = debianVersions(r, rule.Name)
		return err
	})
	return all, err
}

// debianVersions reads an index of Debian packages.
func debianVersions(r io.Reader, name string) (all []Release, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), 4<<20)
	is := false
	for lines.Scan() {
		line := lines.Text()
		if found, ok := strings.CutPrefix(line, "Package: "); ok {
			is = strings.TrimSpace(found) == name
		}
		if version, ok := strings.CutPrefix(line, "Version: "); ok && is {
			all = append(all, Release{Version: strings.TrimSpace(version)})
		}
		if line == "" {
			is = false
		}
	}
	return all, lines.Err()
}

// yum lists the versions of a package in a repository of rpm packages.
func (s *Source) yum(ctx context.Context, rule origin.Rule) ([]Release, error) {
	base := strings.TrimSuffix(rule.Repository, "/") + "/"
	data, err := s.text(ctx, base+"repodata/repomd.xml", maxPage)
	if err != nil {
		return nil, err
	}
	primary, err := primaryIndex(data)
	if err != nil {
		return nil, err
	}
	var all []Release
	err = s.unpack(ctx, base+primary, func(r io.Reader) (err error) {
		all, err = rpmVersions(r, rule.Name)
		return err
	})
	return all, err
}

// primaryIndex returns the path of a repository's list of packages.
func primaryIndex(repomd []byte) (string, error) {
	var index struct {
		Data []struct {
			Type     string `xml:"type,attr"`
			Location struct {
				Href string `xml:"href,attr"`
			} `xml:"location"`
		} `xml:"data"`
	}
	if err := xml.Unmarshal(repomd, &index); err != nil {
		return "", fmt.Errorf("repomd.xml is damaged: %w", err)
	}
	for _, d := range index.Data {
		switch {
		case d.Type != "primary":
		case !filepath.IsLocal(d.Location.Href) || strings.ContainsAny(d.Location.Href, ":?#%"):
			return "", fmt.Errorf("repomd.xml leads out of its repository: %q", d.Location.Href)
		default:
			return d.Location.Href, nil
		}
	}
	return "", errors.New("repomd.xml names no list of packages")
}

// rpmVersions reads a list of rpm packages. Their version is that of rpm, without epoch: version-release.
func rpmVersions(r io.Reader, name string) (all []Release, err error) {
	for elements := xml.NewDecoder(r); ; {
		token, err := elements.Token()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the list of packages is damaged: %w", err)
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "package" {
			continue
		}
		var p struct {
			Name    string `xml:"name"`
			Version struct {
				Version string `xml:"ver,attr"`
				Release string `xml:"rel,attr"`
			} `xml:"version"`
		}
		if err := elements.DecodeElement(&p, &start); err != nil {
			return nil, fmt.Errorf("the list of packages is damaged: %w", err)
		}
		if p.Name == name {
			all = append(all, Release{Version: p.Version.Version + "-" + p.Version.Release})
		}
	}
}

// unpack reads a compressed index.
func (s *Source) unpack(ctx context.Context, address string, read func(io.Reader) error) error {
	return s.get(ctx, address, maxIndex, nil, func(resp *http.Response) error {
		switch {
		case strings.HasSuffix(address, ".gz"):
			r, err := gzip.NewReader(resp.Body)
			if err != nil {
				return fmt.Errorf("%s: %w", address, err)
			}
			return read(io.LimitReader(r, maxUnpacked))
		case strings.HasSuffix(address, ".zst"):
			r, err := zstd.NewReader(resp.Body, zstd.WithDecoderMaxMemory(maxUnpacked), zstd.WithDecoderConcurrency(1))
			if err != nil {
				return fmt.Errorf("%s: %w", address, err)
			}
			defer r.Close()
			return read(io.LimitReader(r, maxUnpacked))
		}
		return fmt.Errorf("%s is compressed in a way that is not supported; gzip and zstd are", address)
	})
}

// page lists what a pattern finds on a page.
func (s *Source) page(ctx context.Context, rule origin.Rule) ([]Release, error) {
	pattern, err := regexp.Compile(rule.Match)
	if err != nil {
		return nil, err
	}
	data, err := s.text(ctx, rule.Name, maxPage)
	if err != nil {
		return nil, err
	}
	var all []Release
	for _, found := range pattern.FindAllSubmatch(data, -1) {
		all = append(all, Release{Version: string(found[1])})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("nothing on the page matches %s", rule.Match)
	}
	return all, nil
}
