package spec

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/strictyaml"
)

var (
	// addOnKey matches the keys below `spec:`. A key becomes a folder name and the prefix of variable names.
	addOnKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*(-[A-Za-z0-9]+)*$`)
	// addOnVersion matches versions, which become folder names. Versions in use vary widely: 1.36.3, v5, 10to14,
	// 2025-10-15T17-29-55Z, 0.92.1-87.15.1 (kURL §0).
	addOnVersion = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$`)
	optionKey    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)
)

// topLevel returns the keys of the document. A cluster adds status and some of metadata to the objects that it stores. They
// are ignored, so that `kubectl get installer -o yaml` can be used as input.
func topLevel() []string { return []string{"apiVersion", "kind", "metadata", "spec", "status"} }

func metadataKeys() []string {
	return []string{"name", "namespace", "labels", "annotations", "creationTimestamp", "generation", "managedFields",
		"resourceVersion", "uid", "generateName", "selfLink", "finalizers", "ownerReferences", "deletionTimestamp", "deletionGracePeriodSeconds"}
}

func (p *parser) installer(root *yaml.Node) *Installer {
	i := &Installer{}
	if version := find(root, "apiVersion"); version != nil && version.Value == LegacyAPIVersion {
		p.legacy = true
	}
	fields := p.fields(i, root, "the document", topLevel()...)
	if i.APIVersion = KurlAPIVersion; !p.legacy {
		i.APIVersion = p.oneOf(i, root, fields, "apiVersion", KurlAPIVersion, APIVersion, KurlAPIVersion)
	}
	if fields["kind"] != nil || !p.legacy {
		p.oneOf(i, root, fields, "kind", Kind, Kind)
	}
	if metadata := fields["metadata"]; metadata != nil && p.IsMapping(metadata, "metadata") {
		if name := p.fields(i, metadata, "metadata", metadataKeys()...)["name"]; name != nil {
			i.Name = p.Text(name, "metadata.name")
		}
	}
	switch spec := fields["spec"]; {
	case p.partial && spec != nil && isUnset(spec): // changes nothing, as in kURL
	case isUnset(spec):
		p.Errorf(p.Pos(root), "name at least one add-on, such as kubernetes: {version: 1.36.3}", "the spec is missing or empty")
	case p.IsMapping(spec, "spec"):
		if p.spec(i, spec); len(i.AddOns)+len(i.Sections) == 0 && !p.partial && p.Err() == nil {
			p.Errorf(p.Pos(spec), "name a version of at least one", "no add-on of the spec has a version")
		}
	}
	return i
}

// fields returns the values of a mapping by key. LegacyAPIVersion allows unknown keys; other versions do not.
func (p *parser) fields(i *Installer, n *yaml.Node, what string, known ...string) map[string]*yaml.Node {
	if !p.legacy {
		return p.Fields(n, what, known...)
	}
	values := map[string]*yaml.Node{}
	for at := 0; at+1 < len(n.Content); at += 2 {
		key := n.Content[at]
		if values[key.Value] = n.Content[at+1]; !slices.Contains(known, key.Value) {
			p.migrated(i, key, "leave it out", "%s in %s has no effect", key.Value, what)
		}
	}
	return values
}

// oneOf returns the value of a key of the document, or missing if the document lacks the key: kURL's API reads documents that have only
// a spec.
func (p *parser) oneOf(i *Installer, root *yaml.Node, fields map[string]*yaml.Node, key, missing string, allowed ...string) string {
	n := fields[key]
	if n == nil {
		p.migrated(i, root, "write "+key+": "+missing, "%s is missing", key)
		return missing
	}
	got := p.Text(n, key)
	if !slices.Contains(allowed, got) {
		p.Errorf(p.Pos(n), "write "+strings.Join(allowed, " or "), "unknown %s %q", key, got)
	}
	return got
}

// isUnset reports whether a value is missing, null, or an empty mapping.
func isUnset(n *yaml.Node) bool {
	return n == nil || n.ShortTag() == "!!null" || n.Kind == yaml.MappingNode && len(n.Content) == 0
}

func (p *parser) spec(i *Installer, n *yaml.Node) {
	names := map[string]*yaml.Node{}
	p.migrate(i, n)
	for at := 0; at+1 < len(n.Content); at += 2 {
		key, body := n.Content[at], n.Content[at+1]
		if !addOnKey.MatchString(key.Value) {
			p.Errorf(p.Pos(key), "letters and digits, starting with a letter", "bad add-on key %q", key.Value)
			continue
		}
		if reserved(key.Value) {
			p.Errorf(p.Pos(key), "call the add-on something else", "an add-on called %q would set variables of the system", key.Value)
			continue
		}
		name := AddOnName(key.Value)
		if listed, ok := known(key.Value); ok {
			name = AddOnName(listed.key)
		}
		if first := names[name]; first != nil {
			p.Errorf(p.Pos(key), "keep one of them", "%s is already on line %d as %q", name, first.Line, first.Value)
			continue
		}
		names[name] = key
		if p.unchosen(key.Value, body) {
			p.migrated(i, key, "remove it, or name a version", "%s is not chosen: it has no version", key.Value)
			p.removed = append(p.removed, name)
			continue
		}
		if body.ShortTag() == "!!null" {
			body = &yaml.Node{Kind: yaml.MappingNode, Line: key.Line, Column: key.Column}
		}
		if body.Kind != yaml.MappingNode {
			p.Errorf(p.Pos(body), "write "+key.Value+": {version: …}", "%s must be a mapping", key.Value)
			continue
		}
		p.section(i, key, body)
	}
	p.collisions(i)
	p.noNUL(n)
}

