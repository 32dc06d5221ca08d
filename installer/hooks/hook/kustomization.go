package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	kyaml "sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/strictyaml"
)

// kustomizationInsert puts an item first in a list of a kustomization, which is made when it is not there: file, key, item.
func kustomizationInsert(_ context.Context, args []string, _ io.Writer) error {
	if err := wants(args, 3, "insert into a kustomization"); err != nil {
		return err
	}
	return editYAML(args[0], func(root *yaml.Node) error {
		return prepend(root, args[1], scalar(args[2]))
	})
}

// kustomizationJSONPatch adds a JSON patch: file, patch, group, version, kind, name, namespace.
func kustomizationJSONPatch(_ context.Context, args []string, _ io.Writer) error {
	if err := wants(args, 6, "insert_patches_json_6902"); err != nil {
		return err
	}
	target := mapping()
	for i, key := range []string{"group", "version", "kind", "name", "namespace"} {
		if 2+i < len(args) && args[2+i] != "" {
			target.Content = append(target.Content, scalar(key), scalar(args[2+i]))
		}
	}
	return editYAML(args[0], func(root *yaml.Node) error {
		entry := mapping()
		entry.Content = append(entry.Content, scalar("target"), target, scalar("path"), scalar(args[1]))
		return prepend(root, "patchesJson6902", entry)
	})
}

func scalar(text string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(text)
	return n
}

func mapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"} }

// prepend puts an item first in the list under a key.
func prepend(root *yaml.Node, key string, item *yaml.Node) error {
	for at := 0; at+1 < len(root.Content); at += 2 {
		if root.Content[at].Value != key {
			continue
		}
		list := root.Content[at+1]
		if list.Kind == yaml.ScalarNode && list.Tag == "!!null" {
			*list = yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		}
		if list.Kind != yaml.SequenceNode {
			return fmt.Errorf("%s is not a list", key)
		}
		list.Style = 0
		list.Content = append([]*yaml.Node{item}, list.Content...)
		return nil
	}
	root.Content = append(root.Content, scalar(key), &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: []*yaml.Node{item}})
	return nil
}

// editYAML changes a file that is one mapping, or empty.
func editYAML(name string, edit func(root *yaml.Node) error) error {
	text, err := readText(name)
	if err != nil {
		return err
	}
	edited, err := editText([]byte(text), edit)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return files.Replace(name, edited)
}

func editText(text []byte, edit func(root *yaml.Node) error) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	root := mapping()
	switch {
	case doc.Kind == 0 || doc.Content[0].ShortTag() == "!!null":
		doc = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{root}}
	case doc.Content[0].Kind == yaml.MappingNode:
		root = doc.Content[0]
	default:
		return nil, errors.New("not a mapping of YAML")
	}
	root.Style = 0
	if err := edit(root); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	enc.CompactSeqIndent()
	strictyaml.Readable(&doc)
	if err := enc.Encode(&doc); err != nil {
		return nil, err
	}
	return out.Bytes(), enc.Close()
}

// kustomizationFix rewrites a kustomization for current kustomize: bases become resources, and patches of all kinds become
// patches.
func kustomizationFix(_ context.Context, args []string, _ io.Writer) error {
	if err := wants(args, 1, "kubernetes_kustomize_config_migrate"); err != nil {
		return err
	}
	text, err := readText(args[0])
	if err != nil {
		return err
	}
	fixed, err := fixKustomization([]byte(text))
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return files.Replace(args[0], fixed)
}

func fixKustomization(text []byte) ([]byte, error) {
	var k types.Kustomization
	if err := k.Unmarshal(text); err != nil {
		return nil, err
	}
	k.FixKustomization()
	files := filesys.MakeFsInMemory()               // the content of the files does not matter, only that an entry names one
	for _, patch := range k.PatchesStrategicMerge { //nolint:staticcheck // it is deprecated: that is why it is rewritten
		if !strings.Contains(string(patch), "\n") {
			if err := files.WriteFile(string(patch), nil); err != nil {
				return nil, err
			}
		}
	}
	if err := k.FixKustomizationPreMarshalling(files); err != nil {
		return nil, err
	}
	return kyaml.Marshal(k)
}
