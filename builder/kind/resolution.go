package kind

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/builder/sbom"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest"
)

// resolving is one resolution under way.
type resolving struct {
	addOn  AddOn
	pins   Pins
	group  *errgroup.Group
	faults *faults
}

// begin resolves one thing for the directive at a position.
func (r *resolving) begin(at diag.Pos, resolve func() error) {
	r.group.Go(func() error {
		if err := resolve(); err != nil {
			r.faults.add(at, err)
		}
		return nil
	})
}

// faults collects errors from several goroutines.
type faults struct {
	mu   sync.Mutex
	list diag.List
}

// add adds an error at its position. Errors may have their own hints or positions.
func (f *faults) add(pos diag.Pos, err error) {
	var advised interface{ Hint() string }
	hint := ""
	if errors.As(err, &advised) {
		hint = advised.Hint()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if placed, ok := errors.AsType[diag.Errors](err); ok {
		f.list.Add(placed...)
		return
	}
	f.list.Errorf(pos, hint, "%v", err)
}

// errorf reports a mistake of the Manifest.
func (f *faults) errorf(pos diag.Pos, hint, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list.Errorf(pos, hint, format, args...)
}

// Resolution is the result of resolving the directives of a Manifest: every name with a digest.
type Resolution struct {
	set   *Set
	parts []part // in the order of the kinds
}

// Resolve resolves all directives at once, and reports all failures as diag.Errors. It does not request pinned content.
func (s *Set) Resolve(ctx context.Context, a AddOn, p Pins) (Resolution, error) {
	var group errgroup.Group
	group.SetLimit(s.options.Jobs)
	run := &resolving{addOn: a, pins: p, group: &group, faults: &faults{}}
	r := Resolution{set: s, parts: make([]part, len(s.kinds))}
	for i, k := range slices.Backward(s.kinds) {
		r.parts[i] = k.resolve(ctx, run)
	}
	if err := errors.Join(group.Wait(), context.Cause(ctx)); err != nil {
		return Resolution{}, err
	}
	if err := run.faults.list.Err(); err != nil {
		return Resolution{}, err
	}
	for _, p := range only[finisher](r.parts) {
		p.finish(a.Manifest)
	}
	return r, nil
}

// Warnings returns warnings about the resolved content.
func (r Resolution) Warnings(m *manifest.File) []diag.Finding {
	var list diag.List
	for _, p := range only[warner](r.parts) {
		p.warn(m, &list)
	}
	return list.Findings()
}

// MarshalJSON writes everything that the bytes of the package follow from.
func (r Resolution) MarshalJSON() ([]byte, error) { return json.Marshal(r.parts) }

// Images returns the images that the package carries, each reference once.
func (r Resolution) Images() []image.Resolved {
	var list []image.Resolved
	for _, p := range only[carrier](r.parts) {
		list = append(list, p.images()...)
	}
	return list
}

// Lock is the lock of the resolution.
func (r Resolution) Lock() lock.Lock {
	var l lock.Lock
	for _, p := range r.parts {
		p.lock(&l)
	}
	return l
}

// Keep copies an earlier lock of other targets and platforms into a lock, as far as the Manifest still needs it.
func (s *Set) Keep(a AddOn, now *lock.Lock, was lock.Lock) {
	for _, k := range only[keeper](s.kinds) {
		k.keep(a, now, was)
	}
}

// LeftOut warns of the directives that this build leaves out.
func (s *Set) LeftOut(m *manifest.File) []diag.Finding {
	var list diag.List
	for _, k := range only[skipper](s.kinds) {
		k.leftOut(m, &list)
	}
	return list.Findings()
}

// Servers lists the root URLs of the servers that resolving contacts, each once.
func (s *Set) Servers(m *manifest.File) []string {
	var list []string
	for _, k := range only[remote](s.kinds) {
		list = append(list, k.servers(m)...)
	}
	return slices.Compact(slices.Sorted(slices.Values(list)))
}

// Changes compares what two packages carry for the directives of a Manifest.
func (s *Set) Changes(m *manifest.File, was, now bundle.Contents) []string {
	var list []string
	for _, k := range only[comparer](s.kinds) {
		list = append(list, k.changes(m, was, now)...)
	}
	return list
}

// Made reports whether a file of a package comes from a directive. All others are the add-on's own.
func (s *Set) Made(p bundle.PackageInfo, name string) bool {
	below := strings.TrimPrefix(name, p.Dir()+"/")
	return below == sbom.FileName || slices.ContainsFunc(only[maker](s.kinds), func(m maker) bool { return m.made(p, below) })
}

// Describe adds to a package what its index says about its content.
func (r Resolution) Describe(p *bundle.Package) {
	for _, one := range only[describer](r.parts) {
		one.describe(p)
	}
}

// Files lists the files that the package has below dir, except images.
func (r Resolution) Files(dir string) ([]bundle.File, error) {
	var list []bundle.File
	for _, p := range only[packer](r.parts) {
		files, err := p.files(dir)
		if err != nil {
			return nil, err
		}
		list = append(list, files...)
	}
	return list, nil
}

// Materials returns the bill of materials of a package, as a file of it. Its files are listed, and it is described.
func (r Resolution) Materials(ctx context.Context, p bundle.Package) (bundle.File, error) {
	s := sbom.Subject{Name: p.Name, Version: p.Version, Images: r.Images()}
	for _, one := range only[documenter](r.parts) {
		if err := one.materials(ctx, p, &s); err != nil {
			return bundle.File{}, err
		}
	}
	data, err := sbom.Document(s)
	if err != nil {
		return bundle.File{}, err
	}
	return bundle.BytesFile(path.Join(bundle.AddOnDir(p.Name, p.Version), sbom.FileName), 0o644, data), nil
}

// transfer is one blob to fetch.
type transfer struct {
	digest string
	size   int64
	pos    diag.Pos // of the directive that it is for
	fetch  func(context.Context) (fetch.Stored, error)
}

// Fetched returns how many bytes were transferred to resolve.
func (r Resolution) Fetched() int64 {
	var n int64
	for _, p := range only[counter](r.parts) {
		n += p.fetched()
	}
	return n
}

// Fetch brings everything that the resolution names into the cache, the largest first, so that no large one is left for the
// end. It returns how many bytes were transferred, now or to resolve. The first failure ends it.
func (r Resolution) Fetch(ctx context.Context) (int64, error) {
	var fetched atomic.Int64
	var wrong faults
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(r.set.options.Jobs)
	for _, t := range r.transfers() {
		group.Go(func() error {
			if err := groupCtx.Err(); err != nil {
				return err
			}
			stored, err := t.fetch(groupCtx)
			if err != nil && groupCtx.Err() == nil {
				wrong.add(t.pos, err)
			}
			fetched.Add(stored.Transferred)
			return err
		})
	}
	err := group.Wait()
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if found := wrong.list.Err(); found != nil {
		return 0, found
	}
	return fetched.Load() + r.Fetched(), err
}

// transfers lists each blob once, the largest first.
func (r Resolution) transfers() []transfer {
	var list []transfer
	seen := make(map[string]bool)
	for _, p := range only[downloader](r.parts) {
		for _, t := range p.transfers() {
			if !seen[t.digest] {
				seen[t.digest] = true
				list = append(list, t)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b transfer) int { return cmp.Compare(b.size, a.size) })
	return list
}

// Run creates content that is not fetched, such as the output of Dockerfiles. Everything has been fetched by then.
func (r Resolution) Run(ctx context.Context) error {
	var wrong faults
	for _, p := range only[runner](r.parts) {
		if err := p.run(ctx, &wrong); err != nil {
			return err
		}
	}
	return wrong.list.Err()
}

// root is the root of the server of a URL.
func root(address string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	host, _, _ := strings.Cut(rest, "/")
	return fmt.Sprintf("%s://%s", scheme, host)
}

// Pins is the locked content that a resolution uses without requests. The zero value takes nothing.
type Pins struct {
	Lock     lock.Lock
	Only     bool // refuse unlocked content
	Compared bool // nothing will be packed: the archives of host packages need not vouch for locked ones
}

// missingError reports that a strict build needs content that its lock lacks.
type missingError struct {
	dir  string
	what string
}

func (e *missingError) Error() string {
	return fmt.Sprintf("%s is not in %s", e.what, filepath.Join(e.dir, lock.FileName))
}

// Hint names the next step.
func (e *missingError) Hint() string { return "lock it with sealift lock " + e.dir }

// missing returns an error if only the lock may be used.
func (r *resolving) missing(format string, args ...any) error {
	if !r.pins.Only {
		return nil
	}
	return &missingError{dir: r.addOn.Named, what: fmt.Sprintf(format, args...)}
}
