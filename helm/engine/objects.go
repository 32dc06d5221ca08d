package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	release "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/internal/strictyaml"
	kuberender "github.com/sealift/sealift/kube/render"
)

// sorted puts the objects of a chart in the order in which they are applied. Lists are split. Hooks that no installation runs
// are skipped. What could not be applied is refused.
func sorted(loaded *chart.Chart, files map[string]string, namespace string) (objects, skipped []helm.Object, err error) {
	if err := knownHooks(files); err != nil {
		return nil, nil, err
	}
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, nil, err
	}
	var crds, ordinary, before, after, left []document
	for _, crd := range loaded.CRDObjects() {
		crds = append(crds, document{crd.Filename, string(crd.File.Data), nil})
	}
	for _, m := range manifests {
		// Helm ends each document of a release with a line break, which a text that keeps its last ones gets.
		ordinary = append(ordinary, document{m.Name, m.Content + "\n", nil})
	}
	slices.SortStableFunc(hooks, func(a, b *release.Hook) int { return a.Weight - b.Weight })
	for _, h := range hooks {
		d := document{h.Path, h.Manifest, events(h)}
		switch {
		case slices.Contains(h.Events, release.HookPreInstall):
			before = append(before, d)
		case slices.Contains(h.Events, release.HookPostInstall):
			after = append(after, d)
		default:
			left = append(left, d)
		}
	}
	n := namer{namespace: namespace, cluster: make(map[string]bool)}
	var entries [5][]entry
	for i, documents := range [len(entries)][]document{crds, before, ordinary, after, left} {
		if entries[i], err = n.read(documents); err != nil {
			return nil, nil, err
		}
	}
	var named [len(entries)][]object
	for i := range entries { // every definition of a kind is known now
		if named[i], err = n.objects(entries[i]); err != nil {
			return nil, nil, err
		}
	}
	all := firsts(named[0])
	if o := n.ownNamespace(slices.Concat(named[1], named[2])); o != nil {
		all = append(all, *o)
	}
	all = slices.Concat(all, named[1], named[2], named[3])
	return plain(all), plain(named[4]), unique(all)
}

// object is an object and the group of its kind.
type object struct {
	helm.Object
	group string
}

// identity distinguishes the objects of a cluster.
func (o object) identity() string { return o.group + "/" + o.String() }

func plain(list []object) (objects []helm.Object) {
	for _, o := range list {
		objects = append(objects, o.Object)
	}
	return objects
}

// firsts leaves the first of equal definitions. Dependencies often have the same ones in crds/, and Helm skips an existing
// definition.
func firsts(crds []object) (list []object) {
	seen := make(map[string]bool)
	for _, o := range crds {
		if !seen[o.identity()] {
			list = append(list, o)
		}
		seen[o.identity()] = true
	}
	return list
}

// unique refuses an object that the chart has twice: kustomize refuses it, and the last one would win in the cluster.
func unique(all []object) error {
	seen := make(map[string]object)
	for _, o := range all {
		if first, twice := seen[o.identity()]; twice {
			return fmt.Errorf("%s: %s is also in %s; remove or rename one of them, in the chart's values or in the chart", o.Template, o.String(), first.Template)
		}
		seen[o.identity()] = o
	}
	return nil
}

// applicable checks that a node reads the same objects. It is stricter than Helm.
func applicable(objects []helm.Object) error {
	for _, o := range objects {
		if _, err := kuberender.Decode(bytes.NewReader(o.YAML)); err != nil {
			return fmt.Errorf("%s: %w", o.Template, err)
		}
	}
	return nil
}

// namer puts objects without a namespace into the release's.
type namer struct {
	namespace string
	cluster   map[string]bool // kinds, with their group, that the chart defines as cluster-scoped
}

func (n *namer) objects(entries []entry) (list []object, err error) {
	for _, e := range entries {
		o, err := n.object(e)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.file, err)
		}
		list = append(list, o)
	}
	return list, nil
}

func (n *namer) object(e entry) (object, error) {
	o := object{Object: helm.Object{Template: e.file, Kind: text(e.node, "kind"), Hooks: e.hooks}}
	apiVersion := text(e.node, "apiVersion")
	if o.Kind == "" || apiVersion == "" {
		return o, errors.New("an object has no kind or no apiVersion")
	}
	metadata := strictyaml.Child(e.node, "metadata")
	if metadata == nil || metadata.Kind != yaml.MappingNode {
		return o, fmt.Errorf("%s has no metadata", o.Kind)
	}
	o.Name, o.Namespace, o.group = text(metadata, "name"), text(metadata, "namespace"), group(apiVersion)
	if o.Name == "" {
		if prefix := text(metadata, "generateName"); prefix != "" {
			return o, fmt.Errorf("%s has generateName %s and no name; an object without a name cannot be applied", o.Kind, prefix)
		}
		return o, fmt.Errorf("%s has no name", o.Kind)
	}
	meta := kyaml.TypeMeta{APIVersion: apiVersion, Kind: o.Kind}
	inCluster := openapi.IsCertainlyClusterScoped(meta) || n.cluster[o.group+"/"+o.Kind]
	if o.Namespace == "" && !inCluster {
		o.Namespace = n.namespace
		metadata.Content = append(without(metadata, "namespace"), scalar("namespace"), scalar(n.namespace))
	}
	var err error
	o.YAML, err = strictyaml.Marshal(e.node)
	return o, err
}

// learn records a kind that a CustomResourceDefinition makes cluster-scoped.
func (n *namer) learn(crd *yaml.Node) {
	spec := strictyaml.Child(crd, "spec")
	if spec == nil || text(spec, "scope") != "Cluster" {
		return
	}
	if names := strictyaml.Child(spec, "names"); names != nil {
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

// ownNamespace is the object of the release's namespace, nil when every cluster has it or the chart creates it.
func (n *namer) ownNamespace(others []object) *object {
	if slices.Contains([]string{"default", "kube-system", "kube-public", "kube-node-lease"}, n.namespace) ||
		slices.ContainsFunc(others, func(o object) bool { return o.Kind == "Namespace" && o.Name == n.namespace }) {
		return nil
	}
	return &object{Object: helm.Object{
		Template: "the namespace of the release", Kind: "Namespace", Name: n.namespace,
		YAML: fmt.Appendf(nil, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n", quoted(n.namespace)),
	}}
}

// quoted quotes a text so that no YAML reader takes it for a number or a boolean, such as y.
func quoted(s string) string {
	text, err := yaml.Marshal(s)
	if err != nil {
		return strconv.Quote(s)
	}
	return strings.TrimSpace(string(text))
}

// scalar returns a node for a text, in quotes if it would be read as another type.
func scalar(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if quoted(s) != s {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// text returns the written form of a scalar of a mapping, "" for null.
func text(node *yaml.Node, key string) string {
	if value := strictyaml.Child(node, key); value != nil && value.Kind == yaml.ScalarNode && value.Tag != "!!null" {
		return value.Value
	}
	return ""
}
