package cosign

import (
	"crypto"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/bundle/ocilayout"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/strictyaml"
)

// Others is the prefix of the rule for images that no other rule names.
const Others = "*"

// Policy says whose signatures images must have. The zero value demands none. Its form is a mapping of prefixes of repositories to rules:
//
//	registry.k8s.io:                  # the longest prefix wins; "*" is for all other images
//	  trustedRoot: trusted_root.json  # of identities: a file beside this one, or its text
//	  identities:
//	  - issuer: https://accounts.google.com
//	    subject: krel-trust@k8s-releng-prod.iam.gserviceaccount.com
//	ghcr.io/example:
//	  keys: [example.pub]             # files beside this one, or PEM
//	  attestations: [https://slsa.dev/provenance/v1]  # that count as signatures, too
//	docker.io/library:
//	  unsigned: true                  # demands nothing
type Policy struct {
	file  string
	rules []Rule // the longest prefix first
	files []string
}

// Rule says whose signature images with a prefix must have: one of the keys, or one of the identities.
type Rule struct {
	Prefix     string     `json:"prefix"`
	Keys       []Key      `json:"keys,omitempty"`
	Identities []Identity `json:"identities,omitempty"`
	// TrustedRoot has the authorities and logs that Identities are verified with, as sigstore's trusted_root.json.
	TrustedRoot []byte `json:"trustedRoot,omitempty"`
	// Attestations are types of in-toto statements in sigstore bundles that count as signatures.
	Attestations []string `json:"attestations,omitempty"`
	Unsigned     bool     `json:"unsigned,omitempty"` // demands nothing
}

// Identity is who had a certificate when it signed.
type Identity struct {
	Issuer string `json:"issuer"` // URL of the OpenID Connect issuer
	// Subject is the subject alternative name: an address of mail, or the URL of a workflow. A * stands for any text.
	Subject string `json:"subject"`
}

func (i Identity) String() string { return fmt.Sprintf("identity %s of %s", i.Subject, i.Issuer) }

// Rules lists the rules, the longest prefix first.
func (p Policy) Rules() []Rule { return p.rules }

// File is the name of the file that has the policy.
func (p Policy) File() string { return p.file }

// Files lists the files that the policy was read from, beside its own.
func (p Policy) Files() []string { return p.files }

// Digest identifies the policy with all its keys, in hex. It is empty for a policy without rules.
func (p Policy) Digest() (string, error) {
	if len(p.rules) == 0 {
		return "", nil
	}
	data, err := json.Marshal(p.rules)
	if err != nil {
		return "", fmt.Errorf("encode the policy of signatures: %w", err)
	}
	return hex.EncodeToString(sum(crypto.SHA256, data)), nil
}

// For returns the rule for a repository, such as registry.k8s.io/pause.
func (p Policy) For(repository string) (Rule, bool) {
	for _, r := range p.rules {
		if r.Prefix == Others || ocilayout.Below(repository, r.Prefix) {
			return r, true
		}
	}
	return Rule{}, false
}

// Demands reports whether an image of a repository must have a signature.
func (p Policy) Demands(repository string) bool {
	r, ok := p.For(repository)
	return ok && !r.Unsigned
}

// ReadPolicy reads a policy from a node of a YAML document. The files that it names lie beside the document. Mistakes are reported to r.
func ReadPolicy(r *strictyaml.Reader, n *yaml.Node) Policy {
	p := Policy{file: r.Name}
	if !r.IsMapping(n, "signatures") {
		return p
	}
	for at := 0; at+1 < len(n.Content); at += 2 {
		key, value := n.Content[at], n.Content[at+1]
		if err := checkPrefix(key.Value); err != nil {
			r.Errorf(r.Pos(key), `write it in full, such as docker.io/library/busybox, or "*"`, "signatures: %v", err)
		}
		p.rules = append(p.rules, p.rule(r, key, value))
	}
	slices.SortStableFunc(p.rules, func(a, b Rule) int {
		if a.Prefix == Others || b.Prefix == Others {
			return strings.Count(a.Prefix, Others) - strings.Count(b.Prefix, Others)
		}
		return len(b.Prefix) - len(a.Prefix)
	})
	return p
}

