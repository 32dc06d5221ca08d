package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store"
)

// maxDocuments is the size of the cache of stored Installers, in bytes.
const maxDocuments = 8 << 20

// document is an Installer as text, with the digests that find its plan. Parsing YAML takes about a hundred times the
// memory of the text. So the text is parsed once, and again only to make a plan.
type document struct {
	name   string // for messages
	text   []byte // canonical
	digest string // only of the spec
	sum    string // of the text
	addOns []spec.AddOn
	// parsed is the Installer of the request that sent it; nil for a stored one.
	parsed *spec.Installer
}

// sentDocument returns the document of an Installer that a client sent. It refuses add-ons that cannot work together before
// the store gets a request for them.
func sentDocument(name string, i *spec.Installer) (*document, error) {
	if err := diag.Err(catalog.Check(i, nil)); err != nil {
		return nil, err
	}
	return newDocument(name, i)
}

func newDocument(name string, i *spec.Installer) (*document, error) {
	text, err := written(i)
	if err != nil {
		return nil, err
	}
	digest, err := i.Digest()
	if err != nil {
		return nil, err
	}
	d := &document{name: name, text: text, digest: digest, sum: sha256hex.Of(text), parsed: i}
	for _, a := range i.AddOns {
		d.addOns = append(d.addOns, spec.AddOn{Name: a.Name, Key: a.Key, Version: a.Version, Pos: a.Pos})
	}
	slices.SortFunc(d.addOns, func(a, b spec.AddOn) int { return cmp.Compare(a.Name, b.Name) })
	return d, nil
}

// stored returns the document without the parsed Installer.
func (d *document) stored() *document {
	s := *d
	s.parsed = nil
	return &s
}

func (d *document) size() int64 {
	return int64(len(d.text)+len(d.name)) + 256*int64(len(d.addOns)) + 1<<10
}

// installer returns the Installer. It parses the text unless the same request has done so.
func (d *document) installer() (*spec.Installer, error) {
	if d.parsed != nil {
		return d.parsed, nil
	}
	return spec.Parse(d.name, bytes.NewReader(d.text))
}

// written returns an Installer in its stored form. The stored text has the same size limit as a request.
func written(i *spec.Installer) ([]byte, error) {
	text, err := i.Canonical()
	if err == nil && len(text) > maxBody {
		return nil, &http.MaxBytesError{Limit: maxBody}
	}
	return text, err
}

func installerKey(id string) string { return installersDir + "/" + id + ".yaml" }

// loadInstaller returns a stored Installer. It asks the store for the version and reads the object only if it is not in the
// cache.
func (s *Server) loadInstaller(ctx context.Context, client, id string) (*document, error) {
	o, err := s.openInstaller(ctx, id)
	if err != nil {
		return nil, err
	}
	defer func() { _ = o.Close() }()
	if s.refresh(ctx, id, o) {
		again, err := s.openInstaller(ctx, id)
		if err != nil {
			return nil, err
		}
		_ = o.Close() // opened for reading only
		o = again
	}
	key := id + " " + o.Version()
	if known, ok := s.documents.get(key); ok {
		return known, nil
	}
	// each client waits only for its own slot, not for another client's earlier request
	return share(ctx, &s.plans.flight, "document "+key+" "+client, func() (*document, error) { return s.readStored(client, id, key) })
}

// readStored reads a stored Installer when it gets a slot. It may outlive the request that began it.
func (s *Server) readStored(client, id, key string) (*document, error) {
	ctx, cancel := context.WithTimeout(s.plans.ctx, planTime)
	defer cancel()
	o, err := s.openInstaller(ctx, id)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	done, err := s.slots.take(ctx, client, o.Size())
	if err != nil {
		return nil, err
	}
	defer done()
	if known, ok := s.documents.get(key); ok {
		return known, nil
	}
	s.metrics.parsed.Inc()
	i, err := spec.Parse(id+".yaml", io.NewSectionReader(o, 0, o.Size()))
	if err != nil {
		return nil, fmt.Errorf("cannot read the stored Installer: %w", err)
	}
	d, err := newDocument(id+".yaml", i)
	if err != nil {
		return nil, err
	}
	d = d.stored()
	if key == id+" "+o.Version() {
		s.documents.put(key, d, d.size())
	}
	return d, nil
}

func (s *Server) openInstaller(ctx context.Context, id string) (store.Object, error) {
	if !nameForm.MatchString(id) && !idForm.MatchString(id) {
		return nil, problem(http.StatusBadRequest, "not the id of an Installer: ids have lower-case letters, digits and dashes only")
	}
	missing := problem(http.StatusNotFound, fmt.Sprintf("there is no Installer %s; create one with POST /installer", id))
	if slices.Contains(reservedNames(), id) {
		return nil, missing
	}
	o, err := s.options.Packages.Store.Get(ctx, installerKey(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missing
	}
	return o, err
}
