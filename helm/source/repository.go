package source

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"sigs.k8s.io/yaml"
)

// index lists the charts of a repository.
type index struct {
	Entries map[string][]struct {
		Version string   `json:"version"`
		URLs    []string `json:"urls"`
		Digest  string   `json:"digest"` // sha256 of the archive; may be missing
	} `json:"entries"`
}

// fromRepository fetches from a repository that is served over HTTP.
func fromRepository(ctx context.Context, client *http.Client, access Access, want Chart, digest string) (Archive, error) {
	base, err := url.Parse(want.Repository)
	if err != nil {
		return Archive{}, err
	}
	text, err := get(ctx, client, access, base.JoinPath("index.yaml").String(), maxIndex)
	if err != nil {
		return Archive{}, err
	}
	var list index
	if err := yaml.Unmarshal(text, &list); err != nil {
		return Archive{}, fmt.Errorf("index.yaml is damaged: %w", err)
	}
	var versions []string
	for _, e := range list.Entries[want.Name] {
		versions = append(versions, e.Version)
	}
	if len(versions) == 0 {
		return Archive{}, fmt.Errorf("the repository has no chart %q", want.Name)
	}
	at, err := pick(want.Version, versions)
	if err != nil {
		return Archive{}, err
	}
	found := list.Entries[want.Name][at]
	if len(found.URLs) == 0 {
		return Archive{}, fmt.Errorf("index.yaml has no URL of version %s", found.Version)
	}
	to, err := url.Parse(found.URLs[0])
	if err != nil {
		return Archive{}, fmt.Errorf("index.yaml has no usable URL of version %s: %w", found.Version, err)
	}
	base.Path = strings.TrimSuffix(base.Path, "/") + "/"
	address := base.ResolveReference(to)
	if address.Scheme == "oci" { // an index may lead to a registry
		content, err := pull(ctx, client, access, strings.TrimPrefix(address.String(), "oci://"), digest)
		if err != nil {
			return Archive{}, err
		}
		return pack(content, found.Version, found.Digest)
	}
	content, err := get(ctx, client, access, address.String(), MaxSize)
	if err != nil {
		return Archive{}, err
	}
	return pack(content, found.Version, found.Digest, digest)
}
