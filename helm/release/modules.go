package release

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // addon-operator's checksum, which protects nothing
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/helm"
)

// The marks of addon-operator: the release's label with the checksum of its rendered chart, the value that held it before there
// were labels, and the label of a release whose objects are left alone.
const (
	checksumLabel  = "moduleChecksum"
	checksumValue  = "_addonOperatorModuleChecksum"
	unmanagedLabel = "maintenance.deckhouse.io/no-resource-reconciliation"
	noLabel        = "null" // removes a label
)

// ModuleOptions are the settings of releases of modules.
type ModuleOptions struct {
	MaxHistory int           // 10 by default
	Timeout    time.Duration // of each wait; 20 minutes by default
}

// Modules keeps releases of modules in their desired state. A release gets a new revision only if what its chart renders to has
// changed, if one of its objects is absent, or if the last operation on it did not succeed.
type Modules struct {
	client  *Client
	options ModuleOptions

	mu       sync.Mutex
	rendered map[string]rendering // by release
}

// rendering is the rendered chart for some inputs.
type rendering struct {
	inputs   [sha256.Size]byte
	manifest string
	checksum string
}

// NewModules returns the releases of modules, which a client manages.
func NewModules(c *Client, o ModuleOptions) *Modules {
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Minute
	}
	return &Modules{client: c, options: o, rendered: map[string]rendering{}}
}

// Refresh forgets which kinds the cluster has, and what charts rendered to.
func (m *Modules) Refresh() {
	m.client.Refresh()
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.rendered)
}

// List returns the newest revision of each release, by name. It reads no contents.
func (m *Modules) List(ctx context.Context) (map[string]helm.Record, error) {
	list, err := m.client.List(ctx)
	if err != nil {
		return nil, err
	}
	all := make(map[string]helm.Record, len(list))
	for _, r := range list {
		all[r.Name] = helm.Record{Revision: r.Revision, Status: r.Status, Labels: r.Labels}
	}
	return all, nil
}

// Uninstall removes a release and the objects that it installed. A release that does not exist is removed.
func (m *Modules) Uninstall(ctx context.Context, name string) error {
	m.mu.Lock()
	delete(m.rendered, name)
	m.mu.Unlock()
	return m.client.Uninstall(ctx, name, Options{Timeout: m.options.Timeout})
}

// Ensure installs or upgrades a release if necessary, and otherwise writes nothing. If that fails, it reads the cluster's kinds
// again and retries once: the missing kind may exist by now.
func (m *Modules) Ensure(ctx context.Context, w helm.Wanted) (helm.Ensured, error) {
	done, err := m.ensure(ctx, w)
	if err == nil || ctx.Err() != nil {
		return done, err
	}
	m.Refresh()
	w.Known = nil
	return m.ensure(ctx, w)
}

// Prepare reads the files of a chart ahead of Ensure, and renders it unless that was done or its templates ask the cluster. It returns nil
// if they cannot be read: Ensure reports the reason.
func (m *Modules) Prepare(ctx context.Context, w helm.Wanted) (files map[string][]byte) {
	files, err := readModule(w)
	if err != nil {
		return nil
	}
	if values, err := json.Marshal(w.Values); err == nil && !asks(files) {
		_, _ = m.render(ctx, w, files, values)
	}
	return files
}

func (m *Modules) ensure(ctx context.Context, w helm.Wanted) (done helm.Ensured, err error) {
	files := w.Files
	if files == nil {
		if files, err = readModule(w); err != nil {
			return done, fmt.Errorf("chart of module %s: %w", w.Name, err)
		}
	}
	values, err := json.Marshal(w.Values) // becomes YAML only where it is used
	if err != nil {
		return helm.Ensured{}, err
	}
	record, err := m.record(ctx, w)
	if err != nil {
		return helm.Ensured{}, err
	}
	if w.Unmanaged && record.Labels[unmanagedLabel] == "true" && record.Status == Deployed {
		return helm.Ensured{}, nil
	}
	r, err := m.render(ctx, w, files, values)
	if err != nil {
		return helm.Ensured{}, err
	}
	why, err := m.reason(ctx, w, record, r)
	if err != nil || why == "" {
		return helm.Ensured{Manifest: r.manifest}, err
	}
	return helm.Ensured{Upgraded: true, Why: why, Manifest: r.manifest}, m.apply(ctx, w, record, files, values, r.checksum)
}

// record is the known state of a release.
func (m *Modules) record(ctx context.Context, w helm.Wanted) (helm.Record, error) {
	if w.Known != nil {
		return *w.Known, nil
	}
	all, err := m.List(ctx)
	return all[w.Name], err
}

