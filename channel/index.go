package channel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/sealift/sealift/internal/sha256hex"
)

// DefaultNamespace holds the record of an add-on that names no namespace.
const DefaultNamespace = "kube-system"

// indexKind is the kind of an index. Unlike other manifests, an index has no apiVersion (K-1).
const indexKind = "Addons"

// Index is the content of one channel.
type Index struct {
	Name    string
	Entries []Entry // in the order of the file
}

// Entry is one version of an add-on, as a channel offers it. Fields keep the names of kOps. Its Version may be missing, and
// then other rules decide.
type Entry struct {
	Name               string            `json:"name" yaml:"name,omitempty"`
	Namespace          string            `json:"namespace,omitempty" yaml:"namespace,omitempty"`
	Version            *string           `json:"version,omitempty" yaml:"version,omitempty"`
	ID                 string            `json:"id,omitempty" yaml:"id,omitempty"`
	Selector           map[string]string `json:"selector,omitempty" yaml:"selector,omitempty"`
	Manifest           string            `json:"manifest" yaml:"manifest,omitempty"` // relative to the index
	ManifestHash       string            `json:"manifestHash,omitempty" yaml:"manifestHash,omitempty"`
	KubernetesVersion  string            `json:"kubernetesVersion,omitempty" yaml:"kubernetesVersion,omitempty"`
	NeedsRollingUpdate string            `json:"needsRollingUpdate,omitempty" yaml:"needsRollingUpdate,omitempty"`
	NeedsPKI           bool              `json:"needsPKI,omitempty" yaml:"needsPKI,omitempty"`
	Prune              *Prune            `json:"prune,omitempty" yaml:"prune,omitempty"`

	// Channel is the channel as the user named it, without secrets; Location is where the manifest is. They are not part of the
	// file.
	Channel  string `json:"channel,omitempty" yaml:"-"`
	Location string `json:"location,omitempty" yaml:"-"`
}

// MarshalJSON leaves out secrets in locations.
func (e Entry) MarshalJSON() ([]byte, error) {
	type plain Entry
	e.Manifest, e.Location = shown(e.Manifest), shown(e.Location)
	return json.Marshal(plain(e))
}

// Prune names the objects that a new version deletes when it no longer contains them (K-25).
type Prune struct {
	Kinds []PruneKind `json:"kinds,omitempty" yaml:"kinds,omitempty"`
}

// PruneKind names live objects of one kind.
type PruneKind struct {
	Group         string   `json:"group,omitempty" yaml:"group,omitempty"`
	Kind          string   `json:"kind" yaml:"kind,omitempty"`
	Namespaces    []string `json:"namespaces,omitempty" yaml:"namespaces,omitempty"`
	LabelSelector string   `json:"labelSelector,omitempty" yaml:"labelSelector,omitempty"`
	FieldSelector string   `json:"fieldSelector,omitempty" yaml:"fieldSelector,omitempty"`
}

