// Package keyless verifies signatures of identities: somebody logged in at an OpenID Connect issuer, got a certificate of a few minutes from
// sigstore's authority, signed, and left an entry in a public log. The authorities and the logs are those of a trusted root, which is a file.
//
// The package sends no request: what it verifies with is in the trusted root, and what it verifies is attached to the image.
package keyless

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/sealift/sealift/bundle/cosign"
)

// Verifier verifies the identities of a policy.
type Verifier struct {
	rules map[string]rule // by prefix
}

type rule struct {
	verifier   *verify.Verifier
	identities []verify.PolicyOption
}

var _ cosign.Keyless = (*Verifier)(nil)

// New reads the trusted roots of a policy.
func New(p cosign.Policy) (*Verifier, error) {
	v := &Verifier{rules: make(map[string]rule)}
	var errs []error
	for _, r := range p.Rules() {
		if len(r.Identities) == 0 {
			continue
		}
		made, err := newRule(r)
		if err != nil {
			errs = append(errs, fmt.Errorf("signatures of %s in %s: %w", r.Prefix, p.File(), err))
		}
		v.rules[r.Prefix] = made
	}
	return v, errors.Join(errs...)
}

func newRule(r cosign.Rule) (rule, error) {
	trusted, err := root.NewTrustedRootFromJSON(r.TrustedRoot)
	if err != nil {
		return rule{}, fmt.Errorf("trustedRoot: %w", err)
	}
	made := rule{}
	if made.verifier, err = verify.NewVerifier(trusted, evidenceOf(trusted)...); err != nil {
		return rule{}, fmt.Errorf("trustedRoot: %w", err)
	}
	for _, i := range r.Identities {
		identity, err := verify.NewShortCertificateIdentity(i.Issuer, "", "", pattern(i.Subject))
		if err != nil {
			return rule{}, err
		}
		made.identities = append(made.identities, verify.WithCertificateIdentity(identity))
	}
	return made, nil
}

// evidenceOf returns what a signature must have: an entry in a log and a timestamp in its certificate's log, unless the trusted root has no such
// logs, as that of an authority that keeps none. Then a timestamp authority must have seen the signature.
func evidenceOf(trusted *root.TrustedRoot) (demands []verify.VerifierOption) {
	if len(trusted.RekorLogs()) > 0 {
		demands = append(demands, verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1))
	} else {
		demands = append(demands, verify.WithSignedTimestamps(1))
	}
	if len(trusted.CTLogs()) > 0 {
		demands = append(demands, verify.WithSignedCertificateTimestamps(1))
	}
	return demands
}

// pattern is a subject as a regular expression of all of it; a * stands for any text.
func pattern(subject string) string {
	return "^" + strings.ReplaceAll(regexp.QuoteMeta(subject), `\*`, ".*") + "$"
}

// Verify returns the identity that signed the image with a digest, if it is one of the rule's.
func (v *Verifier) Verify(r cosign.Rule, s cosign.Signature, digest string) (string, error) {
	by, ok := v.rules[r.Prefix]
	if !ok {
		return "", fmt.Errorf("the rule for %s has no trusted root", r.Prefix)
	}
	if s.Bundle == nil {
		entity, err := simple(s)
		if err != nil {
			return "", err
		}
		result, err := by.verifier.Verify(entity, verify.NewPolicy(verify.WithArtifact(bytes.NewReader(s.Payload)), by.identities...))
		if err != nil {
			return "", err
		}
		return who(result), cosign.CheckPayload(s.Payload, digest)
	}
	entity := new(bundle.Bundle)
	if err := entity.UnmarshalJSON(s.Bundle); err != nil {
		return "", err
	}
	sum, err := hex.DecodeString(strings.TrimPrefix(digest, "sha256:"))
	if err != nil {
		return "", err
	}
	result, err := by.verifier.Verify(entity, verify.NewPolicy(verify.WithArtifactDigest("sha256", sum), by.identities...))
	if err != nil {
		return "", err
	}
	if result.Statement == nil {
		return "", errors.New("its bundle has no statement")
	}
	return who(result), r.CheckPredicate(result.Statement.GetPredicateType())
}

func who(r *verify.VerificationResult) string {
	c := r.Signature.Certificate
	return cosign.Identity{Issuer: c.Issuer, Subject: c.SubjectAlternativeName}.String()
}
