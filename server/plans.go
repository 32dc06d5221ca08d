package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/sealift/sealift/assemble"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/store"
)

const (
	// maxPlans is the size of the cache of plans, and minPlan the least that a plan counts, in bytes.
	maxPlans = 32 << 20
	minPlan  = 1 << 20
	// openPackage is the weight of an open package of a plan: all plans together keep at most 512 open.
	openPackage = 64 << 10
	// planTime is the timeout for making a plan: a few requests to the store for each package.
	planTime = time.Minute
	// freshFor is how long a plan is used without asking the store for its packages. A replaced package is detected when it
	// is read.
	freshFor = 5 * time.Second
	// indexesDir is the folder with the indexes of sent bundles, which later requests with since refer to.
	indexesDir = "bundles"
	// recordEvery is how often the index of a bundle that is still in use is stored again.
	recordEvery = 24 * time.Hour
	// maxIndex is the largest index that is read, in bytes.
	maxIndex = 64 << 20
)

// planKey describes a requested bundle.
type planKey struct {
	document *document
	client   string   // the client that asks
	folder   string   // folder of the release
	names    []string // only these packages, and nothing else
	since    string   // digest of the index of an earlier bundle
	lean     bool     // with lean layers
	patch    bool     // with patches of the files of that earlier bundle, and of similar files where it is lean
}

// plan is a cached plan of a bundle.
type plan struct {
	*assemble.Plan
	installer []byte // canonical, with versions instead of patterns
	key       string

	mu       sync.Mutex
	checked  time.Time // last check of its packages
	recorded time.Time // last store of its index
}

// size estimates the memory of a plan, which holds its index as text and as values, and keeps its packages open.
func (p *plan) size() int64 {
	return max(minPlan, 4*int64(len(p.IndexData))+int64(len(p.installer)), openPackage*int64(p.Packages()))
}

// plans is a cache of plans. It is derived from the store, so every replica has its own.
type plans struct {
	server  *Server
	ctx     context.Context // for reads of cached plans
	flight  singleflight.Group
	known   *lru[*plan]
	patches *slots // limits how many requests look for patches
}

func newPlans(ctx context.Context, s *Server) *plans {
	forget := func(p *plan) { _ = p.Close() } // opened for reading only; open readers are not affected
	return &plans{server: s, ctx: ctx, known: newLRU(maxPlans, forget), patches: newTurns(atPatches * minText)}
}

// get returns the plan of a bundle. It makes the plan if it is not in the cache.
func (p *plans) get(ctx context.Context, q planKey) (*plan, error) {
	if n := len(q.document.addOns); n > maxNames {
		return nil, problem(http.StatusUnprocessableEntity, fmt.Sprintf("the Installer has %d add-ons; the limit is %d", n, maxNames))
	}
	packages := p.server.options.Packages
	packages.Folder = q.folder
	addOns, err := packages.Resolve(ctx, q.document.addOns)
	if err != nil {
		return nil, err
	}
	versions := make(map[string]string, len(addOns))
	for _, a := range addOns {
		versions[a.Name] = a.Version
	}
	key := fmt.Sprintf("%s %q %q %q %s %t %t", q.document.sum, versions, q.folder, q.names, q.since, q.lean, q.patch)
	if known := p.remembered(ctx, key); known != nil {
		p.server.metrics.planned.WithLabelValues("yes").Inc()
		return known, nil
	}
	if q.lean {
		if err := p.compress(ctx, q); err != nil {
			return nil, err
		}
	}
	if q.patch {
		if err := p.makePatches(ctx, packages, q, key, versions); err != nil {
			return nil, err
		}
	}
	// Each client waits only for its own turn. A request that has sent its Installer already has a turn.
	sent := q.document.parsed != nil
	return share(ctx, &p.flight, fmt.Sprintf("plan %s %s %t", key, q.client, sent), func() (*plan, error) {
		ctx, cancel := context.WithTimeout(p.ctx, planTime)
		defer cancel()
		if !sent {
			done, err := p.server.slots.take(ctx, q.client, int64(len(q.document.text)))
			if err != nil {
				return nil, err
			}
			defer done()
		}
		if known := p.remembered(ctx, key); known != nil {
			p.server.metrics.planned.WithLabelValues("yes").Inc()
			return known, nil
		}
		p.server.metrics.planned.WithLabelValues("no").Inc()
		made, err := p.make(ctx, packages, q, versions)
		if err != nil {
			return nil, err
		}
		made.key, made.checked = key, time.Now()
		p.known.put(key, made, made.size())
		return made, nil
	})
}

// open opens a bundle for reading and returns it with its plan.
func (p *plans) open(ctx context.Context, q planKey) (*plan, *assemble.Reader, error) {
	for {
		planned, err := p.get(ctx, q)
		if err != nil {
			return nil, nil, err
		}
		reader, err := planned.Open(ctx)
		if !errors.Is(err, fs.ErrClosed) {
			return planned, reader, err
		}
		// the plan was evicted between the two calls; make it again
	}
}

