package server

import (
	"context"
	"crypto/sha256"
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

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/server/airgap"
	"github.com/sealift/sealift/store"
)

const (
	// maxPlans is how many bytes of plans are remembered, and minPlan what the smallest of them counts.
	maxPlans = 32 << 20
	minPlan  = 1 << 20
	// planTime bounds the making of a plan: some requests to the store for each package.
	planTime = time.Minute
	// freshFor is how long the packages of a plan are taken to be still there. One that is replaced meanwhile is noticed
	// when it is read.
	freshFor = 5 * time.Second
	// indexesDir is the folder of the store with the indexes of bundles that were given out, for those who ask for what
	// has changed since.
	indexesDir = "bundles"
	// recordEvery is how old the index of a bundle that is given out may get.
	recordEvery = 24 * time.Hour
	// maxIndex is the most that is read of one.
	maxIndex = 64 << 20
)

// question is what bundle is wanted.
type question struct {
	document *document
	client   string   // who asks
	folder   string   // of the release
	names    []string // only these packages, and nothing else
	since    string   // digest of the index of an earlier bundle
}

// plan is a bundle that was planned before.
type plan struct {
	*airgap.Plan
	installer []byte // canonical, with versions in place of patterns
	key       string

	mu       sync.Mutex
	checked  time.Time // when its packages were last seen
	recorded time.Time // when its index was last stored
}

// size is about what a plan takes in memory: its index is there as text and as values.
func (p *plan) size() int64 {
	return max(minPlan, 4*int64(len(p.IndexData))+int64(len(p.installer)))
}

// plans remembers plans. It is a cache of what follows from the store: every replica has its own.
type plans struct {
	server *Server
	ctx    context.Context // for reads of remembered packages
	flight singleflight.Group
	known  *memory[*plan]
}

func newPlans(ctx context.Context, s *Server) *plans {
	forget := func(p *plan) { _ = p.Close() } // opened for reading only; those who read by it go on
	return &plans{server: s, ctx: ctx, known: newMemory(maxPlans, forget)}
}

// get gives the plan of a bundle, and makes it if need be.
func (p *plans) get(ctx context.Context, q question) (*plan, error) {
	if n := len(q.document.addOns); n > maxNames {
		return nil, problem(http.StatusUnprocessableEntity, fmt.Sprintf("the Installer has %d add-ons; at most %d are possible", n, maxNames))
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
	key := fmt.Sprintf("%s %q %q %q %s", q.document.sum, versions, q.folder, q.names, q.since)
	if known := p.remembered(ctx, key); known != nil {
		p.server.metrics.planned.WithLabelValues("yes").Inc()
		return known, nil
	}
	// Each client waits for its own turn only. A request that has sent its Installer has its turn, and waits for none.
	sent := q.document.parsed != nil
	return share(ctx, &p.flight, fmt.Sprintf("plan %s %s %t", key, q.client, sent), func() (*plan, error) {
		ctx, cancel := context.WithTimeout(p.ctx, planTime)
		defer cancel()
		if !sent {
			done, err := p.server.turns.take(ctx, q.client, int64(len(q.document.text)))
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

// open gives a bundle to read, with its plan.
func (p *plans) open(ctx context.Context, q question) (*plan, *airgap.Reader, error) {
	for {
		planned, err := p.get(ctx, q)
		if err != nil {
			return nil, nil, err
		}
		reader, err := planned.Open(ctx)
		if !errors.Is(err, fs.ErrClosed) {
			return planned, reader, err
		}
		// it had to make room for another one between these two, and is made anew
	}
}

// make makes a plan.
func (p *plans) make(ctx context.Context, packages airgap.Packages, q question, versions map[string]string) (*plan, error) {
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
	if made.installer, err = installer.Canonical(); err != nil {
		return nil, err
	}
	o := p.server.options
	if len(q.names) > 0 {
		made.Plan, err = airgap.PrepareSupplement(p.ctx, packages, o.Platform, q.names)
		return made, err
	}
	request := airgap.Request{Installer: &installer, Packages: packages, Binary: o.Binary, Platform: o.Platform, Commands: o.Commands, Preflight: o.Preflight, Key: o.Key}
	if q.since != "" {
		if request.Since, err = p.since(ctx, q.since); err != nil {
			return nil, err
		}
	}
	made.Plan, err = airgap.Prepare(p.ctx, request)
	return made, err
}

var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

func indexKey(digest string) string { return indexesDir + "/" + digest + ".json" }

// since reads the index of a bundle that was given out before.
func (p *plans) since(ctx context.Context, digest string) (*bundle.Since, error) {
	if !digestForm.MatchString(digest) {
		return nil, problem(http.StatusBadRequest, "since is the sha256 of the index of a bundle, which 'sealift inspect' tells")
	}
	unknown := problem(http.StatusNotFound, "no bundle with that index was given out here; download the whole bundle")
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
	if got := fmt.Sprintf("%x", sha256.Sum256(data)); got != digest {
		return nil, fmt.Errorf("%s in the store has the digest %s; remove it", indexKey(digest), got)
	}
	return bundle.NewSince(data)
}

// record keeps the index of a bundle that is given out in the store. It is written anew though it is there already: its age
// says since when nobody was given that bundle, and by that whoever runs the store drops old ones. A store that takes nothing
// is no reason to refuse the bundle.
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
		p.server.log.Warn("what changes after this bundle cannot be asked for: its index was not stored", "index", given.Digest, "error", err)
	}
}

// remembered gives a plan whose packages are still those of the store.
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

// forget drops a plan. Those who read by it go on: what they read was opened for them.
func (p *plans) forget(known *plan) { p.known.drop(known.key, known) }

// names splits a list of packages, each <name>-<version>.
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
	return all, nil
}
