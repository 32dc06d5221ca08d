// Package object finds the images that an object of Kubernetes refers to: those of its containers, and fields, variables and
// arguments that look like one.
package object

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/strictyaml"
)

// Rule is the rule that found a reference.
type Rule string

// The rules. A pod pulls the images of its containers and volumes; the others only look like images.
const (
	ByContainer Rule = "container"
	ByVolume    Rule = "volume"
	ByVariable  Rule = "variable" // of a container
	ByArgument  Rule = "argument" // of a container
	ByField     Rule = "field"    // of any object
	ByText      Rule = "text"     // an object in a text, such as in a ConfigMap, by whichever rule
)

// Image is one reference to an image.
type Image struct {
	Ref          string
	Rule         Rule
	Where        string // such as: Deployment kube-system/metrics-server, container metrics-server
	Line, Column int    // in the document; 0 inside of a text
	// Certain means that a node will pull it. Otherwise it is a field that looks like it.
	Certain bool
}

// Scan configures how objects are scanned.
type Scan struct {
	Nested bool                  // they are in the text of something else: nothing is certain, and lines mean nothing
	Each   func(node *yaml.Node) // is called with each object; may be nil
}

// Images returns the images of an object, or of the objects of a list. For anything else it returns none. The node comes
// from Documents.
func (o Scan) Images(node *yaml.Node) []Image {
	apiVersion, kind := Text(node, "apiVersion"), Text(node, "kind")
	if apiVersion == "" || kind == "" {
		return nil
	}
	if items := strictyaml.Child(node, "items"); strings.HasSuffix(kind, "List") && items != nil && items.Kind == yaml.SequenceNode {
		var all []Image
		for _, item := range items.Content {
			all = append(all, o.Images(item)...)
		}
		return all
	}
	if o.Each != nil {
		o.Each(node)
	}
	if kind == "CustomResourceDefinition" {
		return nil // its schema speaks of images and names none
	}
	s := &scan{Scan: o, where: Name(node), pods: runsPods(apiVersion, kind)}
	s.walk(node, "")
	return s.images
}

// Name returns the kind, namespace and name of an object.
func Name(node *yaml.Node) string {
	name := ""
	if meta := strictyaml.Child(node, "metadata"); meta != nil {
		name = Text(meta, "name")
		if namespace := Text(meta, "namespace"); namespace != "" {
			name = namespace + "/" + name
		}
	}
	return strings.TrimSpace(Text(node, "kind") + " " + name)
}

// runsPods reports whether an object is a built-in Kubernetes kind with pods.
func runsPods(apiVersion, kind string) bool {
	kinds := map[string][]string{
		"v1": {"Pod", "PodTemplate", "ReplicationController"}, "apps/v1": {"Deployment", "DaemonSet", "StatefulSet", "ReplicaSet"},
		"batch/v1": {"Job", "CronJob"}, "batch/v1beta1": {"CronJob"},
	}
	return slices.Contains(kinds[apiVersion], kind)
}

// scan walks through one object.
type scan struct {
	Scan
	images []Image
	where  string
	pods   bool // its containers run
}

func (s *scan) add(image, where string, at *yaml.Node, rule Rule) {
	found := Image{Ref: image, Rule: rule, Where: s.where + where, Line: at.Line, Column: at.Column}
	found.Certain = s.pods && (rule == ByContainer || rule == ByVolume)
	if s.Nested {
		found.Rule, found.Certain, found.Line, found.Column = ByText, false, 0, 0
	}
	s.images = append(s.images, found)
}

// walk visits the values below a key.
func (s *scan) walk(node *yaml.Node, key string) {
	switch node.Kind {
	case yaml.MappingNode:
		s.mapping(node, key)
	case yaml.SequenceNode:
		for _, item := range node.Content {
			if slices.Contains([]string{"containers", "initContainers", "ephemeralContainers"}, key) && s.container(item) {
				continue
			}
			s.walk(item, key)
		}
	case yaml.ScalarNode:
		s.scalar(node, key)
	case yaml.DocumentNode, yaml.AliasNode: // Documents expands aliases
	}
}

