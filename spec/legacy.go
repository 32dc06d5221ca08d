package spec

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/strictyaml"
)

// LegacyAPIVersion is the API version of kURL's first Installers. kURL's API reads them as KurlAPIVersion, and so does Parse: kind and
// version may be missing, an add-on without a version is not chosen, and unknown keys outside the spec are ignored.
const LegacyAPIVersion = "kurl.sh/v1beta1"

// oldOption is an option with another name in earlier releases of kURL. kURL's API migrates it in every API version
// (replicatedhq/kURL-api, legacyFieldConversion), or its schema still accepts it.
type oldOption struct {
	section, option string
	// toSection and to name the option that replaced it. An empty to means that nothing did; toSection is section if empty.
	toSection, to string
	inverted      bool // the new option is true where the old one is false
	words         bool // the old option has one text with commas, the new one a list; both lists count
	why           string
}

func oldOptions() []oldOption {
	return []oldOption{
		{section: "weave", option: "encryptNetwork", to: "isEncryptionDisabled", inverted: true},
		{section: "weave", option: "IPAllocRange", to: "podCidrRange"},
		{section: "fluentd", option: "efkStack", to: "fullEFKStack"},
		{section: "rook", option: "storageClass", to: "storageClassName"},
		{section: "rook", option: "cephPoolReplicas", to: "cephReplicaCount"},
		{section: "velero", option: "installCLI", to: "disableCLI", inverted: true},
		{section: "velero", option: "useRestic", to: "disableRestic", inverted: true},
		{section: "docker", option: "bypassStorageDriverWarnings", to: "bypassStorageDriverWarning"},
		{section: "docker", option: "additionalNoProxy", toSection: "kurl", to: "additionalNoProxyAddresses", words: true},
		{section: "docker", option: "noDocker", why: "Sealift installs no Docker; leave it out"},
		{section: "ekco", option: "shouldDisableRebootService", to: "shouldDisableRebootServices"},
		{section: "ekco", option: "nodeUnreachableTolerationDuration", to: "nodeUnreachableToleration"}, // in kURL's documents of 2020
		{section: "ekco", option: "rook", why: "EKCO adds nodes to Rook unless ekco.rookShouldUseAllNodes is true; leave it out"},
		{section: "kurl", option: "excludeBuiltinPreflights", to: "excludeBuiltinHostPreflights"},
		{section: "kurl", option: "preflightIgnore", to: "hostPreflightIgnore"},
		{section: "kurl", option: "preflightIgnoreWarnings", why: "a warning stops nothing; leave it out"},
		{section: "kurl", option: "bypassFirewalldWarning", toSection: "firewalldConfig", to: "bypassFirewalldWarning"},
		{section: "kurl", option: "hardFailOnFirewalld", toSection: "firewalldConfig", to: "hardFailOnFirewalld"},
		{section: "kurl", option: "task", why: "it named a task of kURL's scripts; leave it out"},
	}
}

// unversioned lists the add-ons that an Installer of LegacyAPIVersion may name without choosing them: their version is empty or missing.
func unversioned() []string {
	return []string{"docker", "weave", "rook", "contour", "registry", "prometheus", "kotsadm"}
}

// migrate replaces old options in the spec with current ones, and records each as a warning. A new option that is set wins.
func (p *parser) migrate(i *Installer, spec *yaml.Node) {
	bodies := listedBodies(spec)
	for _, old := range oldOptions() {
		body := bodies[old.section]
		key, value := take(body, old.option)
		if key == nil {
			continue
		}
		name := old.section + "." + old.option
		if old.to == "" {
			p.migrated(i, key, old.why, "%s has no effect", name)
			continue
		}
		toSection, to := old.section, old.to
		if old.toSection != "" {
			toSection = old.toSection
			if body = bodies[toSection]; body == nil || body.ShortTag() == "!!null" {
				body = newBody(spec, bodies[toSection], toSection, key)
				bodies[toSection] = body
			}
		}
		if to == "podCidrRange" && strings.Contains(value.Value, ".") { // a network, not its size
			to = "podCIDR"
		}
		p.migrated(i, key, "write "+toSection+"."+to, "%s is an old name", name)
		old.move(body, to, key, value)
	}
	if version := find(bodies["collectd"], "version"); version != nil && version.Value == "0.0.1" {
		p.migrated(i, version, "write collectd: {version: v5}", "collectd 0.0.1 is an old name of v5")
		version.Value, version.Tag = "v5", "!!str"
	}
}

