package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// The record of what pushes below a prefix have brought: an artifact with one layer, a document in JSON.
const (
	recordRepository = "sealift.dev/pushed" // below the prefix
	recordTag        = "v1"
	recordType       = "application/vnd.sealift.pushed.v1+json"
	recordFormat     = "sealift.dev/pushed/v1"
	maxRecord        = 64 << 20 // bytes
)

// entry is one manifest that a push has brought: it was not there before, under this name.
type entry struct {
	Kind string `json:"kind"`
	// Repository is the upstream one, such as registry.k8s.io/pause. Name is the tag, or the digest of what has none.
	Repository string `json:"repository"`
	Name       string `json:"name"`
	Digest     string `json:"digest"`
	// Reduced is the digest where the registry does not take the whole index, see Image.Note.
	Reduced string `json:"reduced,omitempty"`
	Subject string `json:"subject,omitempty"` // digest of what an attachment is attached to
}

func (e entry) key() string { return e.Repository + " " + e.Name }

// valid reports whether an entry can be one of a record. Records are content from outside.
func (e entry) valid() bool {
	named, err := reference.ParseNamed("registry.example/" + Target{}.path(e.Repository))
	_, wrong := digest.Parse(e.Digest)
	return err == nil && reference.IsNameOnly(named) && wrong == nil && (e.Name == e.Digest || reference.TagRegexp.FindString(e.Name) == e.Name && e.Name != "")
}

type document struct {
	Format  string  `json:"format"`
	Entries []entry `json:"entries"`
}

// pushed is a record, by the keys of its entries.
type pushed map[string]entry

// readPushed reads the record in the registry. One that does not exist is empty.
func (p *Push) readPushed(ctx context.Context) (pushed, error) {
	repo, err := p.open(p.options.Target.path(recordRepository))
	if err != nil {
		return nil, err
	}
	all := pushed{}
	err = p.options.retry(ctx, func(ctx context.Context) error {
		text, err := fetchRecord(ctx, repo)
		if errors.Is(err, errdef.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		var d document
		if err := json.Unmarshal(text, &d); err != nil || d.Format != recordFormat {
			return errors.Join(fmt.Errorf("it is not one of format %s", recordFormat), err)
		}
		for _, e := range d.Entries {
			if !e.valid() {
				return fmt.Errorf("it has the impossible entry %q %q %q", e.Repository, e.Name, e.Digest)
			}
			all[e.key()] = e
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the record of earlier pushes, %s/%s:%s: %w", p.options.Target.Host, p.options.Target.path(recordRepository), recordTag, err)
	}
	return all, nil
}

func fetchRecord(ctx context.Context, repo *remote.Repository) ([]byte, error) {
	_, text, err := fetchManifest(ctx, repo, recordTag)
	if err != nil {
		return nil, err
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, err
	}
	if m.ArtifactType != recordType || len(m.Layers) != 1 || m.Layers[0].Size > maxRecord {
		return nil, fmt.Errorf("it is not an artifact of type %s", recordType)
	}
	blob, err := repo.Blobs().Fetch(ctx, m.Layers[0])
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	data, err := io.ReadAll(io.LimitReader(blob, m.Layers[0].Size+1))
	if err == nil && digest.FromBytes(data) != m.Layers[0].Digest {
		err = fmt.Errorf("it does not have the digest %s", m.Layers[0].Digest)
	}
	return data, err
}

// fetchManifest reads what a tag or a digest leads to.
func fetchManifest(ctx context.Context, repo *remote.Repository, name string) (ocispec.Descriptor, []byte, error) {
	d, content, err := repo.Manifests().FetchReference(ctx, name)
	if err != nil {
		return d, nil, err
	}
	defer content.Close()
	text, err := io.ReadAll(io.LimitReader(content, maxManifest))
	return d, text, err
}

// maxManifest is the largest manifest that is read, in bytes.
const maxManifest = 4 << 20

// writePushed writes the record.
func (p *Push) writePushed(ctx context.Context, all pushed) error {
	d := document{Format: recordFormat, Entries: []entry{}}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		d.Entries = append(d.Entries, all[key])
	}
	text, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return err
	}
	var i image
	layer := ocispec.Descriptor{MediaType: recordType, Digest: digest.FromBytes(text), Size: int64(len(text))}
	err = i.compose(ocispec.DescriptorEmptyJSON.Data, ocispec.Manifest{ArtifactType: recordType, Config: ocispec.Descriptor{MediaType: ocispec.MediaTypeEmptyJSON}, Layers: []ocispec.Descriptor{layer}})
	if err != nil {
		return err
	}
	repo, err := p.open(p.options.Target.path(recordRepository))
	if err != nil {
		return err
	}
	i.made[layer.Digest] = text
	for _, b := range i.blobs {
		if err := p.options.retry(ctx, func(ctx context.Context) error {
			return repo.Blobs().Push(ctx, b, bytes.NewReader(i.made[b.Digest]))
		}); err != nil {
			return err
		}
	}
	return p.options.retry(ctx, func(ctx context.Context) error {
		return repo.PushReference(ctx, i.root.Descriptor, bytes.NewReader(i.made[i.root.Digest]), recordTag)
	})
}

// record adds what this push brings to the record, before it is sent: a run that is interrupted leaves nothing that no record names. A
// registry that does not take the record gets everything else.
func (p *Push) record(ctx context.Context) {
	if !p.options.Record {
		return
	}
	var brings []entry
	led := make(map[string]string)
	for n, i := range p.images {
		if s := p.Images[n].State; s == Missing || s == Replaced {
			e := entry{Kind: i.kind, Repository: i.repository, Name: i.target(), Digest: i.root.Digest.String(), Subject: i.attached}
			if i.root.Absent > 0 {
				if reduced, _, err := i.reduce(); err == nil { // otherwise the push says so
					e.Reduced = reduced.Digest.String()
				}
			}
			brings, led[e.key()] = append(brings, e), i.led
		}
	}
	if len(brings) == 0 {
		return
	}
	var all pushed
	repo, err := p.open(p.options.Target.path(recordRepository))
	if err == nil { // who asks for the right to push reads also what does not exist yet: see hides
		all, err = p.readPushed(auth.AppendRepositoryScope(ctx, repo.Reference, auth.ActionPull, auth.ActionPush))
	}
	if err == nil {
		before := maps.Clone(all)
		for _, e := range brings {
			if was, there := all[e.key()], led[e.key()]; there != "" && there != was.Digest && there != was.Reduced {
				delete(all, e.key()) // it is somebody else's, and gets what it lacks
				continue
			}
			all[e.key()] = e
		}
		if !maps.Equal(before, all) {
			err = p.writePushed(ctx, all)
		}
	}
	if err != nil && ctx.Err() == nil {
		p.options.Say(fmt.Sprintf("what this push sends is not recorded, and 'sealift push --prune' will leave it alone: %v", err))
	}
}
