package spec

import "maps"

// Values returns the document's values by key and option, as kURL's Go types hold them. Every key and option of the table
// is present, with its zero value if the document does not set it. An add-on's version is one of its options. Keys and
// options outside the table are as written.
func (i *Installer) Values() map[string]map[string]any {
	values := map[string]map[string]any{}
	for _, s := range sections() {
		options, version := i.optionsOf(s)
		values[s.key] = map[string]any{}
		for _, f := range s.all() {
			values[s.key][f.key] = f.is.zero()
		}
		maps.Copy(values[s.key], options)
		if !s.versionless {
			values[s.key]["version"] = version
		}
	}
	for _, a := range i.AddOns {
		if _, listed := known(a.Key); !listed {
			values[a.Key] = map[string]any{"version": a.Version}
			maps.Copy(values[a.Key], a.Options)
		}
	}
	return values
}

func (t fieldType) zero() any {
	switch t {
	case text, cidrSize:
		return ""
	case boolean:
		return false
	case integer:
		return int64(0)
	case list, commands:
		return []any{}
	}
	return nil
}