// file is an index in its written form.
type file struct {
	APIVersion string `yaml:"apiVersion,omitempty"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name string `yaml:"name,omitempty"`
	} `yaml:"metadata"`
	Spec struct {
		Addons []*Entry `yaml:"addons"`
	} `yaml:"spec"`
}

// Parse reads an index that was found at a location; channel is the user's name for it. A file that is not an index is read as
// the manifest of one add-on (K-5), and a file without objects as an index without add-ons (K-4).
func Parse(data []byte, location *url.URL, channel string) (Index, error) {
	docs, err := documents(data)
	if err == nil && len(docs) > 0 {
		var index *Index
		if index, err = parseIndex(docs[0]); index != nil && err == nil {
			return index.complete(location, channel)
		}
	}
	if err == nil && len(docs) > 1 {
		// A manifest must be YAML as a whole; of an index only the first document counts (K-3).
		for _, doc := range docs[1:] {
			if err = mapping(doc); err != nil {
				break
			}
		}
	}
	if err != nil {
		return Index{}, fmt.Errorf("error parsing addons or manifest %s: %w", redacted(location), err)
	}
	if len(docs) == 0 {
		return Index{}, nil
	}
	return wrap(data, location, channel), nil
}

// documents splits a file at lines of three dashes, and omits documents of only blanks and comments.
func documents(data []byte) ([][]byte, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	var docs [][]byte
	var doc []byte
	keep := func() {
		if holds(doc) {
			docs = append(docs, doc)
		}
		doc = nil
	}
	for line := range bytes.Lines(data) {
		if bytes.Equal(bytes.TrimRight(line, " \t\n"), []byte("---")) {
			keep()
			continue
		}
		doc = append(doc, line...)
	}
	keep()
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, errors.New("it contains a NUL byte, so it is not text")
	}
	return docs, nil
}

func holds(doc []byte) bool {
	for line := range bytes.Lines(doc) {
		if text := bytes.TrimSpace(line); len(text) > 0 && text[0] != '#' {
			return true
		}
	}
	return false
}

// mapping checks that a document of a manifest is one.
func mapping(doc []byte) error {
	var content map[string]yaml.Node
	return yaml.Unmarshal(doc, &content)
}

// maxIndex bounds an index, in bytes: one of 100,000 add-ons is smaller, and takes half a GiB to read.
const maxIndex = 8 << 20

var kindLine = regexp.MustCompile(`(?mi)^kind:\s*["']?` + indexKind + `\b`)

// parseIndex returns nil for a document that is not an index. An index is read as kOps reads it: its keys in any case.
func parseIndex(doc []byte) (*Index, error) {
	if len(doc) > maxIndex && kindLine.Match(doc) {
		return nil, fmt.Errorf("the index has %d MiB, more than the limit of %d", len(doc)>>20, maxIndex>>20)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(doc, &root); err != nil {
		return nil, err
	}
	spell(&root, reflect.TypeFor[file]())
	var head struct {
		APIVersion yaml.Node `yaml:"apiVersion"`
		Kind       yaml.Node `yaml:"kind"`
	}
	if err := root.Decode(&head); err != nil {
		return nil, err
	}
	if head.Kind.Value != indexKind || head.APIVersion.Value != "" {
		var content map[string]yaml.Node
		return nil, root.Decode(&content)
	}
	var f file
	if err := root.Decode(&f); err != nil {
		return nil, err
	}
	index := &Index{Name: f.Metadata.Name}
	for _, entry := range f.Spec.Addons {
		if entry != nil {
			index.Entries = append(index.Entries, *entry)
		}
	}
	return index, nil
}

// complete checks the entries and fills in the values that they take from their index. One invalid entry invalidates the file,
// because it is unknown which other entries it should have overridden.
func (x *Index) complete(location *url.URL, channel string) (Index, error) {
	for i := range x.Entries {
		e := &x.Entries[i]
		if e.Name == "" {
			e.Name = x.Name
		}
		if e.Namespace == "" {
			e.Namespace = DefaultNamespace
		}
		if err := e.check(); err != nil {
			return Index{}, err
		}
		at, err := resolve(location, e.Manifest)
		if err != nil {
			return Index{}, fmt.Errorf("addon %q: %w", e.Name, err)
		}
		e.Channel, e.Location = shown(channel), at.String()
	}
	return *x, nil
}

func (e *Entry) check() error {
	if problems := validation.IsQualifiedName(recordPrefix + e.Name); len(problems) > 0 {
		return fmt.Errorf("addon %q: the name cannot be part of an annotation: %s", e.Name, problems[0])
	}
	if problems := validation.IsDNS1123Label(e.Namespace); len(problems) > 0 {
		return fmt.Errorf("addon %q: namespace %q: %s", e.Name, e.Namespace, problems[0])
	}
	if e.Prune != nil {
		for _, kind := range e.Prune.Kinds {
			if err := kind.check(); err != nil {
				return fmt.Errorf("addon %q: %w", e.Name, err)
			}
		}
	}
	if e.Version != nil {
		if _, err := parseVersion(*e.Version); err != nil {
			return fmt.Errorf("addon %q has unparseable version %q: %w", e.Name, *e.Version, err)
		}
	}
	if e.Manifest == "" {
		return fmt.Errorf("addon %q: %w", e.Name, field.Required(field.NewPath("spec", "manifest"), "where the objects of the add-on are"))
	}
	return nil
}

// check refuses names that would change a request: they are part of URLs.
func (k PruneKind) check() error {
	for _, namespace := range k.Namespaces {
		if problems := validation.IsDNS1123Label(namespace); namespace != "" && len(problems) > 0 {
			return fmt.Errorf("prune kind %q: namespace %q: %s", k.Kind, namespace, problems[0])
		}
	}
	if problems := validation.IsDNS1123Subdomain(k.Group); k.Group != "" && len(problems) > 0 {
		return fmt.Errorf("prune kind %q: group %q: %s", k.Kind, k.Group, problems[0])
	}
	if _, err := labels.Parse(k.LabelSelector); err != nil {
		return fmt.Errorf("prune kind %q: labelSelector %q: %w", k.Kind, k.LabelSelector, err)
	}
	if _, err := fields.ParseSelector(k.FieldSelector); err != nil {
		return fmt.Errorf("prune kind %q: fieldSelector %q: %w", k.Kind, k.FieldSelector, err)
	}
	return nil
}

// reachable refuses what a remote index must not make this machine do: read a local file, or show its credentials for buckets
// to a server that the index chose.
func reachable(index, manifest, ref *url.URL) error {
	switch {
	case isLocal(index):
		return nil
	case isLocal(manifest):
		return fmt.Errorf("manifest %q is a file of this machine, but the index is remote: put the manifest beside it", manifest.Path)
	case manifest.Scheme == "s3" && ref.RawQuery != "":
		return fmt.Errorf("manifest %q: a remote index cannot configure access to a bucket: leave out the query, or give it with the channel", redacted(manifest))
	}
	return nil
}

// resolve finds a manifest from its index (K-7). The query settings of an s3:// index also apply to its manifests.
func resolve(base *url.URL, ref string) (*url.URL, error) {
	u, err := url.Parse(ref)
	if err != nil {
		return nil, fmt.Errorf("manifest %q is not a location: %w", shown(ref), withoutURL(err))
	}
	at := base.ResolveReference(u)
	if err := reachable(base, at, u); err != nil {
		return nil, err
	}
	if u.Scheme == "" && u.RawQuery == "" && at.Scheme == "s3" {
		at.RawQuery = base.RawQuery
	}
	return at, nil
}

// wrap makes an index of one entry out of a manifest.
func wrap(data []byte, location *url.URL, channel string) Index {
	name := "manifest-" + sha256hex.Of(location.String())[:12]
	return Index{Name: name, Entries: []Entry{{
		Name: name, Namespace: DefaultNamespace, Manifest: location.String(), ManifestHash: ManifestHash(data),
		Channel: shown(channel), Location: location.String(),
	}}}
}

// ManifestHash is the hash of a manifest as indexes declare it: sha256 in hex, of the text without surrounding blanks (K-9).
func ManifestHash(manifest []byte) string {
	return sha256hex.Of(bytes.TrimSpace(manifest))
}

// CheckBootstrap refuses entries that an index written for one cluster by its installer must not have (K-10).
func (x Index) CheckBootstrap() error {
	var errs []error
	for _, e := range x.Entries {
		if e.KubernetesVersion != "" {
			errs = append(errs, fmt.Errorf("bootstrap addon %q has a KubernetesVersion", e.Name))
		}
	}
	return errors.Join(errs...)
}

// Marshal writes the index as a file that Parse reads.
func (x Index) Marshal() ([]byte, error) {
	f := file{Kind: indexKind}
	f.Metadata.Name = x.Name
	f.Spec.Addons = []*Entry{}
	for _, e := range x.Entries {
		f.Spec.Addons = append(f.Spec.Addons, &e)
	}
	var out strings.Builder
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(f); err != nil {
		return nil, fmt.Errorf("write index %s: %w", x.Name, err)
	}
	return []byte(out.String()), enc.Close()
}