// move copies the value of the old option to the new one, unless that is set.
func (old oldOption) move(body *yaml.Node, to string, key, value *yaml.Node) {
	value = old.current(value)
	given := find(body, to)
	switch {
	case given == nil:
		body.Content = append(body.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: to, Line: key.Line, Column: key.Column}, value)
	case old.words && given.Kind == yaml.SequenceNode:
		given.Content = append(given.Content, value.Content...)
	case !isSet(strictyaml.Value(given)) && !(old.inverted && given.ShortTag() == "!!bool"):
		*given = *value
	}
}

// current returns the value in the form of the new option. A value of a wrong type is kept, so that it is refused.
func (old oldOption) current(value *yaml.Node) *yaml.Node {
	is, isBool := strictyaml.Value(value).(bool)
	switch {
	case old.inverted && isBool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(!is), Line: value.Line, Column: value.Column}
	case old.words && value.Kind == yaml.ScalarNode:
		list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: value.Line, Column: value.Column}
		for word := range strings.FieldsFuncSeq(value.Value, func(r rune) bool { return r == ',' || r == ' ' }) {
			list.Content = append(list.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: word, Line: value.Line, Column: value.Column})
		}
		return list
	}
	return value
}

func (p *parser) migrated(i *Installer, at *yaml.Node, hint, format string, args ...any) {
	var one diag.List
	one.Warnf(p.Pos(at), hint, format, args...)
	if len(i.Migrated) < maxMistakes {
		i.Migrated = append(i.Migrated, one.Findings()...)
	}
}

// find returns the value of a key of a mapping, or nil. Names in lower case count, as in the table.
func find(mapping *yaml.Node, name string) *yaml.Node {
	if at := position(mapping, name); at >= 0 {
		return mapping.Content[at+1]
	}
	return nil
}

// take removes a key from a mapping and returns it with its value. A value of null counts as absent.
func take(mapping *yaml.Node, name string) (key, value *yaml.Node) {
	at := position(mapping, name)
	if at < 0 {
		return nil, nil
	}
	key, value = mapping.Content[at], mapping.Content[at+1]
	mapping.Content = slices.Delete(mapping.Content, at, at+2)
	if value.ShortTag() == "!!null" {
		return nil, nil
	}
	return key, value
}

func position(mapping *yaml.Node, name string) int {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return -1
	}
	for at := 0; at+1 < len(mapping.Content); at += 2 {
		if key := mapping.Content[at].Value; key == name || key == strings.ToLower(name) {
			return at
		}
	}
	return -1
}

// listedBodies returns the values of the spec's keys that the table lists, by their key there. A key counts in any spelling.
func listedBodies(spec *yaml.Node) map[string]*yaml.Node {
	bodies := map[string]*yaml.Node{}
	for at := 0; at+1 < len(spec.Content); at += 2 {
		if s, listed := known(spec.Content[at].Value); listed && bodies[s.key] == nil {
			bodies[s.key] = spec.Content[at+1]
		}
	}
	return bodies
}

// newBody creates an empty value of a section, and the section if body is nil. key is its position.
func newBody(spec, body *yaml.Node, section string, key *yaml.Node) *yaml.Node {
	if body == nil {
		body = &yaml.Node{}
		spec.Content = append(spec.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: section, Line: key.Line, Column: key.Column}, body)
	}
	*body = yaml.Node{Kind: yaml.MappingNode, Line: key.Line, Column: key.Column}
	return body
}

// unchosen reports whether an Installer names an add-on without choosing it. An empty version means that in kURL, whose scripts skip
// such an add-on; kubernetes must have one. In LegacyAPIVersion, a missing version and null also mean it.
func (p *parser) unchosen(key string, body *yaml.Node) bool {
	version := find(body, "version")
	given := version != nil && version.Kind == yaml.ScalarNode && version.ShortTag() != "!!null"
	if given && version.Value != "" || !given && (!p.legacy || p.partial) {
		return false // most are
	}
	s, listed := known(key)
	switch {
	case s.versionless || s.key == "kubernetes":
		return false
	case given:
		return true
	}
	return listed && slices.Contains(unversioned(), s.key) && (version == nil || version.Kind == yaml.ScalarNode)
}
