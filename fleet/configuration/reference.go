package configuration

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sealift/sealift/fleet/ocm"
)

// NoDefault is the name of a default that v1beta1 keeps for a type without one (O-4).
const NoDefault = "__reserved_no_default__"

// byType orders references by group and resource. References of one type keep their order.
func byType(a, b ocm.ConfigReference) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
}

// withHashes returns the defaults with the hashes of those references that name the same objects.
func withHashes(defaults []ocm.AddOnConfig, refs []ocm.DefaultConfigReference) []ocm.ConfigReference {
	var list []ocm.ConfigReference
	for _, d := range defaults {
		if d.Name == "" || d.Name == NoDefault {
			continue
		}
		want := &ocm.ConfigHash{ConfigObject: d.ConfigObject}
		for _, ref := range refs {
			if ref.ConfigType == d.ConfigType && ref.DesiredConfig != nil && ref.DesiredConfig.ConfigObject == d.ConfigObject {
				want.SpecHash = ref.DesiredConfig.SpecHash
			}
		}
		list = append(list, ocm.ConfigReference{ConfigType: d.ConfigType, DesiredConfig: want})
	}
	return list
}

func placementRefs(configs []ocm.InstallConfigReference) []ocm.ConfigReference {
	var list []ocm.ConfigReference
	for _, c := range configs {
		if c.DesiredConfig != nil {
			list = append(list, ocm.ConfigReference{ConfigType: c.ConfigType, DesiredConfig: c.DesiredConfig})
		}
	}
	return list
}

// ownRefs returns the cluster's own references. The hashes are those that the cluster has.
func ownRefs(a AddOn) []ocm.ConfigReference {
	var list []ocm.ConfigReference
	for _, c := range a.Configs {
		want := &ocm.ConfigHash{ConfigObject: c.ConfigObject}
		for _, ref := range a.References {
			if ref.ConfigType == c.ConfigType && ref.DesiredConfig != nil && ref.DesiredConfig.ConfigObject == c.ConfigObject {
				want.SpecHash = ref.DesiredConfig.SpecHash
			}
		}
		list = append(list, ocm.ConfigReference{ConfigType: c.ConfigType, DesiredConfig: want})
	}
	return list
}

// overlay replaces the whole list of each type in the upper level. An object that is listed twice counts once.
func overlay(base, upper []ocm.ConfigReference) []ocm.ConfigReference {
	var list []ocm.ConfigReference
	for _, ref := range base {
		if !slices.ContainsFunc(upper, func(u ocm.ConfigReference) bool { return u.ConfigType == ref.ConfigType }) {
			list = append(list, ref)
		}
	}
	for _, ref := range upper {
		if !slices.ContainsFunc(list, func(l ocm.ConfigReference) bool {
			return l.ConfigType == ref.ConfigType && l.DesiredConfig.ConfigObject == ref.DesiredConfig.ConfigObject
		}) {
			list = append(list, ref)
		}
	}
	slices.SortStableFunc(list, byType)
	return list
}

// merge updates the desired configurations of an add-on. A configuration that it had keeps its observed and applied state. Of a
// new one nothing was applied.
func merge(had, desired []ocm.ConfigReference) []ocm.ConfigReference {
	list := slices.Clone(desired)
	for i, want := range desired {
		k := slices.IndexFunc(had, func(ref ocm.ConfigReference) bool {
			return ref.ConfigType == want.ConfigType && ref.DesiredConfig != nil && ref.DesiredConfig.ConfigObject == want.DesiredConfig.ConfigObject
		})
		if k >= 0 {
			list[i].LastObservedGeneration, list[i].LastAppliedConfig = had[k].LastObservedGeneration, had[k].LastAppliedConfig
		}
	}
	return list
}

// Object is a configuration object, as far as decisions need it.
type Object struct {
	SpecHash   string
	Generation int64
}

// Refresh brings the references of an add-on up to date with their objects: the generation of each, and the hash of those
// that the cluster names itself, if the add-on supports their type. An object that does not exist has an empty hash.
func Refresh(refs []ocm.ConfigReference, own []ocm.AddOnConfig, supported []ocm.ConfigType, lookup func(ocm.AddOnConfig) (Object, bool)) []ocm.ConfigReference {
	refs = slices.Clone(refs)
	for i, ref := range refs {
		if ref.DesiredConfig == nil {
			continue
		}
		config := ocm.AddOnConfig{ConfigType: ref.ConfigType, ConfigObject: ref.DesiredConfig.ConfigObject}
		object, found := lookup(config)
		if found {
			refs[i].LastObservedGeneration = object.Generation
		}
		if slices.Contains(own, config) && slices.Contains(supported, config.ConfigType) {
			refs[i].DesiredConfig = &ocm.ConfigHash{ConfigObject: config.ConfigObject, SpecHash: object.SpecHash}
		}
	}
	return refs
}

// Resolve brings the hashes of a placement's references up to date.
func Resolve(refs []ocm.InstallConfigReference, lookup func(ocm.AddOnConfig) (Object, bool)) []ocm.InstallConfigReference {
	refs = slices.Clone(refs)
	for i, ref := range refs {
		refs[i].DesiredConfig = resolve(ref.ConfigType, ref.DesiredConfig, lookup)
	}
	return refs
}

// ResolveDefaults brings the hashes of default references up to date.
func ResolveDefaults(refs []ocm.DefaultConfigReference, lookup func(ocm.AddOnConfig) (Object, bool)) []ocm.DefaultConfigReference {
	refs = slices.Clone(refs)
	for i, ref := range refs {
		refs[i].DesiredConfig = resolve(ref.ConfigType, ref.DesiredConfig, lookup)
	}
	return refs
}

func resolve(kind ocm.ConfigType, want *ocm.ConfigHash, lookup func(ocm.AddOnConfig) (Object, bool)) *ocm.ConfigHash {
	if want == nil {
		return nil
	}
	object, _ := lookup(ocm.AddOnConfig{ConfigType: kind, ConfigObject: want.ConfigObject})
	return &ocm.ConfigHash{ConfigObject: want.ConfigObject, SpecHash: object.SpecHash}
}

// Unsupported names the first configuration of a cluster whose type the add-on does not support, as the message of
// condition Progressing says it. It returns "" if all are supported.
func Unsupported(own []ocm.AddOnConfig, supported []ocm.ConfigType) string {
	for _, c := range own {
		if !slices.Contains(supported, c.ConfigType) {
			return fmt.Sprintf("Configuration with gvr %s/%s is not supported for this addon", c.Group, c.Resource)
		}
	}
	return ""
}
