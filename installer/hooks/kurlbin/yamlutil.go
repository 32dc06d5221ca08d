package kurlbin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/strictyaml"
)

// yamlutil adds (-a), removes (-r) or prints (-p) the value at a path of a YAML file (-fp), which is changed, or of a text (-yc),
// which is printed. The words of a path are parted by '_'; "name[]" appends to a list. In a file of several documents, each is changed. -j
// prints the field at a path (-jf) as JSON; the words of that path are parted by dots.
func yamlutil(_ context.Context, args []string, s Streams) error {
	set := flags(s)
	add, remove, show, asJSON := set.Bool("a", false, ""), set.Bool("r", false, ""), set.Bool("p", false, ""), set.Bool("j", false, "")
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
	case *asJSON:
		return printJSON(s, text, strings.Split(*field, "."))
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
	documents, err := parsed(text)
	if err != nil {
		return err
	}
	if len(documents) == 0 {
		documents = []*yaml.Node{{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode, Tag: "!!map"}}}}
	}
	var out [][]byte
	for _, doc := range documents {
		if err := change(doc.Content[0]); err != nil {
			return err
		}
		one, err := strictyaml.Marshal(doc)
		if err != nil {
			return err
		}
		out = append(out, one)
	}
	whole := bytes.Join(out, []byte("---\n"))
	if file != "" {
		return files.Replace(file, whole)
	}
	_, err = s.Out.Write(whole)
	return err
}

// parsed returns the documents of a text that are not empty.
func parsed(text []byte) (documents []*yaml.Node, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		doc := new(yaml.Node)
		switch err := decoder.Decode(doc); {
		case errors.Is(err, io.EOF):
			return documents, nil
		case err != nil:
			return nil, err
		case doc.Content[0].ShortTag() != "!!null":
			documents = append(documents, doc)
		}
	}
}

// child is the value under a key of a mapping, or at a number of a list; nil if there is none.
func child(n *yaml.Node, word string) *yaml.Node {
	if n.Kind != yaml.SequenceNode {
		return strictyaml.Child(n, word)
	}
	if at, err := strconv.Atoi(word); err == nil && at >= 0 && at < len(n.Content) {
		return n.Content[at]
	}
	return nil
}

var errNoMapping = errors.New("the path leads through something that is not a mapping")

// enter is child, but creates a missing one.
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

// valueAt returns the value at a path of the first document.
func valueAt(text []byte, words []string) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	n := &yaml.Node{}
	if doc.Kind == yaml.DocumentNode {
		n = doc.Content[0]
	}
	for _, word := range words {
		if n = child(n, word); n == nil {
			return nil, fmt.Errorf("there is nothing at %s", strings.Join(words, "."))
		}
	}
	return n, nil
}

func printValue(s Streams, text []byte, words []string) error {
	n, err := valueAt(text, words)
	if err != nil {
		return err
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

func printJSON(s Streams, text []byte, words []string) error {
	n, err := valueAt(text, words)
	if err != nil {
		return err
	}
	var value any
	if err := n.Decode(&value); err != nil {
		return err
	}
	return json.NewEncoder(s.Out).Encode(value)
}
