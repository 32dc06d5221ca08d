package spec

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/internal/strictyaml"
)

// Canonical prints the Installer as YAML in one fixed form: keys sorted with version first, two spaces of indentation, and
// quotes around strings that YAML would read as another type. Parse reads it back as the same Installer, except that the
// add-ons are sorted.
func (i *Installer) Canonical() ([]byte, error) {
	root := mapping("apiVersion", i.APIVersion, "kind", Kind)
	if i.Name != "" {
		add(root, "metadata", mapping("name", i.Name))
	}
	spec, err := i.specNode()
	if err != nil {
		return nil, err
	}
	add(root, "spec", spec)
	return encode(root)
}

// IDLength is the number of digest digits in the ID of an unnamed Installer. Finding two Installers with the same ID would
// take about 2^64 attempts.
const IDLength = 32

// ID is the Installer's short name: the first IDLength digits of its Digest.
func (i *Installer) ID() (string, error) {
	digest, err := i.Digest()
	if err != nil {
		return "", err
	}
	return digest[:IDLength], nil
}

// Digest is the SHA-256 of the canonical spec, 64 hexadecimal digits. The API version, the metadata and the order of keys
// are not hashed, so the same cluster has the same digest.
func (i *Installer) Digest() (string, error) {
	spec, err := i.specNode()
	if err != nil {
		return "", err
	}
	text, err := encode(spec)
	if err != nil {
		return "", err
	}
	return sha256hex.Of(text), nil
}

func (i *Installer) specNode() (*yaml.Node, error) {
	type entry struct {
		key  string
		body *yaml.Node
	}
	var entries []entry
	for _, a := range i.AddOns {
		body := mapping("version", a.Version)
		if err := a.Options.addTo(body); err != nil {
			return nil, fmt.Errorf("print %s: %w", a.Key, err)
		}
		entries = append(entries, entry{a.Key, body})
	}
	for _, s := range i.Sections {
		body := mapping()
		if err := s.Options.addTo(body); err != nil {
			return nil, fmt.Errorf("print %s: %w", s.Key, err)
		}
		entries = append(entries, entry{s.Key, body})
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	spec := mapping()
	for _, e := range entries {
		add(spec, e.key, e.body)
	}
	return spec, nil
}

func (o Options) addTo(body *yaml.Node) error {
	for _, key := range slices.Sorted(maps.Keys(o)) {
		n, err := strictyaml.Node(o[key])
		if err != nil {
			return fmt.Errorf("option %s: %w", key, err)
		}
		add(body, key, n)
	}
	return nil
}

// mapping makes a mapping node from pairs of strings: key, value, key, value.
func mapping(pairs ...string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i+1 < len(pairs); i += 2 {
		add(n, pairs[i], quoted(pairs[i+1]))
	}
	return n
}

func add(n *yaml.Node, key string, value *yaml.Node) {
	n.Content = append(n.Content, quoted(key), value)
}

// quoted makes a node that every YAML reader reads as a string. YAML 1.1 readers take an unquoted on for a boolean and 1:30
// for a number.
func quoted(s string) *yaml.Node {
	n, err := strictyaml.Node(s)
	if err != nil { // not of a string
		n = new(yaml.Node)
		n.SetString(s)
	}
	return n
}

func encode(n *yaml.Node) ([]byte, error) {
	text, err := strictyaml.Marshal(n)
	if err != nil {
		return nil, fmt.Errorf("print installer: %w", err)
	}
	return text, nil
}
