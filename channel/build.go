package channel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/kube/render"
)

// Built is an index ready to be served, with its manifests by relative path.
type Built struct {
	Index     Index
	Manifests map[string][]byte
}

// Build prepares an index of plain manifests and kustomizations as kOps prepares its own add-ons (K-26): every object gets the
// labels of its add-on, every manifest its hash, and every entry a rule that prunes by these labels, unless it has one. The
// names of manifests carry version and id.
func Build(ctx context.Context, source Source, index Index) (Built, error) {
	built := Built{Index: Index{Name: index.Name}, Manifests: map[string][]byte{}}
	var errs []error
	for _, e := range index.Entries {
		if err := built.add(ctx, source, e); err != nil {
			errs = append(errs, fmt.Errorf("addon %q: %w", e.Name, err))
		}
	}
	return built, errors.Join(errs...)
}

func (b *Built) add(ctx context.Context, source Source, e Entry) error {
	objs, err := source.Objects(ctx, e)
	if err != nil {
		return err
	}
	labels := ownLabels(e)
	maps.Copy(labels, e.Selector)
	var manifest strings.Builder
	for _, obj := range objs {
		if err := addLabels(obj, labels); err != nil {
			return err
		}
		text, err := yaml.Marshal(obj.Object)
		if err != nil {
			return err
		}
		if manifest.Len() > 0 {
			manifest.WriteString("---\n")
		}
		manifest.Write(text)
	}
	e.Manifest = manifestName(e)
	if _, taken := b.Manifests[e.Manifest]; taken {
		return errors.New("two entries have the same version and id: give them different ids")
	}
	e.ManifestHash = ManifestHash([]byte(manifest.String()))
	if e.Prune == nil {
		e.Prune = &Prune{Kinds: prunedKinds()}
		for i := range e.Prune.Kinds {
			e.Prune.Kinds[i].LabelSelector = labelSelector(ownLabels(e))
		}
	}
	b.Manifests[e.Manifest] = []byte(manifest.String())
	b.Index.Entries = append(b.Index.Entries, e)
	return nil
}

// addLabels marks an object as the add-on's.
func addLabels(obj *unstructured.Unstructured, labels map[string]string) error {
	merged, err := render.Labels(obj)
	if err != nil {
		return fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if got, ok := merged[key]; ok && got != labels[key] {
			return fmt.Errorf("%s %s: label %q already set to %q while it should be %q", obj.GetKind(), obj.GetName(), key, got, labels[key])
		}
		merged[key] = labels[key]
	}
	obj.SetLabels(merged)
	return nil
}

// manifestName is NAME/VERSION-ID.yaml, without empty parts, in characters that need no escape in a URL.
func manifestName(e Entry) string {
	version := ""
	if e.Version != nil {
		version = *e.Version
	}
	parts := slices.DeleteFunc([]string{version, e.ID}, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		parts = []string{"manifest"}
	}
	clean := strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_", r) {
			return r
		}
		return '_'
	}, strings.Join(parts, "-"))
	return path.Join(e.Name, clean+".yaml")
}
