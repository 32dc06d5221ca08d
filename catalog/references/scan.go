package references

import (
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/catalog/references/object"
	"github.com/sealift/sealift/internal/strictyaml"
)

// source names the origin of scanned YAML.
type source struct {
	name     string // file below work
	rendered bool   // lines are those of rendered output, which mean nothing to the user
	nested   bool   // text inside another document
}

// scanFiles scans the YAML files that no kustomization includes.
func (c *checker) scanFiles() {
	for _, name := range c.files {
		if _, filled := c.origin[name]; filled || !isYAML(name) || c.module && isTemplate(name) || c.consumed[name] || c.consumedAs(name) {
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

// isTemplate reports whether a file of a module is rendered, or describes values.
func isTemplate(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return first == catalog.TemplatesDir || first == "charts" || first == "openapi"
}

// consumedAs reports whether a template was rendered under the name of its output.
func (c *checker) consumedAs(template string) bool {
	for filled, from := range c.origin {
		if from == template && c.consumed[filled] {
			return true
		}
	}
	return false
}

// scan looks for images in a YAML stream. It ignores documents that are not Kubernetes objects.
func (c *checker) scan(data []byte, from source) {
	objects := object.Scan{Nested: from.nested, Each: func(node *yaml.Node) {
		c.note(node)
		c.kubeadm(node, from)
	}}
	err := strictyaml.Documents(data, func(node *yaml.Node) {
		for _, image := range objects.Images(node) {
			pos := c.position(from.name, image.Line, image.Column)
			if from.rendered {
				pos.Line, pos.Col = 0, 0
			}
			c.uses = append(c.uses, use{image: image.Ref, pos: pos, where: image.Where, certain: image.Certain})
		}
	})
	if err != nil && !from.nested {
		c.list.Warnf(c.position(from.name, 0, 0), "", "is not YAML before its hook runs, and was not checked: %v", err)
	}
}

// kubeadm records the images that kubeadm pulls for a cluster configuration, which no YAML names. Kubernetes' own images
// have its version. The others accept any tag here; `kubeadm config images list` prints the right one. A configuration
// without a Kubernetes version is a patch, which pulls nothing.
func (c *checker) kubeadm(node *yaml.Node, from source) {
	if !strings.HasPrefix(object.Text(node, "apiVersion"), "kubeadm.k8s.io/") || object.Text(node, "kind") != "ClusterConfiguration" || strictyaml.Child(node, "kubernetesVersion") == nil {
		return
	}
	registry := object.Text(node, "imageRepository")
	if registry == "" {
		registry = "registry.k8s.io"
	}
	version := object.Text(node, "kubernetesVersion")
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
			c.list.Errorf(pos, "'kubeadm config images list' prints it", "kubeadm's ClusterConfiguration: no image %s/%s is in the Manifest", registry, name)
		}
	}
}
