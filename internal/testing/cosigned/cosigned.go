// Package cosigned signs images as cosign does, with keys that a test makes.
package cosigned

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/cosign"
	"github.com/sealift/sealift/bundle/ocilayout"
)

// BundleType is the type of a sigstore bundle of version 0.3.
const BundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// Signer signs with a key.
type Signer struct{ key crypto.Signer }

// Keys makes a signer of each kind of key that cosign has.
func Keys(t testing.TB) map[string]Signer {
	t.Helper()
	made := make(map[string]Signer)
	add := func(name string, key crypto.Signer, err error) {
		if err != nil {
			t.Fatal(err)
		}
		made[name] = Signer{key}
	}
	for _, curve := range []elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		add("ECDSA "+curve.Params().Name, key, err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	add("RSA", rsaKey, err)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	add("Ed25519", edKey, err)
	return made
}

// New makes a signer with an ECDSA key on P-256, as 'cosign generate-key-pair' does.
func New(t testing.TB) Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return Signer{key}
}

// Public is the public key in PEM.
func (s Signer) Public(t testing.TB) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(s.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// Sign signs data, with SHA-256 if the key signs a hash.
func (s Signer) Sign(t testing.TB, data []byte) []byte {
	t.Helper()
	var options crypto.SignerOpts = crypto.SHA256
	if _, ok := s.key.(ed25519.PrivateKey); ok {
		options = crypto.Hash(0)
	} else {
		sum := sha256.Sum256(data)
		data = sum[:]
	}
	signature, err := s.key.Sign(rand.Reader, data, options)
	if err != nil {
		t.Fatal(err)
	}
	return signature
}

// Payload is what cosign signs for the image with a digest.
func Payload(image string) []byte {
	return fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":"registry.example.io/app"},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":null}`, image)
}

// Tag is the tag under which cosign keeps the signatures of an image.
func Tag(image string) string { return strings.Replace(image, ":", "-", 1) + ".sig" }

// Simple is a manifest with a payload and its signature, as cosign keeps it under Tag.
func (s Signer) Simple(t testing.TB, payload []byte) v1.Image {
	t.Helper()
	return Annotated(t, payload, map[string]string{cosign.SignatureAnnotation: base64.StdEncoding.EncodeToString(s.Sign(t, payload))})
}

// Annotated is a manifest with a payload of simple signing that has these annotations.
func Annotated(t testing.TB, payload []byte, annotations map[string]string) v1.Image {
	t.Helper()
	made, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{
		Layer: static.NewLayer(payload, cosign.SimpleSigning), Annotations: annotations,
	})
	if err != nil {
		t.Fatal(err)
	}
	return mutate.ConfigMediaType(made, types.OCIConfigJSON)
}

// Statement is an in-toto statement about the image with a digest.
func Statement(image, predicate string) []byte {
	return fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"","digest":{"sha256":%q}}],"predicateType":%q,"predicate":{}}`,
		strings.TrimPrefix(image, "sha256:"), predicate)
}

// Bundle is a sigstore bundle with a statement that the key signed.
func (s Signer) Bundle(t testing.TB, statement []byte) []byte {
	t.Helper()
	const payloadType = "application/vnd.in-toto+json"
	signature := s.Sign(t, fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(statement), statement))
	data, err := json.Marshal(map[string]any{
		"mediaType":            BundleType,
		"verificationMaterial": map[string]any{"publicKey": map[string]string{"hint": "key"}},
		"dsseEnvelope":         map[string]any{"payload": statement, "payloadType": payloadType, "signatures": []any{map[string]any{"sig": signature}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Referrer is a manifest that refers to an image, with a sigstore bundle.
func Referrer(t testing.TB, content []byte, subject v1.Descriptor) v1.Image {
	t.Helper()
	made, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), static.NewLayer(content, BundleType))
	if err != nil {
		t.Fatal(err)
	}
	return mutate.Subject(mutate.ConfigMediaType(made, BundleType), subject).(v1.Image)
}

// Files are the files of a package app 1.0 that attach manifests to an image, beside those of imagepackage.WriteImage.
func Files(t testing.TB, ref, subject string, attached ...v1.Image) (files []bundle.File) {
	t.Helper()
	const dir = "addons/app/1.0/images/"
	list := ocispec.Index{MediaType: ocispec.MediaTypeImageIndex}
	add := func(data []byte, err error) digest.Digest {
		if err != nil {
			t.Fatal(err)
		}
		d := digest.FromBytes(data)
		name := dir + ocilayout.Path(d)
		if !slices.ContainsFunc(files, func(f bundle.File) bool { return f.Path == name }) {
			files = append(files, bundle.BytesFile(name, 0o644, data))
		}
		return d
	}
	for _, one := range attached {
		d := add(one.RawManifest())
		add(one.RawConfigFile())
		layers, err := one.Layers()
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range layers {
			r, err := l.Compressed()
			if err != nil {
				t.Fatal(err)
			}
			add(io.ReadAll(r))
		}
		list.Manifests = append(list.Manifests, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: d, Annotations: map[string]string{
			ocispec.AnnotationRefName: ocilayout.Repository(ref) + "@" + d.String(), bundle.SubjectAnnotation: subject,
		}})
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return append(files, bundle.BytesFile(dir+bundle.ReferrersName, 0o644, text))
}
