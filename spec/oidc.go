package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/internal/strictyaml"
	"github.com/sealift/sealift/internal/trust"
)

// OIDC is the option kubernetes.oidc: who logs people in to the cluster, and what groups of people may do.
type OIDC struct {
	Issuers []Issuer `json:"issuers"`
	// The groups have the names that they have in the cluster, with the prefix of their issuer.
	Admins    []string `json:"admins,omitempty"`    // may do everything
	Operators []string `json:"operators,omitempty"` // may change what runs in all namespaces
	Viewers   []string `json:"viewers,omitempty"`   // may read all namespaces, except Secrets
}

// Issuer signs the tokens of people.
type Issuer struct {
	URL           string   `json:"url"`                     // https, as in the claim iss of its tokens
	Audiences     []string `json:"audiences"`               // a token must be for one of them; the first is the client ID of people
	CACertificate string   `json:"caCertificate,omitempty"` // PEM; "" for the CAs of the system
	CAFile        string   `json:"caFile,omitempty"`        // of the host that makes or changes the cluster, instead of CACertificate
	Claims        Claims   `json:"claims"`
}

// Claims are the parts of a token that name a person and the groups. A prefix may be empty.
type Claims struct {
	Username       string `json:"username"`
	UsernamePrefix string `json:"usernamePrefix"`
	Groups         string `json:"groups"`
	GroupsPrefix   string `json:"groupsPrefix"`
}

// The claims of an issuer that sets none, and the prefix that keeps its names apart from those of certificates.
const (
	defaultUsername = "sub"
	defaultGroups   = "groups"
	defaultPrefix   = "oidc:"
)

// maxIssuers is how many of them an API server takes.
const maxIssuers = 64

// ownIssuer begins the issuers of a cluster's own tokens, those of service accounts.
const ownIssuer = "https://kubernetes.default.svc"

// ReservedNames says which names belong to the cluster: see ReservedPrefixes.
const ReservedNames = "names that begin with system:, sealift: or kubeadm: belong to the cluster"

// ReservedPrefixes begin the names of people and groups that belong to the cluster. kubeadm binds kubeadm:cluster-admins to cluster-admin.
func ReservedPrefixes() []string { return []string{"system:", "sealift:", "kubeadm:"} }

// ReservedName reports whether a name of a person or group belongs to the cluster. No issuer may give it to somebody.
func ReservedName(name string) bool {
	return slices.ContainsFunc(ReservedPrefixes(), func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// OIDC returns the Installer's kubernetes.oidc, or nil if it has none.
func (i *Installer) OIDC() (*OIDC, error) { return ReadOIDC(i.AddOn("kubernetes").Options["oidc"]) }

// ReadOIDC reads the value of kubernetes.oidc; nil stays nil. The error names every mistake by its path, such as
// kubernetes.oidc.issuers[0].url.
func ReadOIDC(value any) (*OIDC, error) {
	if value == nil {
		return nil, nil
	}
	r := &oidcReader{}
	o := r.oidc(value)
	if len(r.mistakes) > 0 {
		return nil, errors.New(strings.Join(r.mistakes, "; "))
	}
	return o, nil
}

// ParseOIDC reads kubernetes.oidc as JSON, as the cluster and its control planes keep it; an empty text is nil.
func ParseOIDC(text []byte) (*OIDC, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, err
	}
	return ReadOIDC(value)
}

// oidc checks the option where the document has it.
func (p *parser) oidc(n *yaml.Node) {
	r := &oidcReader{}
	r.oidc(strictyaml.Value(n))
	for _, mistake := range r.mistakes {
		p.Errorf(p.Pos(n), "", "%s", mistake)
	}
}

// oidcReader reads values of YAML or JSON, and collects mistakes.
type oidcReader struct{ mistakes []string }

func (r *oidcReader) wrong(path, format string, args ...any) {
	if len(r.mistakes) < maxMistakes {
		r.mistakes = append(r.mistakes, path+" "+fmt.Sprintf(format, args...))
	}
}

// mapping returns a mapping with known keys only.
func (r *oidcReader) mapping(path string, value any, known ...string) map[string]any {
	all, ok := value.(map[string]any)
	if !ok {
		r.wrong(path, "must be a mapping of %s", strings.Join(known, ", "))
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains(known, key) {
			hint := diag.DidYouMean(key, known, "known: ")
			r.wrong(path+"."+key, "is not known (%s)", strings.TrimSpace(hint))
		}
	}
	return all
}

// text returns a string; initial if the mapping does not have it.
func (r *oidcReader) text(path string, of map[string]any, key, initial string) string {
	value, given := of[key]
	if !given || value == nil {
		return initial
	}
	text, ok := value.(string)
	if !ok {
		r.wrong(path+"."+key, "must be a string")
	}
	return text
}

// list returns the elements of a list; nil if the mapping does not have it.
func (r *oidcReader) list(path string, of map[string]any, key string) []any {
	value := of[key]
	if value == nil {
		return nil
	}
	all, ok := value.([]any)
	if !ok {
		r.wrong(path+"."+key, "must be a list")
	}
	return all
}

// names returns a list of different words that a person can see.
func (r *oidcReader) names(path string, of map[string]any, key string) (names []string) {
	for n, value := range r.list(path, of, key) {
		at := fmt.Sprintf("%s.%s[%d]", path, key, n)
		name, _ := value.(string)
		switch {
		case name == "" || !visible(name):
			r.wrong(at, "must be a word that can be seen")
		case slices.Contains(names, name):
			r.wrong(at, "is %q a second time", name)
		}
		names = append(names, name)
	}
	return names
}

func visible(name string) bool {
	return !strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsGraphic(c) || c == unicode.ReplacementChar })
}

