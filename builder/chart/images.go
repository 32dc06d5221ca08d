package chart

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/builder/image"
	"github.com/sealift/sealift/catalog/references/object"
	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/internal/strictyaml"
)

// ByValue is the rule of images that only a value names.
const ByValue object.Rule = "value"

// Use is one place of a chart that names an image.
type Use struct {
	Ref   string // in full
	Rule  object.Rule
	Where string // an object and its container, or the path of a value
}

// Uses is the images that a chart names.
type Uses struct {
	Pulled []Use // by a container of a pod; each reference once, in order
	Named  []Use // by a field, a variable or an argument of a rendered object, which may start it
	Hidden []Use // by a value
}

// References returns the images of uses.
func References(uses []Use) []string {
	var refs []string
	for _, use := range uses {
		refs = append(refs, use.Ref)
	}
	return refs
}

// ImagesOf finds the images of a rendered chart.
func ImagesOf(r helm.Rendered) Uses {
	var u Uses
	for _, o := range r.Objects {
		// the renderer decoded each object before
		_ = strictyaml.Documents(o.YAML, func(node *yaml.Node) {
			for _, found := range (object.Scan{}).Images(node) {
				use := Use{Ref: full(found.Ref), Rule: found.Rule, Where: found.Where}
				if found.Certain {
					u.Pulled = append(u.Pulled, use)
				} else {
					u.Named = append(u.Named, use)
				}
			}
		})
	}
	v := values{appVersion: r.AppVersion}
	v.mapping(r.Values, "", "")
	u.Pulled, u.Named, u.Hidden = once(u.Pulled), once(u.Named), once(v.found)
	return u
}

// once keeps the first use of each reference, and puts the references in order.
func once(list []Use) []Use {
	slices.SortStableFunc(list, func(a, b Use) int { return cmp.Compare(a.Ref, b.Ref) })
	return slices.CompactFunc(list, func(a, b Use) bool { return a.Ref == b.Ref })
}

// full spells a reference out. Anything that is not a reference is kept, and fails when it is resolved.
func full(ref string) string {
	if parsed, err := image.ParseReference(ref); err == nil {
		return parsed.String()
	}
	return ref
}

// values is a walk through the values of a chart.
type values struct {
	appVersion string // the tag where a value has none
	found      []Use
}

// mapping checks values of one level; key is their own name, and at the path to them.
func (v *values) mapping(m map[string]any, key, at string) {
	repository, tag := scalar(m["repository"]), cmp.Or(scalar(m["tag"]), v.appVersion)
	_, tagged := m["tag"]
	if repository != "" && (tagged || isImageKey(key)) {
		v.add(joined(scalar(m["registry"]), repository), tag, scalar(m["digest"]), at)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		v.value(m[key], key, strings.TrimPrefix(at+"."+key, "."))
	}
}

func (v *values) value(value any, key, at string) {
	switch value := value.(type) {
	case map[string]any:
		v.mapping(value, key, at)
	case []any:
		for i, one := range value {
			v.value(one, key, fmt.Sprintf("%s[%d]", at, i))
		}
	case string:
		if isImageKey(key) && object.LooksLikeImage(value) {
			v.found = append(v.found, Use{Ref: full(value), Rule: ByValue, Where: at})
		}
	}
}

func isImageKey(key string) bool { return strings.HasSuffix(strings.ToLower(key), "image") }

func joined(registry, repository string) string {
	if registry == "" {
		return repository
	}
	return registry + "/" + repository
}

// add records an image whose parts are separate values.
func (v *values) add(repository, tag, digest, at string) {
	ref := repository
	switch {
	case digest != "":
		ref += "@" + digest
	case tag != "":
		ref += ":" + tag
	}
	if object.LooksLikeImage(ref) {
		v.found = append(v.found, Use{Ref: full(ref), Rule: ByValue, Where: at})
	}
}

// scalar is a value as text; numbers are tags such as 1.36 without quotes.
func scalar(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case float64, int64, int:
		return fmt.Sprint(value)
	}
	return ""
}

// NotCarried leaves the uses whose image is not among carried. A template may put a registry before the repository of a value,
// or a 'v' before its tag, and may add a digest.
func NotCarried(uses []Use, carried []string) []Use {
	return slices.DeleteFunc(slices.Clone(uses), func(u Use) bool {
		return slices.ContainsFunc(carried, func(c string) bool { return same(u.Ref, full(c)) })
	})
}

func same(named, carried string) bool {
	if named == carried {
		return true
	}
	a, err := image.ParseReference(named)
	if err != nil {
		return false
	}
	b, err := image.ParseReference(carried)
	if err != nil {
		return false
	}
	short := strings.TrimPrefix(strings.TrimPrefix(a.Repository(), "docker.io/"), "library/")
	if a.Repository() != b.Repository() && !strings.HasSuffix(b.Repository(), "/"+short) {
		return false
	}
	return b.Digest() != "" && (a.Digest() == b.Digest() || a.Tag() == b.Tag()) ||
		strings.TrimPrefix(a.Tag(), "v") == strings.TrimPrefix(b.Tag(), "v")
}