// noNUL refuses NUL bytes, which no shell variable can hold.
func (p *parser) noNUL(n *yaml.Node) {
	if strings.ContainsRune(n.Value, 0) {
		p.Errorf(p.Pos(n), "leave it out", "a NUL byte in a value, which no shell variable can hold")
	}
	for _, child := range n.Content {
		p.noNUL(child)
	}
}

// section reads one key of the spec and its value.
func (p *parser) section(i *Installer, key, body *yaml.Node) {
	listed, isListed := known(key.Value)
	canonical := key.Value
	if isListed {
		canonical = listed.key
	}
	options, version, hasVersion := Options{}, "", false
	for at := 0; at+1 < len(body.Content); at += 2 {
		name, n := body.Content[at], body.Content[at+1]
		switch {
		case name.Value == "version" && !listed.versionless:
			version, hasVersion = p.version(key.Value, n), true
		case isListed:
			p.listedOption(options, listed, name, n)
		case !optionKey.MatchString(name.Value):
			p.Errorf(p.Pos(name), "letters and digits, starting with a letter", "bad option %q", name.Value)
		default:
			if v := strictyaml.Value(n); v != nil {
				options[name.Value] = v
			}
		}
	}
	if listed.versionless {
		i.Sections = append(i.Sections, Section{Key: canonical, Options: options, Pos: p.Pos(key)})
		return
	}
	if !hasVersion && !p.partial {
		p.Errorf(p.Pos(key), "write "+key.Value+": {version: …}, or remove it", "%s has no version", key.Value)
	}
	i.AddOns = append(i.AddOns, AddOn{
		Name: AddOnName(canonical), Key: canonical, Version: version, Options: options, Pos: p.Pos(key),
	})
}

// version keeps the text as written: 1.20 is a version, not the number 1.2.
func (p *parser) version(key string, n *yaml.Node) string {
	v := p.Text(n, key+".version")
	if n.Kind == yaml.ScalarNode && (!addOnVersion.MatchString(v) || n.ShortTag() == "!!bool") {
		p.Errorf(p.Pos(n), "name a version such as 1.36.3, or remove the add-on", "bad version %q of %s", v, key)
	}
	return v
}

// listedOption adds an option of the table, read as its listed type, to options. null means absent.
func (p *parser) listedOption(options Options, s section, name, n *yaml.Node) {
	f, ok := s.field(name.Value)
	switch {
	case !ok:
		p.Errorf(p.Pos(name), diag.DidYouMean(name.Value, s.keys(), "known: "), "%s has no option %q", s.key, name.Value)
	case n.ShortTag() == "!!null":
	case options[f.key] != nil:
		p.Errorf(p.Pos(name), "keep one of them", "%s.%s is already given in another spelling", s.key, f.key)
	case f.is == login:
		p.oidc(n)
		options[f.key] = strictyaml.Value(n)
	case f.is == anything:
		options[f.key] = strictyaml.Value(n)
	default:
		v, ok := f.is.read(n)
		if !ok {
			hint := ""
			if f.is == integer && n.ShortTag() == "!!int" {
				hint = "write it with digits alone and no zero before them: 0110 is 72 for some programs and 110 for others"
			}
			p.Errorf(p.Pos(n), hint, "%s.%s must be %s", s.key, f.key, f.is)
			return
		}
		options[f.key] = v
	}
}

// plainInteger matches numbers that all versions of YAML read equally: not 0110, 0x6e or 1_10.
var plainInteger = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)

// slashSize matches a prefix length from 1 to 128, or those for IPv4 and IPv6 with a comma between them. Empty text is no length: kURL's web
// page writes it for a field that nobody filled in.
var slashSize = regexp.MustCompile(`^$|^/?([1-9][0-9]?|1[01][0-9]|12[0-8])(,/?([1-9][0-9]?|1[01][0-9]|12[0-8]))?$`)

// read returns the value of a node that has type t, or false if the node has another type.
func (t fieldType) read(n *yaml.Node) (any, bool) {
	isScalar := n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null"
	switch t {
	case text:
		return n.Value, isScalar
	case level:
		return n.Value, isScalar && n.Value == string(level)
	case cidrSize:
		return n.Value, isScalar && slashSize.MatchString(n.Value)
	case boolean:
		b, ok := strictyaml.Value(n).(bool)
		return b, ok && isScalar
	case integer:
		i, ok := strictyaml.Value(n).(int64)
		return i, ok && isScalar && (n.ShortTag() != "!!int" || plainInteger.MatchString(n.Value))
	case list:
		return elements(n, text)
	default: // commands
		return elements(n, list)
	}
}

func elements(n *yaml.Node, each fieldType) (any, bool) {
	if n.Kind != yaml.SequenceNode {
		return nil, false
	}
	values := make([]any, 0, len(n.Content))
	for _, child := range n.Content {
		v, ok := each.read(child)
		if !ok {
			return nil, false
		}
		values = append(values, v)
	}
	return values, true
}