func (r *oidcReader) oidc(value any) *OIDC {
	const path = "kubernetes.oidc"
	of := r.mapping(path, value, "issuers", "admins", "operators", "viewers")
	if of == nil {
		return nil
	}
	o := &OIDC{Admins: r.groups(path, of, "admins"), Operators: r.groups(path, of, "operators"), Viewers: r.groups(path, of, "viewers")}
	seen := map[string]bool{}
	for n, value := range r.list(path, of, "issuers") {
		at := fmt.Sprintf("%s.issuers[%d]", path, n)
		i := r.issuer(at, value)
		if seen[i.URL] && i.URL != "" {
			r.wrong(at+".url", "is %q a second time", i.URL)
		}
		seen[i.URL] = true
		o.Issuers = append(o.Issuers, i)
	}
	if len(o.Issuers) == 0 || len(o.Issuers) > maxIssuers {
		r.wrong(path+".issuers", "must have between 1 and %d issuers; leave out kubernetes.oidc for a cluster without one", maxIssuers)
	}
	return o
}

// groups returns groups that a binding may name.
func (r *oidcReader) groups(path string, of map[string]any, key string) []string {
	names := r.names(path, of, key)
	for n, name := range names {
		if ReservedName(name) {
			r.wrong(fmt.Sprintf("%s.%s[%d]", path, key, n), "is %q; %s", name, ReservedNames)
		}
	}
	return names
}

func (r *oidcReader) issuer(path string, value any) (i Issuer) {
	of := r.mapping(path, value, "url", "audiences", "caCertificate", "caFile", "claims")
	if of == nil {
		return i
	}
	i = Issuer{URL: r.text(path, of, "url", ""), Audiences: r.names(path, of, "audiences"), CACertificate: r.text(path, of, "caCertificate", ""), CAFile: r.text(path, of, "caFile", "")}
	r.url(path+".url", i.URL)
	if len(i.Audiences) == 0 {
		r.wrong(path+".audiences", "must name the client ID that people log in with")
	}
	if i.CACertificate != "" {
		if _, err := trust.Parse([]byte(i.CACertificate)); err != nil {
			r.wrong(path+".caCertificate", "%v", err)
		}
	}
	if i.CAFile != "" && (i.CACertificate != "" || !strings.HasPrefix(i.CAFile, "/")) {
		r.wrong(path+".caFile", "must be the absolute path of a file on the host, and caCertificate must not be set beside it")
	}
	i.Claims = r.claims(path+".claims", of["claims"])
	return i
}

func (r *oidcReader) url(path, text string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#") || !visible(text):
		r.wrong(path, "is %q; write a URL such as https://login.example.org/realms/site, without a user, a query or a fragment", text)
	case strings.HasPrefix(text, ownIssuer):
		r.wrong(path, "is %q, the issuer of the cluster's own service accounts", text)
	}
}

func (r *oidcReader) claims(path string, value any) Claims {
	of := map[string]any{}
	if value != nil {
		of = r.mapping(path, value, "username", "usernamePrefix", "groups", "groupsPrefix")
	}
	c := Claims{Username: r.text(path, of, "username", defaultUsername), UsernamePrefix: r.text(path, of, "usernamePrefix", defaultPrefix),
		Groups: r.text(path, of, "groups", defaultGroups), GroupsPrefix: r.text(path, of, "groupsPrefix", defaultPrefix)}
	for _, one := range []struct {
		key, value string
		required   bool
	}{{"username", c.Username, true}, {"groups", c.Groups, true}, {"usernamePrefix", c.UsernamePrefix, false}, {"groupsPrefix", c.GroupsPrefix, false}} {
		switch {
		case one.required && one.value == "" || !visible(one.value):
			r.wrong(path+"."+one.key, "must be a word that can be seen")
		case ReservedName(one.value):
			r.wrong(path+"."+one.key, "is %q; %s", one.value, ReservedNames)
		}
	}
	return c
}

// oidcSchema is the JSON schema of the option. It cannot express all rules of ReadOIDC.
func oidcSchema() object {
	word := func(description string) object { return object{"type": "string", "description": description} }
	words := func(description string) object {
		return object{"type": []string{"array", "null"}, "items": object{"type": "string", "minLength": 1}, "description": description}
	}
	claims := object{"type": []string{"object", "null"}, "additionalProperties": false, "properties": object{
		"username": word("claim with the name of a person; default " + defaultUsername), "usernamePrefix": word("before the name; default " + defaultPrefix),
		"groups": word("claim with the groups; default " + defaultGroups), "groupsPrefix": word("before each group; default " + defaultPrefix),
	}}
	issuer := object{"type": "object", "required": []string{"url", "audiences"}, "additionalProperties": false, "properties": object{
		"url":           object{"type": "string", "pattern": "^https://[^?#]+$", "description": "as in the claim iss of its tokens"},
		"audiences":     object{"type": "array", "minItems": 1, "items": object{"type": "string", "minLength": 1}, "description": "client IDs; the first is that of people"},
		"caCertificate": word("CA of the issuer, in PEM"), "caFile": word("file with the CA of the issuer on the host that installs"), "claims": claims,
	}}
	return object{"type": []string{"object", "null"}, "required": []string{"issuers"}, "additionalProperties": false, "properties": object{
		"issuers": object{"type": "array", "minItems": 1, "maxItems": maxIssuers, "items": issuer},
		"admins":  words("groups that may do everything"), "operators": words("groups that may change what runs in all namespaces"),
		"viewers": words("groups that may read all namespaces, except Secrets"),
	}}
}