// make makes a plan.
func (p *plans) make(ctx context.Context, packages packages.Source, q planKey, versions map[string]string) (*plan, error) {
	if q.document.parsed == nil {
		p.server.metrics.parsed.Inc()
	}
	parsed, err := q.document.installer()
	if err != nil {
		return nil, err
	}
	installer := *parsed
	installer.AddOns = slices.Clone(parsed.AddOns)
	for n, a := range installer.AddOns {
		installer.AddOns[n].Version = versions[a.Name]
	}
	made := &plan{}
	o := p.server.options
	if len(q.names) > 0 {
		made.Plan, err = assemble.PrepareSupplement(p.ctx, packages, o.Key, assemble.Platforms(o.Programs), q.names)
		return made, err
	}
	request := assemble.Request{Installer: &installer, Packages: packages, Programs: o.Programs, Commands: o.Commands, KeepPreflight: o.KeepPreflight, Key: o.Key}
	if q.lean {
		request.Lean = o.Lean
	}
	if q.since != "" {
		if request.Since, err = p.since(ctx, q.since); err != nil {
			return nil, err
		}
	}
	if q.patch && q.lean {
		request.Similar = o.Patches
	}
	if q.patch && q.since != "" {
		had, err := p.openEarlier(p.ctx, packages, request.Since)
		defer func() { _ = had.close() }() // opened for reading only
		if err != nil {
			return nil, err
		}
		request.Patches = &had.Earlier
	}
	if made.Plan, err = assemble.Prepare(p.ctx, request); err != nil {
		return nil, err
	}
	if made.installer, err = made.Installer.Canonical(); err != nil {
		return nil, errors.Join(err, made.Close())
	}
	return made, nil
}

var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

func indexKey(digest string) string { return indexesDir + "/" + digest + ".json" }

// since reads the index of an earlier bundle.
func (p *plans) since(ctx context.Context, digest string) (*bundle.Since, error) {
	if !digestForm.MatchString(digest) {
		return nil, problem(http.StatusBadRequest, "since must be the sha256 of a bundle's index, which 'sealift inspect' shows")
	}
	unknown := problem(http.StatusNotFound, "this server has sent no bundle with that index; download the whole bundle")
	o, err := p.server.options.Packages.Store.Get(ctx, indexKey(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, unknown
	}
	if err != nil {
		return nil, err
	}
	defer o.Close()
	data, err := io.ReadAll(io.LimitReader(io.NewSectionReader(o, 0, o.Size()), maxIndex))
	if err != nil {
		return nil, err
	}
	if got := sha256hex.Of(data); got != digest {
		return nil, fmt.Errorf("%s in the store has the digest %s; remove it", indexKey(digest), got)
	}
	return bundle.NewSince(data)
}

// record stores the index of a sent bundle. It stores it again even if it exists, because its age shows the operator when
// the bundle was last sent, and which old indexes can be deleted. If the store is read-only, the bundle is served all the same.
func (p *plans) record(given *plan) {
	given.mu.Lock()
	due := time.Since(given.recorded) > recordEvery
	if due {
		given.recorded = time.Now()
	}
	given.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, planTime)
	defer cancel()
	_, err := p.server.options.Packages.Store.Put(ctx, indexKey(given.Digest), store.Bytes(given.IndexData))
	if err != nil {
		if !errors.Is(err, store.ErrReadOnly) {
			given.mu.Lock()
			given.recorded = time.Time{} // the next transfer tries again
			given.mu.Unlock()
		}
		p.server.log.Warn("the index of a bundle was not stored; clients cannot request changes since this bundle", "index", given.Digest, "error", err)
	}
}

// remembered returns a cached plan if the store still has its packages.
func (p *plans) remembered(ctx context.Context, key string) *plan {
	known, ok := p.known.get(key)
	if !ok {
		return nil
	}
	known.mu.Lock()
	fresh := time.Since(known.checked) < freshFor
	known.mu.Unlock()
	if fresh {
		return known
	}
	current, err := share(ctx, &p.flight, "current "+key, func() (bool, error) {
		ctx, cancel := context.WithTimeout(p.ctx, planTime)
		defer cancel()
		return known.Current(ctx)
	})
	if err != nil || !current {
		if ctx.Err() == nil {
			p.forget(known)
		}
		return nil
	}
	known.mu.Lock()
	known.checked = time.Now()
	known.mu.Unlock()
	return known
}

// forget removes a plan from the cache. Open readers are not affected, because they have their own objects.
func (p *plans) forget(known *plan) { p.known.drop(known.key, known) }

// names parses a list of packages, each <name>-<version>.
func names(list string) ([]string, error) {
	all := strings.Split(list, ",")
	if len(all) > maxNames {
		return nil, problem(http.StatusBadRequest, fmt.Sprintf("more than %d packages at once", maxNames))
	}
	for _, name := range all {
		if !packageForm.MatchString(name) {
			return nil, problem(http.StatusBadRequest, fmt.Sprintf("%q is not a package, <name>-<version>", name))
		}
	}
	slices.Sort(all) // the order does not matter, and a package that is named twice is sent once
	return slices.Compact(all), nil
}
