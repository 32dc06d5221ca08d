package spec

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Canonical prints the Installer as YAML in one way only: keys sorted with version first, two blanks of indentation,
// strings quoted where YAML would read something else. Parse reads it back as the same Installer but for the order of
// its add-ons.
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

// IDLength is how many digits of its digest an Installer without a name is called by. Nobody can make two Installers with one
// id: that would take about 2^64 attempts.
const IDLength = 32

// ID is the Installer's short name: the first digits of its Digest, as many as IDLength says.
func (i *Installer) ID() (string, error) {
	digest, err := i.Digest()
	if err != nil {
		return "", err
	}
	return digest[:IDLength], nil
}

// Digest is the SHA-256 of the canonical spec, 64 hexadecimal digits. Neither the API version nor metadata nor the order of
// keys are part of it, so the same cluster has the same digest.
func (i *Installer) Digest() (string, error) {
	spec, err := i.specNode()
	if err != nil {
		return "", err
	}
	text, err := encode(spec)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
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
		var n yaml.Node
		if err := n.Encode(o[key]); err != nil {
			return fmt.Errorf("option %s: %w", key, err)
		}
		add(body, key, &n)
	}
	return nil
}

// mapping makes a node of pairs of strings.
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

// quoted makes a node that every YAML reader takes for a string, also old ones, to which on and 1:30 are something else.
func quoted(s string) *yaml.Node {
	var n yaml.Node
	if err := n.Encode(s); err != nil { // not of a string
		n.SetString(s)
	}
	return &n
}

func encode(n *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(n); err != nil {
		return nil, fmt.Errorf("print installer: %w", err)
	}
	if err := encoder.Close(); err != nil {
		return nil, fmt.Errorf("print installer: %w", err)
	}
	return out.Bytes(), nil
}
