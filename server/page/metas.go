package page

import (
	"net/http"
	"sync"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/store/release"
)

// maxMetas is the maximum number of addon.yaml files in the cache. Each has a few hundred bytes.
const maxMetas = 4096

// metas caches the addon.yaml of packages. A replaced package is another stored value, and so another key.
type metas struct {
	mu sync.Mutex
	by map[string]catalog.Meta
}

func newMetas() *metas { return &metas{by: map[string]catalog.Meta{}} }

func (m *metas) get(key string) (catalog.Meta, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	meta, ok := m.by[key]
	return meta, ok
}

func (m *metas) put(key string, meta catalog.Meta) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.by) >= maxMetas {
		clear(m.by)
	}
	m.by[key] = meta
}

// meta returns the addon.yaml of a package.
func (s *Site) meta(r *http.Request, p release.Package) (catalog.Meta, error) {
	key := p.Name + " " + p.Version + " " + p.Stored
	if p.Stored != "" {
		if meta, ok := s.metas.get(key); ok {
			return meta, nil
		}
	}
	opened, err := s.source.Open(r.Context(), r, p.Name, p.Version)
	if err != nil {
		return catalog.Meta{}, err
	}
	defer func() { _ = opened.Close() }()
	meta, err := catalog.Read(opened.FS(), p.Name, p.Version)
	if err == nil {
		s.metas.put(key, meta)
	}
	return meta, err
}
