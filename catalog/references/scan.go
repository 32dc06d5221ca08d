package references

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// source is where scanned YAML comes from.
type source struct {
	name     string // file below work
	rendered bool   // lines are those of what was rendered, and say nothing
	nested   bool   // text inside of another document
}

// scanFiles scans the YAML files that no kustomization renders.
func (c *checker) scanFiles() {
	for _, name := range c.files {
		if _, filled := c.origin[name]; filled || !isYAML(name) || c.consumed[name] || c.consumedAs(name) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(c.work, filepath.FromSlash(name)))
		if err != nil {
			c.list.Warnf(c.position(name, 0, 0), "", "cannot be read: %v", err)
			continue
		}
		c.scan(data, source{name: name})
	}
}

// consumedAs says whether a template was rendered under the name that it is filled in by.
func (c *checker) consumedAs(template string) bool {
	for filled, from := range c.origin {
		if from == template && c.consumed[filled] {
			return true
		}
	}
	return false
}

// scan looks for images in the documents of a YAML stream. What is not a Kubernetes object is left alone.
func (c *checker) scan(data []byte, from source) {
	for documents := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var document yaml.Node
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil { // finds aliases that go round or explode, which the walk would follow
			var whole any
			err = document.Decode(&whole)
		}
		if err != nil {
			if !from.nested {
				c.list.Warnf(c.position(from.name, 0, 0), "", "is not YAML before its hook runs, and was not checked: %v", err)
			}
			return
		}
		if document.Kind == yaml.DocumentNode && len(document.Content) == 1 {
			c.scanObject(document.Content[0], from)
		}
	}
}

func (c *checker) scanObject(node *yaml.Node, from source) {
	apiVersion, kind := text(node, "apiVersion"), text(node, "kind")
	if apiVersion == "" || kind == "" {
		return
	}
	if items := field(node, "items"); strings.HasSuffix(kind, "List") && items != nil && items.Kind == yaml.SequenceNode {
		for _, item := range items.Content {
			c.scanObject(item, from)
		}
		return
	}
	if kind == "CustomResourceDefinition" {
		return // its schema speaks of images and names none
	}
	c.kubeadm(apiVersion, kind, node, from)
	where := kind
	if meta := field(node, "metadata"); meta != nil {
		name := text(meta, "name")
		if namespace := text(meta, "namespace"); namespace != "" {
			name = namespace + "/" + name
		}
		where = strings.TrimSpace(kind + " " + name)
	}
	s := &objectScan{checker: c, from: from, where: where, pods: runsPods(apiVersion, kind)}
	s.walk(node, "")
}

// runsPods says whether an object is one of those of Kubernetes itself that have pods.
func runsPods(apiVersion, kind string) bool {
	kinds := map[string][]string{
		"v1": {"Pod", "PodTemplate", "ReplicationController"}, "apps/v1": {"Deployment", "DaemonSet", "StatefulSet", "ReplicaSet"},
		"batch/v1": {"Job", "CronJob"}, "batch/v1beta1": {"CronJob"},
	}
	return slices.Contains(kinds[apiVersion], kind)
}

// objectScan is the walk through one object.
type objectScan struct {
	*checker
	from  source
	where string
	pods  bool // its containers run
}

func (s *objectScan) add(image, where string, at *yaml.Node, certain bool) {
	pos := s.position(s.from.name, at.Line, at.Column)
	if s.from.rendered || s.from.nested {
		pos.Line, pos.Col = 0, 0
	}
	s.uses = append(s.uses, use{image: image, pos: pos, where: s.where + where, certain: certain})
}

// walk goes through the values below a key.
func (s *objectScan) walk(node *yaml.Node, key string) {
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
	case yaml.AliasNode:
		s.walk(node.Alias, key)
	case yaml.ScalarNode:
		s.scalar(node, key)
	case yaml.DocumentNode:
	}
}

