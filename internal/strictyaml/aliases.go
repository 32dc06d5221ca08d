package strictyaml

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"
)

// Limits of what the aliases of a document add: a short document could expand to a huge one.
const (
	MaxCopies     = 50_000  // values
	MaxCopiedText = 4 << 20 // bytes of their text
)

// AliasError is an alias or a merge key that cannot be expanded.
type AliasError struct {
	At   *yaml.Node // its position
	Text string
	Help string
}

func (e *AliasError) Error() string {
	return fmt.Sprintf("line %d: %s (%s)", e.At.Line, e.Text, e.Help)
}

// Expand replaces the aliases in a document by copies of the values that they name, and merge keys (<<) by the keys that they add. A mapping's
// own keys take precedence over merged ones, and earlier merged ones over later ones. The error is an *AliasError: the copies exceed
// MaxCopies or MaxCopiedText, a value contains itself, or a merge key has another value than a mapping or a list of mappings.
func Expand(n *yaml.Node) error {
	_, err := (&expander{open: map[*yaml.Node]bool{}}).expand(n)
	return err
}

// CheckAliases returns the error of Expand for a document that another reader of YAML will expand. That reader reports everything else,
// such as a document that is not YAML.
func CheckAliases(document []byte) error {
	if !bytes.ContainsRune(document, '&') || !bytes.ContainsRune(document, '*') {
		return nil
	}
	var n yaml.Node
	if yaml.Unmarshal(document, &n) != nil {
		return nil
	}
	return Expand(&n)
}

type expander struct {
	copies, text int
	open         map[*yaml.Node]bool // values with an anchor that are not read to their end
}

// expand returns n without aliases: n itself after changing it, or a copy of what n names.
func (e *expander) expand(n *yaml.Node) (*yaml.Node, error) {
	if n.Kind == yaml.AliasNode {
		if e.open[n.Alias] {
			return nil, &AliasError{n, fmt.Sprintf("the value of anchor %q contains itself", n.Value), "write the value out"}
		}
		return e.copy(n, n.Alias)
	}
	if n.Anchor != "" {
		e.open[n] = true
		defer delete(e.open, n)
		n.Anchor = ""
	}
	var keys, merged []*yaml.Node
	for at, child := range n.Content {
		child, err := e.expand(child)
		if err != nil {
			return nil, err
		}
		n.Content[at] = child
		if n.Kind == yaml.MappingNode && at%2 == 1 {
			if key := n.Content[at-1]; key.ShortTag() == "!!merge" {
				merged = append(merged, child)
			} else {
				keys = append(keys, key, child)
			}
		}
	}
	if len(merged) == 0 {
		return n, nil
	}
	n.Content = keys
	return n, merge(n, merged)
}

// merge adds the keys of other mappings that n does not have.
func merge(n *yaml.Node, from []*yaml.Node) error {
	has := map[string]bool{}
	for at := 0; at < len(n.Content); at += 2 {
		has[n.Content[at].Value] = true
	}
	for _, value := range from {
		mappings := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			mappings = value.Content
		}
		for _, one := range mappings {
			if one.Kind != yaml.MappingNode {
				return &AliasError{one, "<< must be a mapping or a list of mappings", "name an anchor, as in <<: *defaults"}
			}
			for at := 0; at+1 < len(one.Content); at += 2 {
				if key := one.Content[at]; !has[key.Value] {
					has[key.Value] = true
					n.Content = append(n.Content, key, one.Content[at+1])
				}
			}
		}
	}
	return nil
}

// copy copies the value that an alias names. Values before the alias have no aliases any more.
func (e *expander) copy(alias, n *yaml.Node) (*yaml.Node, error) {
	e.copies++
	e.text += len(n.Value)
	if e.copies > MaxCopies || e.text > MaxCopiedText {
		return nil, &AliasError{alias, fmt.Sprintf("the aliases up to here add more than %d values or %d MiB", MaxCopies, MaxCopiedText>>20), "repeat less"}
	}
	out := *n
	out.Content = make([]*yaml.Node, len(n.Content))
	for at, child := range n.Content {
		var err error
		if out.Content[at], err = e.copy(alias, child); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

// ToJSON converts a document as yaml.YAMLToJSON of sigs.k8s.io/yaml does, if its aliases are within the limits of Expand.
func ToJSON(document []byte) ([]byte, error) {
	if err := CheckAliases(document); err != nil {
		return nil, err
	}
	return kyaml.YAMLToJSON(document)
}
