package source

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/internal/sandbox"
)

// entry is a version of a chart in the index of a repository.
type entry struct {
	Version string   `json:"version"`
	URLs    []string `json:"urls"`
	Digest  string   `json:"digest"` // sha256 of the archive; may be missing
}

// An index takes some thirty times its size while it is read, and that of a stranger much more, so a child reads it. One of 20 MiB, as
// large ones are, takes 0.6 GiB and 7 s.
var (
	indexLimits = sandbox.Limits{CPU: 30 * time.Second, Wall: 5 * time.Minute, Memory: 1 << 30, Result: 4 << 20}
	indexTask   = sandbox.Define("index", readIndex)
)

// Tasks are the tasks that a program serves which fetches charts.
func Tasks() []sandbox.Served { return []sandbox.Served{indexTask} }

// readIndex runs in the child. It returns the versions of a chart in the index that it asks for.
func readIndex(chart string, ask sandbox.Ask) ([]entry, error) {
	text, err := ask(nil)
	if err != nil {
		return nil, err
	}
	var index struct {
		Entries map[string][]entry `json:"entries"`
	}
	if err := yaml.Unmarshal(text, &index); err != nil {
		return nil, fmt.Errorf("index.yaml is damaged: %w", err)
	}
	return index.Entries[chart], nil
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
	list, err := indexTask.Run(ctx, sandbox.Request{
		Name: "index.yaml", Tenant: access.Tenant, Limits: indexLimits,
		Answer: func(context.Context, []byte) ([]byte, error) { return text, nil },
	}, want.Name)
	if err != nil {
		return Archive{}, err
	}
	var versions []string
	for _, e := range list {
		versions = append(versions, e.Version)
	}
	if len(versions) == 0 {
		return Archive{}, fmt.Errorf("the repository has no chart %q", want.Name)
	}
	at, err := pick(want.Version, versions)
	if err != nil {
		return Archive{}, err
	}
	found := list[at]
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
