package chart

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/builder/asset"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/transfer"
	"github.com/sealift/sealift/manifest"
)

// indexFile lists the charts of a repository that is served over HTTP.
const indexFile = "index.yaml"

// index has the fields of it that are used.
type index struct {
	Entries map[string][]entry `yaml:"entries"`
}

type entry struct {
	Name       string   `yaml:"name"`
	Version    string   `yaml:"version"`
	URLs       []string `yaml:"urls"`
	Digest     string   `yaml:"digest"` // sha256 of the archive; may be missing
	Deprecated bool     `yaml:"deprecated"`
}

// IndexURL returns the URL of the index of a repository that is served over HTTP.
func IndexURL(repository string) (string, error) {
	at, err := url.Parse(repository)
	if err != nil {
		return "", err
	}
	return at.JoinPath(indexFile).String(), nil
}

// Listed is a version of a chart in an index.
type Listed struct {
	Version    string
	Deprecated bool
}

// Versions lists the versions of a chart in an index, in its order. An entry without a URL, or with the name of another chart, is not
// a version that can be fetched.
func Versions(index []byte, name string) ([]Listed, error) {
	entries, err := entriesOf(index, name)
	if err != nil {
		return nil, err
	}
	var list []Listed
	for _, e := range entries {
		if len(e.URLs) > 0 && (e.Name == "" || e.Name == name) {
			list = append(list, Listed{e.Version, e.Deprecated})
		}
	}
	return list, nil
}

// entriesOf returns the entries of a chart in an index.
func entriesOf(data []byte, name string) ([]entry, error) {
	var i index
	if err := yaml.Unmarshal(data, &i); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", indexFile, err)
	}
	entries, ok := i.Entries[name]
	if ok {
		return entries, nil
	}
	names := slices.Sorted(maps.Keys(i.Entries))
	return nil, &unknownError{fmt.Sprintf("it has no chart %q", name), diag.DidYouMean(name, names, "it has: ")}
}

// find looks a chart up in the index of a repository.
func (s *Source) find(ctx context.Context, repository, name, version string) (address, digest string, err error) {
	at, err := url.Parse(repository)
	if err != nil {
		return "", "", err
	}
	file, err := s.files.Resolve(ctx, nil, indexFile, at.JoinPath(indexFile).String())
	if err != nil {
		return "", "", err
	}
	data, err := s.options.Cache.Read(file.SHA256, MaxSize)
	if err != nil {
		return "", "", err
	}
	e, err := lookUp(data, name, version)
	if err != nil {
		return "", "", fmt.Errorf("chart repository %s: %w", repository, err)
	}
	to, err := url.Parse(e.URLs[0])
	if err != nil {
		return "", "", fmt.Errorf("chart repository %s: URL of %s %s: %w", repository, name, version, err)
	}
	base := *at
	base.Path = strings.TrimSuffix(base.Path, "/") + "/"
	if address = base.ResolveReference(to).String(); !asset.IsURL(address) && !strings.HasPrefix(address, manifest.OCIScheme) {
		return "", "", fmt.Errorf("chart repository %s: %s %s is at %s, and only https://, http:// and oci:// are supported", repository, name, version, transfer.Shown(address))
	}
	return address, strings.TrimPrefix(e.Digest, "sha256:"), nil
}

// unknownError reports that a repository lacks the requested chart or version.
type unknownError struct{ what, hint string }

func (e *unknownError) Error() string { return e.what }

// Hint names what the repository has.
func (e *unknownError) Hint() string { return e.hint }

// lookUp finds a version of a chart in an index. A leading v does not matter.
func lookUp(data []byte, name, version string) (entry, error) {
	versions, err := entriesOf(data, name)
	if err != nil {
		return entry{}, err
	}
	var known []string
	for _, e := range versions {
		if strings.TrimPrefix(e.Version, "v") == strings.TrimPrefix(version, "v") && len(e.URLs) > 0 {
			return e, nil
		}
		known = append(known, e.Version)
	}
	const shown = 5
	return entry{}, &unknownError{fmt.Sprintf("it has no version %s of chart %q", version, name), "the first that it lists are " + strings.Join(known[:min(shown, len(known))], ", ")}
}
