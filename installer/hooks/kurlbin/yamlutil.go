package kurlbin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/strictyaml"
)

// yamlutil adds (-a), removes (-r) or prints (-p) the value at a path of a YAML file (-fp), which is changed, or of a text (-yc),
// which is printed. The words of a path are parted by '_'; "name[]" appends to a list. -j prints a field of a JSON text.
func yamlutil(_ context.Context, args []string, s Streams) error {
	set := flags(s)
	add, remove, show, fromJSON := set.Bool("a", false, ""), set.Bool("r", false, ""), set.Bool("p", false, ""), set.Bool("j", false, "")
	file, content, path := set.String("fp", "", ""), set.String("yc", "", ""), set.String("yp", "", "")
	value, field := set.String("v", "", ""), set.String("jf", "", "")
	if err := parse(set, args); err != nil {
		return err
	}
	text := []byte(*content)
	if *file != "" {
		var err error
		if text, err = readFile(*file); err != nil {
			return err
		}
	}
	words := strings.Split(*path, "_")
	switch {
	case *fromJSON:
		return printJSONField(s, text, *field)
	case *show:
		return printValue(s, text, words)
	case *add:
		return changed(s, *file, text, func(root *yaml.Node) error { return put(root, words, *value) })
	case *remove:
		return changed(s, *file, text, func(root *yaml.Node) error { return drop(root, words) })
	}
	return fmt.Errorf("%w: give one of -a, -r, -p and -j", ErrUsage)
}

func changed(s Streams, file string, text []byte, change func(root *yaml.Node) error) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return err
	}
	if doc.Kind == 0 {
		doc = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode, Tag: "!!map"}}}
	}
	if err := change(doc.Content[0]); err != nil {
		return err
	}
	out, err := strictyaml.Marshal(&doc)
	if err != nil {
		return err
	}
	if file != "" {
		return files.Replace(file, out)
	}
	_, err = s.Out.Write(out)
	return err
}

// child is the value under a key of a mapping, or at a number of a list; nil if there is none.
func child(n *yaml.Node, word string) *yaml.Node {
	switch n.Kind {
	case yaml.MappingNode:
		for at := 0; at+1 < len(n.Content); at += 2 {
			if n.Content[at].Value == word {
				return n.Content[at+1]
			}
		}
	case yaml.SequenceNode:
		if at, err := strconv.Atoi(word); err == nil && at >= 0 && at < len(n.Content) {
			return n.Content[at]
		}
	}
	return nil
}

var errNoMapping = errors.New("the path leads through something that is not a mapping")

// enter is child, which is made when it is not there.
func enter(n *yaml.Node, word string, kind yaml.Kind) (*yaml.Node, error) {
	if c := child(n, word); c != nil {
		if c.Kind == yaml.ScalarNode && c.ShortTag() == "!!null" {
			*c = yaml.Node{Kind: kind}
		}
		return c, nil
	}
	if n.Kind != yaml.MappingNode {
		return nil, errNoMapping
	}
	key, made := &yaml.Node{}, &yaml.Node{Kind: kind}
	key.SetString(word)
	n.Content = append(n.Content, key, made)
	return made, nil
}

func put(n *yaml.Node, words []string, value string) (err error) {
	var parsed yaml.Node
	if err := yaml.Unmarshal([]byte(value), &parsed); err != nil || parsed.Kind == 0 {
		parsed = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{}}}
		parsed.Content[0].SetString(value)
	}
	for i, word := range words {
		name, appends := strings.CutSuffix(word, "[]")
		last := i == len(words)-1
		switch {
		case appends:
			if n, err = enter(n, name, yaml.SequenceNode); err != nil {
				return err
			}
			if n.Kind != yaml.SequenceNode {
				return fmt.Errorf("%s is not a list", name)
			}
			item := &yaml.Node{Kind: yaml.MappingNode}
			if last {
				item = parsed.Content[0]
			}
			n.Content = append(n.Content, item)
			n = item
		case last:
			if n, err = enter(n, name, yaml.MappingNode); err != nil {
				return err
			}
			*n = *parsed.Content[0]
		default:
			if n, err = enter(n, name, yaml.MappingNode); err != nil {
				return err
			}
		}
	}
	return nil
}

// drop removes the value at a path, if any.
func drop(n *yaml.Node, words []string) error {
	for _, word := range words[:len(words)-1] {
		if n = child(n, word); n == nil {
			return nil
		}
	}
	word := words[len(words)-1]
	switch n.Kind {
	case yaml.MappingNode:
		for at := 0; at+1 < len(n.Content); at += 2 {
			if n.Content[at].Value == word {
				n.Content = append(n.Content[:at], n.Content[at+2:]...)
				return nil
			}
		}
	case yaml.SequenceNode:
		if at, err := strconv.Atoi(word); err == nil && at >= 0 && at < len(n.Content) {
			n.Content = append(n.Content[:at], n.Content[at+1:]...)
		}
	}
	return nil
}

func printValue(s Streams, text []byte, words []string) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return err
	}
	n := &yaml.Node{}
	if doc.Kind == yaml.DocumentNode {
		n = doc.Content[0]
	}
	for _, word := range words {
		if n = child(n, word); n == nil {
			return fmt.Errorf("there is nothing at %s", strings.Join(words, "_"))
		}
	}
	if n.Kind == yaml.ScalarNode {
		_, err := fmt.Fprintln(s.Out, n.Value)
		return err
	}
	data, err := strictyaml.Marshal(n)
	if err != nil {
		return err
	}
	_, err = s.Out.Write(data)
	return err
}

func printJSONField(s Streams, text []byte, field string) error {
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		return err
	}
	value, there := object[field]
	if !there {
		return fmt.Errorf("there is no field %s", field)
	}
	if plain, ok := value.(string); ok {
		_, err := fmt.Fprintln(s.Out, plain)
		return err
	}
	return json.NewEncoder(s.Out).Encode(value)
}
