package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store"
)

// maxDocuments is how many bytes of stored Installers are remembered.
const maxDocuments = 8 << 20

// document is an Installer as text, with what the server must know of it to find a plan for it. Reading YAML takes some hundred
// times the memory of the text, so that the text is read once, and again only to make a plan.
type document struct {
	name   string // for messages
	text   []byte // canonical
	digest string // of the spec alone
	sum    string // of the text
	addOns []spec.AddOn
	// parsed is the Installer while the request that sent it is answered; nil for a stored one.
	parsed *spec.Installer
}

// sentDocument is the document of an Installer that somebody sends. One whose add-ons cannot work together is refused before the
// store is asked for them.
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
	d := &document{name: name, text: text, digest: digest, sum: fmt.Sprintf("%x", sha256.Sum256(text)), parsed: i}
	for _, a := range i.AddOns {
		d.addOns = append(d.addOns, spec.AddOn{Name: a.Name, Key: a.Key, Version: a.Version, Pos: a.Pos})
	}
	slices.SortFunc(d.addOns, func(a, b spec.AddOn) int { return cmp.Compare(a.Name, b.Name) })
	return d, nil
}

// stored is the same document without what only the request that sent it needs.
func (d *document) stored() *document {
	s := *d
	s.parsed = nil
	return &s
}

func (d *document) size() int64 {
	return int64(len(d.text)+len(d.name)) + 256*int64(len(d.addOns)) + 1<<10
}

// installer reads the text, where that was not done for the same request.
func (d *document) installer() (*spec.Installer, error) {
	if d.parsed != nil {
		return d.parsed, nil
	}
	return spec.Parse(d.name, bytes.NewReader(d.text))
}

// written gives an Installer as it is stored, which must not be larger than one that is sent.
func written(i *spec.Installer) ([]byte, error) {
	text, err := i.Canonical()
	if err == nil && len(text) > maxBody {
		return nil, &http.MaxBytesError{Limit: maxBody}
	}
	return text, err
}

func installerKey(id string) string { return installersDir + "/" + id + ".yaml" }

// loadInstaller gives a stored Installer. The store is asked which one it is; it is read if it is not the one of before.
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
	// each client waits for its own turn only: nobody waits behind what another one has asked for before
	return share(ctx, &s.plans.flight, "document "+key+" "+client, func() (*document, error) { return s.readStored(client, id, key) })
}

// readStored reads a stored Installer in its turn. The request that began this may end before it does.
func (s *Server) readStored(client, id, key string) (*document, error) {
	ctx, cancel := context.WithTimeout(s.plans.ctx, planTime)
	defer cancel()
	o, err := s.openInstaller(ctx, id)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	done, err := s.turns.take(ctx, client, o.Size())
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
		return nil, fmt.Errorf("the stored Installer is not readable: %w", err)
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
		return nil, problem(http.StatusBadRequest, "that is no id of an Installer: it has lower-case letters, digits and dashes only")
	}
	missing := problem(http.StatusNotFound, fmt.Sprintf("there is no Installer %s; make one by sending it to /installer", id))
	if slices.Contains(reservedNames(), id) {
		return nil, missing
	}
	o, err := s.options.Packages.Store.Get(ctx, installerKey(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missing
	}
	return o, err
}