// container takes the image of an item of a list of containers, and what its variables and arguments name.
func (s *objectScan) container(node *yaml.Node) bool {
	image := field(node, "image")
	if image == nil || image.Kind != yaml.ScalarNode {
		return false
	}
	where := ", container " + text(node, "name")
	s.add(image.Value, where, image, s.pods && !s.from.nested)
	for i := 0; i+1 < len(node.Content); i += 2 {
		switch key, value := node.Content[i].Value, node.Content[i+1]; key {
		case "env":
			for _, variable := range value.Content {
				if v := field(variable, "value"); v != nil && strings.Contains(text(variable, "name"), "IMAGE") && looksLikeImage(v.Value) {
					s.add(v.Value, where+", variable "+text(variable, "name"), v, false)
				}
			}
		case "args", "command":
			for _, argument := range value.Content {
				flag, v, ok := strings.Cut(argument.Value, "=")
				if ok && strings.Contains(flag, "image") && looksLikeImage(v) {
					s.add(v, where+", argument "+flag, argument, false)
				}
			}
		}
	}
	return true
}

func (s *objectScan) mapping(node *yaml.Node, key string) {
	if repo, tag := text(node, "repository"), text(node, "tag"); repo != "" && tag != "" && strings.HasSuffix(strings.ToLower(key), "image") {
		if registry := text(node, "registry"); registry != "" {
			repo = registry + "/" + repo
		}
		s.add(repo+":"+tag, ", field "+key, node, false)
		return
	}
	if ref := field(node, "reference"); key == "image" && ref != nil && ref.Kind == yaml.ScalarNode { // a volume made of an image
		s.add(ref.Value, ", volume", ref, s.pods && !s.from.nested)
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		s.walk(node.Content[i+1], node.Content[i].Value)
	}
}

// scalar takes a field that is named like an image, and looks into text that has YAML of its own, as ConfigMaps do.
func (s *objectScan) scalar(node *yaml.Node, key string) {
	switch {
	case (key == "image" || strings.HasSuffix(key, "Image")) && looksLikeImage(node.Value):
		s.add(node.Value, ", field "+key, node, false)
	case strings.Contains(node.Value, "image") && strings.Contains(node.Value, "\n") && !s.from.nested:
		nested := s.from
		nested.nested = true
		s.scan([]byte(node.Value), nested)
	}
}

// looksLikeImage says whether a value is a reference and not a word: it has a tag, a digest, or a slash.
func looksLikeImage(value string) bool {
	if !strings.ContainsAny(value, ":/@") || strings.ContainsAny(value, " \t\n{") || strings.Contains(value, "://") {
		return false
	}
	_, err := normalize(value)
	return err == nil
}

// field gives a value of a mapping, nil when it is not there.
func field(node *yaml.Node, key string) *yaml.Node {
	if node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}

// text gives a scalar of a mapping as it is written.
func text(node *yaml.Node, key string) string {
	if value := field(node, key); value != nil && value.Kind == yaml.ScalarNode {
		return value.Value
	}
	return ""
}

// kubeadm takes the images that kubeadm pulls for the cluster that a configuration describes. No YAML names them: those of
// Kubernetes have its version; for the others, `kubeadm config images list` knows the tag, and any is accepted here. A
// configuration without a version of Kubernetes is a patch of one, and pulls nothing.
func (c *checker) kubeadm(apiVersion, kind string, node *yaml.Node, from source) {
	if !strings.HasPrefix(apiVersion, "kubeadm.k8s.io/") || kind != "ClusterConfiguration" || field(node, "kubernetesVersion") == nil {
		return
	}
	registry := text(node, "imageRepository")
	if registry == "" {
		registry = "registry.k8s.io"
	}
	version := text(node, "kubernetesVersion")
	if version == "" || strings.Contains(version, variableToken) {
		version = "v" + c.version
	}
	pos := c.position(from.name, 0, 0)
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
		c.uses = append(c.uses, use{image: registry + "/" + name + ":" + version, pos: pos, where: "kubeadm's ClusterConfiguration", certain: true})
	}
	for _, name := range []string{"coredns/coredns", "pause", "etcd"} {
		found := false
		for i := range c.carried {
			if repository(c.carried[i].name) == registry+"/"+name {
				c.carried[i].used, found = true, true
			}
		}
		if !found {
			c.list.Errorf(pos, "'kubeadm config images list' says which", "kubeadm's ClusterConfiguration: no image %s/%s is in the Manifest", registry, name)
		}
	}
}