// render returns the rendered chart. While nothing that it is made of changes, it is neither parsed nor rendered again.
func (m *Modules) render(ctx context.Context, w helm.Wanted, files map[string][]byte, values []byte) (rendering, error) {
	sum := sha256.New()
	offers := false // the cluster's capabilities are an input
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%q %d\n", path, len(files[path]))
		sum.Write(files[path])
		offers = offers || bytes.Contains(files[path], []byte(".Capabilities"))
	}
	sum.Write(values)
	if offers {
		offer, err := m.client.capabilities()
		if err != nil {
			return rendering{}, err
		}
		fmt.Fprintf(sum, "\n%s %q", offer.KubeVersion.Version, slices.Sorted(slices.Values(offer.APIVersions)))
	}
	r := rendering{inputs: [sha256.Size]byte(sum.Sum(nil))}
	m.mu.Lock()
	known, ok := m.rendered[w.Name]
	m.mu.Unlock()
	if ok && known.inputs == r.inputs && !asks(files) {
		return known, nil
	}
	chart, err := moduleChart(w, files)
	if err != nil {
		return r, err
	}
	if values, err = yaml.JSONToYAML(values); err != nil {
		return r, err
	}
	if r.manifest, err = m.client.Render(ctx, w.Name, chart, values, Options{DisableOpenAPIValidation: true}); err != nil {
		return r, err
	}
	r.checksum = checksum(r.manifest)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rendered[w.Name] = r
	return r, nil
}

// asks reports whether a chart may query the cluster, so that the result is an input, too.
func asks(files map[string][]byte) bool {
	for _, text := range files {
		if bytes.Contains(text, []byte("lookup")) {
			return true
		}
	}
	return false
}

// checksum is that of a manifest as Helm 3 writes it, which addon-operator uses: without empty lines around an object.
func checksum(manifest string) string {
	const source = "\n---\n# Source: "
	sum := md5.New() //nolint:gosec // as above
	for i, part := range strings.Split("\n"+manifest, source) {
		if path, object, _ := strings.Cut(part, "\n"); i > 0 {
			fmt.Fprintf(sum, "%s%s\n%s\n", source[1:], path, strings.TrimSpace(object))
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// reason returns why a release has to be upgraded, or "".
func (m *Modules) reason(ctx context.Context, w helm.Wanted, record helm.Record, r rendering) (string, error) {
	unmanaged := record.Labels[unmanagedLabel] == "true" // addon-operator labels managed releases, too: with false
	switch {
	case record.Revision == 0:
		return "it is not installed", nil
	case record.Status != Deployed:
		return "the last operation on it left it " + record.Status, nil
	case unmanaged != w.Unmanaged:
		return "its maintenance has changed", nil
	}
	before, ok := record.Labels[checksumLabel]
	if !ok {
		last, err := m.client.Get(ctx, w.Name)
		if err != nil {
			return "", err
		}
		before, _ = last.Values[checksumValue].(string)
	}
	switch {
	case before == "":
		return "it has no checksum", nil
	case before != r.checksum:
		return "its chart renders to something else", nil
	case w.Absent == nil:
		return "", nil
	}
	absent, err := w.Absent(ctx, r.manifest)
	if err != nil || len(absent) == 0 {
		return "", err
	}
	return fmt.Sprintf("%d of its objects are absent, such as %s", len(absent), absent[0]), nil
}

// apply makes a new revision. A release whose last operation was killed is recovered first.
func (m *Modules) apply(ctx context.Context, w helm.Wanted, record helm.Record, files map[string][]byte, values []byte, checksum string) error {
	chart, err := moduleChart(w, files)
	if err != nil {
		return err
	}
	if values, err = yaml.JSONToYAML(values); err != nil {
		return err
	}
	o := Options{
		Timeout: m.options.Timeout, MaxHistory: m.options.MaxHistory,
		DisableOpenAPIValidation: true, SkipCRDs: true, TakeOwnership: true,
		Labels: map[string]string{checksumLabel: checksum},
	}
	if w.Unmanaged {
		o.Labels[unmanagedLabel] = "true"
	}
	if record.Revision == 0 || record.Status == Uninstalled {
		_, err = m.client.Install(ctx, w.Name, chart, values, o)
		return err
	}
	if record.Status != Deployed {
		if _, err := m.client.Recover(ctx, w.Name); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	if _, had := record.Labels[unmanagedLabel]; had && !w.Unmanaged {
		o.Labels[unmanagedLabel] = noLabel
	}
	_, err = m.client.Upgrade(ctx, w.Name, chart, values, o)
	return err
}
