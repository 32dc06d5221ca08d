// Package cosign reads the signatures that upstream attached to images, and verifies them by the policy of a site: cosign's simple signing and
// sigstore bundles, in cosign's tags and as OCI referrers. A signature counts if it names the digest of the image.
//
// The package verifies keys itself. Identities need a certificate authority and logs: a Keyless, which the caller gives, knows them. The package
// sends no request, and asks no log about keys.
package cosign

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// The media types of signatures.
const (
	// SimpleSigning is the type of a payload of cosign's own form. Its signature is in the annotations of the layer.
	SimpleSigning = "application/vnd.dev.cosign.simplesigning.v1+json"
	// bundlePrefix begins the types of sigstore bundles, such as application/vnd.dev.sigstore.bundle.v0.3+json.
	bundlePrefix = "application/vnd.dev.sigstore.bundle"
	dsseEnvelope = "application/vnd.dsse.envelope.v1+json"
	notation     = "application/vnd.cncf.notary.signature"
)

// The annotations of a layer with a payload of simple signing.
const (
	SignatureAnnotation   = "dev.cosignproject.cosign/signature"   // base64
	CertificateAnnotation = "dev.sigstore.cosign/certificate"      // PEM
	LogAnnotation         = "dev.sigstore.cosign/bundle"           // JSON: the entry in the log, and what the log signed
	TimestampAnnotation   = "dev.sigstore.cosign/rfc3161timestamp" // JSON: what a timestamp authority signed
)

// SignPredicate is the type of the statement by which cosign signs an image in a sigstore bundle.
const SignPredicate = "https://sigstore.dev/cosign/sign/v1"

// sigstoreBundle is the word for a bundle, which has a signature or an attestation.
const sigstoreBundle = "sigstore bundle"

const (
	// maxSignatures bounds the signatures of one image.
	maxSignatures = 1000
	// maxContent bounds a signature or a bundle, in bytes.
	maxContent = 4 << 20
)

// Image is an image with what upstream attached to it.
type Image struct {
	Ref    string // as upstream names it
	Digest string // of its index, or of its only manifest: sha256:<hex>
	// Attached are the manifests that are attached to Digest itself.
	Attached []digest.Digest
	// Read returns a manifest or a layer with a digest, which it has checked.
	Read func(d digest.Digest) ([]byte, error)
}

// Signature is a signature of an image, or an attestation in a sigstore bundle.
type Signature struct {
	Manifest digest.Digest // what it is in
	// Payload is what was signed, of cosign's simple signing.
	Payload     []byte
	Annotations map[string]string // of Payload
	// Bundle is a sigstore bundle, JSON. It is nil for simple signing.
	Bundle []byte

	fault error // why it was not read
}

// name returns a short name of a signature, for messages.
func (s Signature) name() string {
	hex := s.Manifest.Encoded()
	return fmt.Sprintf("signature %s…", hex[:min(12, len(hex))])
}

// Value returns the signature of Payload.
func (s Signature) Value() ([]byte, error) {
	text := s.Annotations[SignatureAnnotation]
	if text == "" {
		return nil, fmt.Errorf("it lacks the annotation %s", SignatureAnnotation)
	}
	return base64.StdEncoding.DecodeString(text)
}

// collect reads what is attached to an image: its signatures, and words for all of it.
func collect(i Image) (signatures []Signature, attached []string, err error) {
	for _, d := range i.Attached {
		data, err := i.Read(d)
		if err != nil {
			return nil, nil, err
		}
		var m ocispec.Manifest
		if err := json.Unmarshal(data, &m); err != nil {
			attached = append(attached, "a damaged manifest")
			continue
		}
		if len(signatures)+len(m.Layers) > maxSignatures {
			return nil, nil, fmt.Errorf("image %s has more than %d signatures", i.Ref, maxSignatures)
		}
		attached = append(attached, kindOf(m))
		for _, layer := range m.Layers {
			simple := layer.MediaType == SimpleSigning
			if !simple && !strings.HasPrefix(layer.MediaType, bundlePrefix) {
				continue
			}
			if layer.Size > maxContent {
				signatures = append(signatures, Signature{Manifest: d, fault: fmt.Errorf("it has more than %d bytes", maxContent)})
				continue
			}
			content, err := i.Read(layer.Digest)
			if err != nil {
				return nil, nil, err
			}
			s := Signature{Manifest: d, Bundle: content}
			if simple {
				s = Signature{Manifest: d, Payload: content, Annotations: layer.Annotations}
			}
			signatures = append(signatures, s)
		}
	}
	return signatures, attached, nil
}

// kindOf names what a manifest is, by the types of its parts.
func kindOf(m ocispec.Manifest) string {
	for _, layer := range m.Layers {
		switch {
		case layer.MediaType == SimpleSigning:
			return "cosign signature"
		case layer.MediaType == dsseEnvelope:
			return "cosign attestation"
		case strings.HasPrefix(layer.MediaType, bundlePrefix):
			return sigstoreBundle
		}
	}
	for _, t := range []string{m.ArtifactType, m.Config.MediaType} {
		switch t {
		case notation:
			return "notation signature"
		case "", ocispec.MediaTypeEmptyJSON:
			continue
		}
		return t
	}
	return "attachment"
}

// payload is what cosign signs in simple signing.
type payload struct {
	Critical struct {
		Image struct {
			Digest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
}

// CheckPayload refuses a payload of simple signing that is not about the image with a digest.
func CheckPayload(data []byte, digest string) error {
	var p payload
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("its payload is not JSON: %w", err)
	}
	if p.Critical.Type != "cosign container image signature" {
		return fmt.Errorf("its payload has the type %q", p.Critical.Type)
	}
	if p.Critical.Image.Digest != digest {
		return fmt.Errorf("it is the signature of another image, %s", p.Critical.Image.Digest)
	}
	return nil
}

// statement is an in-toto statement.
type statement struct {
	Subject []struct {
		Digest map[string]string `json:"digest"`
	} `json:"subject"`
	PredicateType string `json:"predicateType"`
}

// CheckPredicate refuses a type of statements that a rule does not count as a signature.
func (r Rule) CheckPredicate(predicate string) error {
	if predicate == SignPredicate || slices.Contains(r.Attestations, predicate) {
		return nil
	}
	return fmt.Errorf("it is an attestation of the type %s, which attestations does not list", predicate)
}

// checkStatement refuses a statement that is not about the image with a digest, or that does not count.
func (r Rule) checkStatement(data []byte, want string) error {
	var s statement
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("its statement is not JSON: %w", err)
	}
	if err := r.CheckPredicate(s.PredicateType); err != nil {
		return err
	}
	for _, subject := range s.Subject {
		if "sha256:"+subject.Digest["sha256"] == want {
			return nil
		}
	}
	return errors.New("its statement is about another image")
}