// LoadPolicy reads a policy from a file that has signatures, as sealift.yaml has them, and nothing else.
func LoadPolicy(path string) (p Policy, err error) {
	text, err := regularfile.ReadAtMost(path, strictyaml.MaxFile)
	if err != nil {
		return p, err
	}
	r := &strictyaml.Reader{Name: path}
	if root := r.Mapping(text); root != nil {
		n := r.Fields(root, "a policy of images", "signatures")["signatures"]
		if n == nil {
			return p, fmt.Errorf("%s has no signatures", path)
		}
		p = ReadPolicy(r, n)
	}
	return p, r.Err()
}

// checkPrefix refuses what is not the beginning of the full name of a repository, since it would match nothing.
func checkPrefix(prefix string) error {
	if prefix == Others {
		return nil
	}
	host, path, _ := strings.Cut(prefix, "/")
	full := strings.ContainsAny(host, ".:") || host == "localhost"
	if !full || strings.Trim(prefix, "/") != prefix || strings.ContainsAny(path, ":@*") || strings.ContainsAny(prefix, " \t*") || strings.ToLower(prefix) != prefix {
		return fmt.Errorf("%q is not the beginning of a repository's name", prefix)
	}
	return nil
}

func (p *Policy) rule(r *strictyaml.Reader, key, n *yaml.Node) Rule {
	rule, what := Rule{Prefix: key.Value}, "signatures of "+key.Value
	if !r.IsMapping(n, what) {
		return rule
	}
	fields := r.Fields(n, what, "keys", "identities", "trustedRoot", "attestations", "unsigned")
	for _, item := range r.Items(fields["keys"], "keys") {
		text, name := p.content(r, item, "a key", "-----BEGIN")
		k, err := parseKey(name, text)
		if err != nil && text != nil {
			r.Errorf(r.Pos(item), "", "%s: %v", what, err)
		}
		rule.Keys = append(rule.Keys, k)
	}
	for _, item := range r.Items(fields["identities"], "identities") {
		rule.Identities = append(rule.Identities, identity(r, item))
	}
	if n := fields["trustedRoot"]; n != nil {
		rule.TrustedRoot, _ = p.content(r, n, "trustedRoot", "{")
	}
	for _, item := range r.Items(fields["attestations"], "attestations") {
		rule.Attestations = append(rule.Attestations, r.Text(item, "an element of attestations"))
	}
	if n := fields["unsigned"]; n != nil {
		if rule.Unsigned = n.Value == "true" && n.ShortTag() == "!!bool"; !rule.Unsigned {
			r.Errorf(r.Pos(n), "leave it out to demand a signature", "unsigned can only be true")
		}
	}
	if err := rule.check(); err != nil {
		r.Errorf(r.Pos(key), "", "%s: %v", what, err)
	}
	return rule
}

// check refuses a rule that demands nothing by mistake, or more than it can verify.
func (r Rule) check() error {
	demands := len(r.Keys)+len(r.Identities) > 0
	switch {
	case r.Unsigned && demands:
		return errors.New("unsigned: true demands nothing, and keys and identities do; keep one of them")
	case !r.Unsigned && !demands:
		return errors.New("name keys or identities, or say unsigned: true")
	case len(r.Identities) > 0 && r.TrustedRoot == nil:
		return errors.New("identities are verified with a trustedRoot, such as sigstore's trusted_root.json")
	}
	return nil
}

func identity(r *strictyaml.Reader, n *yaml.Node) (i Identity) {
	if !r.IsMapping(n, "an identity") {
		return i
	}
	fields := r.Fields(n, "an identity", "issuer", "subject")
	for name, to := range map[string]*string{"issuer": &i.Issuer, "subject": &i.Subject} {
		if fields[name] != nil {
			*to = r.Text(fields[name], name)
		}
		if *to == "" {
			r.Errorf(r.Pos(n), "", "an identity needs %s", name)
		}
	}
	return i
}

// content is Reader.Content. It remembers the files that it read.
func (p *Policy) content(r *strictyaml.Reader, n *yaml.Node, what, begins string) (text []byte, name string) {
	text, name, path := r.Content(n, what, begins)
	if path != "" {
		p.files = append(p.files, path)
	}
	return text, name
}