// container records the image of a container, and the images in its variables and arguments.
func (s *scan) container(node *yaml.Node) bool {
	image := strictyaml.Child(node, "image")
	if image == nil || image.Kind != yaml.ScalarNode {
		return false
	}
	where := ", container " + Text(node, "name")
	s.add(image.Value, where, image, ByContainer)
	for i := 0; i+1 < len(node.Content); i += 2 {
		switch key, value := node.Content[i].Value, node.Content[i+1]; key {
		case "env":
			for _, variable := range value.Content {
				if v := strictyaml.Child(variable, "value"); v != nil && strings.Contains(Text(variable, "name"), "IMAGE") && LooksLikeImage(v.Value) {
					s.add(v.Value, where+", variable "+Text(variable, "name"), v, ByVariable)
				}
			}
		case "args", "command":
			s.arguments(value.Content, where)
		}
	}
	return true
}

// arguments records the values of flags that are named like an image: --image=VALUE, or --image and VALUE.
func (s *scan) arguments(list []*yaml.Node, where string) {
	for i, argument := range list {
		flag, value, joined := strings.Cut(argument.Value, "=")
		if !joined && strings.HasPrefix(flag, "-") && i+1 < len(list) {
			argument, value = list[i+1], list[i+1].Value
		}
		if strings.Contains(flag, "image") && LooksLikeImage(value) {
			s.add(value, where+", argument "+flag, argument, ByArgument)
		}
	}
}

func (s *scan) mapping(node *yaml.Node, key string) {
	if repo, tag := Text(node, "repository"), Text(node, "tag"); repo != "" && tag != "" && strings.HasSuffix(strings.ToLower(key), "image") {
		if registry := Text(node, "registry"); registry != "" {
			repo = registry + "/" + repo
		}
		s.add(repo+":"+tag, ", field "+key, node, ByField)
		return
	}
	if ref := strictyaml.Child(node, "reference"); key == "image" && ref != nil && ref.Kind == yaml.ScalarNode { // a volume made of an image
		s.add(ref.Value, ", volume", ref, ByVolume)
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		s.walk(node.Content[i+1], node.Content[i].Value)
	}
}

// scalar records a field that is named like an image. It also scans text that contains YAML, as in ConfigMaps.
func (s *scan) scalar(node *yaml.Node, key string) {
	switch {
	case (key == "image" || strings.HasSuffix(key, "Image")) && LooksLikeImage(node.Value):
		s.add(node.Value, ", field "+key, node, ByField)
	case strings.Contains(node.Value, "image") && strings.Contains(node.Value, "\n") && !s.Nested:
		s.text(node.Value)
	}
}

// LooksLikeImage reports whether a value is an image reference and not just a word: it has a tag, a digest or a slash.
func LooksLikeImage(value string) bool {
	if !strings.ContainsAny(value, ":/@") || strings.ContainsAny(value, " \t\n{") || strings.Contains(value, "://") {
		return false
	}
	_, err := reference.ParseNormalizedNamed(value)
	return err == nil
}

// Text returns a scalar of a mapping as written.
func Text(node *yaml.Node, key string) string {
	if value := strictyaml.Child(node, key); value != nil && value.Kind == yaml.ScalarNode {
		return value.Value
	}
	return ""
}

// text scans the objects in the text of a field. Text that is not YAML has none.
func (s *scan) text(text string) {
	inner := Scan{Nested: true, Each: s.Each}
	_ = Documents([]byte(text), func(node *yaml.Node) { s.images = append(s.images, inner.Images(node)...) })
}

// Documents calls f for each document of a YAML stream. It stops at the first that is not YAML.
func Documents(data []byte, f func(*yaml.Node)) error {
	for documents := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var document yaml.Node
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = strictyaml.Expand(&document)
		}
		if err == nil { // finds duplicate keys
			var whole any
			err = document.Decode(&whole)
		}
		if err != nil {
			return err
		}
		if document.Kind == yaml.DocumentNode && len(document.Content) == 1 {
			f(document.Content[0])
		}
	}
}
