package engine

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	release "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/internal/strictyaml"
)

// sorted puts the objects of a chart in the order in which they are applied. Hooks that no installation runs are skipped.
func sorted(loaded *chart.Chart, files map[string]string, namespace string) (objects, skipped []helm.Object, err error) {
	if err := knownHooks(files); err != nil {
		return nil, nil, err
	}
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, nil, err
	}
	n := namer{namespace: namespace, cluster: make(map[string]bool)}
	for _, crd := range loaded.CRDObjects() {
		objects = append(objects, n.objects(crd.Filename, string(crd.File.Data), nil)...)
	}
	var ordinary, before, after []helm.Object
	for _, m := range manifests {
		ordinary = append(ordinary, n.objects(m.Name, m.Content, nil)...)
	}
	slices.SortStableFunc(hooks, func(a, b *release.Hook) int { return a.Weight - b.Weight })
	for _, h := range hooks {
		found := n.objects(h.Path, h.Manifest, events(h))
		switch {
		case slices.Contains(h.Events, release.HookPreInstall):
			before = append(before, found...)
		case slices.Contains(h.Events, release.HookPostInstall):
			after = append(after, found...)
		default:
			skipped = append(skipped, found...)
		}
	}
	if o := n.ownNamespace(slices.Concat(ordinary, before)); o != nil {
		objects = append(objects, *o)
	}
	return slices.Concat(objects, before, ordinary, after), skipped, n.err
}

// namer reads objects and puts those without a namespace into that of the release.
type namer struct {
	namespace string
	cluster   map[string]bool // kinds, with their group, which the chart defines for the whole cluster
	err       error           // the first
}

// objects reads the documents of a file.
func (n *namer) objects(file, text string, hooks []string) (list []helm.Object) {
	for documents := yaml.NewDecoder(strings.NewReader(text)); ; {
		var document yaml.Node
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err == nil { // finds keys that are there twice, and aliases that explode
			var whole any
			err = document.Decode(&whole)
		}
		if err != nil {
			n.fail(fmt.Errorf("%s: %w", file, err))
			return list
		}
		if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode || len(document.Content[0].Content) == 0 {
			continue
		}
		o, err := n.object(file, document.Content[0])
		if err != nil {
			n.fail(fmt.Errorf("%s: %w", file, err))
			return list
		}
		o.Hooks = hooks
		list = append(list, o)
	}
}

func (n *namer) fail(err error) {
	if n.err == nil {
		n.err = err
	}
}

func (n *namer) object(file string, node *yaml.Node) (helm.Object, error) {
	o := helm.Object{Template: file, Kind: text(node, "kind")}
	apiVersion := text(node, "apiVersion")
	if o.Kind == "" || apiVersion == "" {
		return o, errors.New("an object has no kind or no apiVersion")
	}
	metadata := field(node, "metadata")
	if metadata == nil || metadata.Kind != yaml.MappingNode {
		return o, fmt.Errorf("%s has no metadata", o.Kind)
	}
	o.Name, o.Namespace = text(metadata, "name"), text(metadata, "namespace")
	if o.Kind == "CustomResourceDefinition" {
		n.learn(node)
	}
	meta := kyaml.TypeMeta{APIVersion: apiVersion, Kind: o.Kind}
	inCluster := openapi.IsCertainlyClusterScoped(meta) || n.cluster[group(apiVersion)+"/"+o.Kind]
	if o.Namespace == "" && !inCluster {
		o.Namespace = n.namespace
		metadata.Content = append(metadata.Content, scalar("namespace"), scalar(n.namespace))
	}
	var err error
	o.YAML, err = strictyaml.Marshal(node)
	return o, err
}

// learn notes a kind that a CustomResourceDefinition makes for the whole cluster.
func (n *namer) learn(crd *yaml.Node) {
	spec := field(crd, "spec")
	if spec == nil || text(spec, "scope") != "Cluster" {
		return
	}
	if names := field(spec, "names"); names != nil {
		n.cluster[text(spec, "group")+"/"+text(names, "kind")] = true
	}
}

func group(apiVersion string) string {
	before, _, found := strings.Cut(apiVersion, "/")
	if !found {
		return "" // the core group
	}
	return before
}

// ownNamespace is the object of the release's namespace, nil when every cluster has it or the chart makes it.
func (n *namer) ownNamespace(others []helm.Object) *helm.Object {
	if slices.Contains([]string{"default", "kube-system", "kube-public", "kube-node-lease"}, n.namespace) ||
		slices.ContainsFunc(others, func(o helm.Object) bool { return o.Kind == "Namespace" && o.Name == n.namespace }) {
		return nil
	}
	return &helm.Object{
		Template: "the namespace of the release", Kind: "Namespace", Name: n.namespace,
		YAML: fmt.Appendf(nil, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n", n.namespace),
	}
}

func scalar(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

// field gives a value of a mapping, nil when it is not there.
func field(node *yaml.Node, key string) *yaml.Node {
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
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
