package chart

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/diag"
)

// indexFile lists the charts of a repository that is served over HTTP.
const indexFile = "index.yaml"

// index has the fields of it that are used.
type index struct {
	Entries map[string][]entry `yaml:"entries"`
}

type entry struct {
	Version string   `yaml:"version"`
	URLs    []string `yaml:"urls"`
	Digest  string   `yaml:"digest"` // sha256 of the archive; may be missing
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
	return base.ResolveReference(to).String(), strings.TrimPrefix(e.Digest, "sha256:"), nil
}

// unknownError reports that a repository lacks the requested chart or version.
type unknownError struct{ what, hint string }

func (e *unknownError) Error() string { return e.what }

// Hint names what the repository has.
func (e *unknownError) Hint() string { return e.hint }

// lookUp finds a version of a chart in an index. A leading v does not matter.
func lookUp(data []byte, name, version string) (entry, error) {
	var i index
	if err := yaml.Unmarshal(data, &i); err != nil {
		return entry{}, fmt.Errorf("%s is damaged: %w", indexFile, err)
	}
	versions, ok := i.Entries[name]
	if !ok {
		var names []string
		for known := range i.Entries {
			names = append(names, known)
		}
		slices.Sort(names)
		return entry{}, &unknownError{fmt.Sprintf("it has no chart %q", name), diag.DidYouMean(name, names, "it has: ")}
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
