package server

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/server/airgap"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store"
)

const (
	// maxPlans is how many plans are remembered: each has an index of up to a MiB, in two forms.
	maxPlans = 16
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
	installer *spec.Installer
	folder    string   // of the release
	names     []string // only these packages, and nothing else
	since     string   // digest of the index of an earlier bundle
}

// plan is a bundle that was planned before.
type plan struct {
	*airgap.Plan
	installer []byte // canonical, with versions in place of patterns

	key      string
	checked  time.Time // when its packages were last seen
	recorded time.Time // when its index was last stored
}

// plans remembers plans. It is a cache of what follows from the store: every replica has its own.
type plans struct {
	server *Server
	ctx    context.Context // for reads of remembered packages
	flight singleflight.Group

	mu   sync.Mutex
	by   map[string]*list.Element // of *plan
	used *list.List               // the plan used last in front
}

func newPlans(ctx context.Context, s *Server) *plans {
	return &plans{server: s, ctx: ctx, by: make(map[string]*list.Element), used: list.New()}
}

// get gives the plan of a bundle, and makes it if need be.
func (p *plans) get(ctx context.Context, q question) (*plan, error) {
	if n := len(q.installer.AddOns); n > maxNames {
		return nil, problem(http.StatusUnprocessableEntity, fmt.Sprintf("the Installer has %d add-ons; at most %d are possible", n, maxNames))
	}
	packages := p.server.options.Packages
	packages.Folder = q.folder
	installer, err := packages.Resolve(ctx, q.installer)
	if err != nil {
		return nil, err
	}
	text, err := installer.Canonical()
	if err != nil {
		return nil, err
	}
	key := fmt.Sprintf("%x %q %q %s", sha256.Sum256(text), q.folder, q.names, q.since)
	found := p.flight.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(p.ctx, planTime)
		defer cancel()
		if known := p.remembered(ctx, key); known != nil {
			p.server.metrics.planned.WithLabelValues("yes").Inc()
			return known, nil
		}
		p.server.metrics.planned.WithLabelValues("no").Inc()
		made, err := p.make(ctx, packages, installer, q)
		if err != nil {
			return nil, err
		}
		return p.remember(&plan{Plan: made, installer: text, key: key, checked: time.Now()}), nil
	})
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case result := <-found:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*plan), nil
	}
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
func (p *plans) make(ctx context.Context, packages airgap.Packages, installer *spec.Installer, q question) (*airgap.Plan, error) {
	o := p.server.options
	var made *airgap.Plan
	var err error
	if len(q.names) > 0 {
		made, err = airgap.PrepareSupplement(p.ctx, packages, o.Platform, q.names)
	} else {
		request := airgap.Request{Installer: installer, Packages: packages, Binary: o.Binary, Platform: o.Platform, Preflight: o.Preflight, Key: o.Key}
		if q.since != "" {
			if request.Since, err = p.since(ctx, q.since); err != nil {
				return nil, err
			}
		}
		made, err = airgap.Prepare(p.ctx, request)
	}
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
	p.mu.Lock()
	due := time.Since(given.recorded) > recordEvery
	if due {
		given.recorded = time.Now()
	}
	p.mu.Unlock()
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
	p.mu.Lock()
	e, ok := p.by[key]
	var known *plan
	if ok {
		p.used.MoveToFront(e)
		known = e.Value.(*plan)
	}
	fresh := ok && time.Since(known.checked) < freshFor
	p.mu.Unlock()
	if !ok || fresh {
		return known
	}
	if current, err := known.Current(ctx); err != nil || !current {
		p.forget(known)
		return nil
	}
	p.mu.Lock()
	known.checked = time.Now()
	p.mu.Unlock()
	return known
}

func (p *plans) remember(made *plan) *plan {
	p.mu.Lock()
	p.by[made.key] = p.used.PushFront(made)
	var oldest *plan
	if p.used.Len() > maxPlans {
		oldest = p.used.Back().Value.(*plan)
	}
	p.mu.Unlock()
	if oldest != nil {
		p.forget(oldest)
	}
	return made
}

// forget drops a plan. Those who read by it go on: what they read was opened for them.
func (p *plans) forget(known *plan) {
	p.mu.Lock()
	e, ok := p.by[known.key]
	if ok && e.Value.(*plan) == known {
		delete(p.by, known.key)
		p.used.Remove(e)
	}
	p.mu.Unlock()
	if ok {
		_ = known.Close() // opened for reading only
	}
}

func (p *plans) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for e := p.used.Front(); e != nil; e = e.Next() {
		errs = append(errs, e.Value.(*plan).Close())
	}
	clear(p.by)
	p.used.Init()
	return errors.Join(errs...)
}

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
