package keyless_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/testing/data"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sealift/sealift/builder/keyless"
	"github.com/sealift/sealift/bundle/cosign"
	"github.com/sealift/sealift/internal/strictyaml"
	"github.com/sealift/sealift/internal/testing/cosigned"
)

const (
	issuer  = "https://token.example.org"
	subject = "https://example.org/team/app/.github/workflows/release.yml@refs/tags/v1.2.3"
)

var app = digest.FromString("app").String()

func policy(t *testing.T, trusted []byte, issuer, subject string) (cosign.Policy, *keyless.Verifier) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "trusted_root.json"), trusted, 0o600); err != nil {
		t.Fatal(err)
	}
	r := &strictyaml.Reader{Name: filepath.Join(dir, "sealift.yaml")}
	p := cosign.ReadPolicy(r, r.Mapping(fmt.Appendf(nil, "'*': {trustedRoot: trusted_root.json, identities: [{issuer: %q, subject: %q}]}\n", issuer, subject)))
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	v, err := keyless.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return p, v
}

// trustedRoot is the file with which signatures of a sigstore of the test are verified. Its certificates are in no log.
func trustedRoot(t *testing.T, s *ca.VirtualSigstore, change func(*root.TransparencyLog)) []byte {
	t.Helper()
	logs := s.RekorLogs()
	for id, log := range logs {
		var err error
		if log.ID, err = hex.DecodeString(id); err != nil {
			t.Fatal(err)
		}
		change(log)
	}
	made, err := root.NewTrustedRoot(root.TrustedRootMediaType01, s.FulcioCertificateAuthorities(), nil, s.TimestampingAuthorities(), logs)
	if err != nil {
		t.Fatal(err)
	}
	text, err := made.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func asIs(*root.TransparencyLog) {}

func sigstore(t *testing.T) *ca.VirtualSigstore {
	t.Helper()
	s, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// parts are the parts of a signature of an identity.
type parts struct {
	certificate []byte
	content     verify.SignatureContent
	entry       *protorekor.TransparencyLogEntry
}

// take returns the parts of a signature. Its entry in the log has the log's promise.
func take(t *testing.T, s *ca.VirtualSigstore, e *ca.TestEntity, err error) (p parts) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	content, err := e.VerificationContent()
	if err != nil {
		t.Fatal(err)
	}
	if p.content, err = e.SignatureContent(); err != nil {
		t.Fatal(err)
	}
	entries, err := e.TlogEntries()
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	p.certificate, p.entry = content.Certificate().Raw, entries[0].TransparencyLogEntry()
	var body struct{ Kind, APIVersion string }
	if err := json.Unmarshal(p.entry.CanonicalizedBody, &body); err != nil {
		t.Fatal(err)
	}
	promise, err := s.RekorSignPayload(tlog.RekorPayload{
		Body: p.entry.CanonicalizedBody, IntegratedTime: p.entry.IntegratedTime, LogIndex: p.entry.LogIndex, LogID: hex.EncodeToString(p.entry.LogId.KeyId),
	})
	if err != nil {
		t.Fatal(err)
	}
	p.entry.KindVersion = &protorekor.KindVersion{Kind: body.Kind, Version: body.APIVersion}
	p.entry.InclusionPromise = &protorekor.InclusionPromise{SignedEntryTimestamp: promise}
	return p
}

// simple signs as cosign does without bundles: what verifies the signature is in annotations.
func simple(t *testing.T, s *ca.VirtualSigstore, payload []byte) cosign.Signature {
	t.Helper()
	e, err := s.Sign(subject, issuer, payload)
	p := take(t, s, e, err)
	log, err := json.Marshal(map[string]any{
		"SignedEntryTimestamp": p.entry.InclusionPromise.SignedEntryTimestamp,
		"Payload": map[string]any{
			"body": p.entry.CanonicalizedBody, "integratedTime": p.entry.IntegratedTime, "logIndex": p.entry.LogIndex, "logID": hex.EncodeToString(p.entry.LogId.KeyId),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return cosign.Signature{Payload: payload, Annotations: map[string]string{
		cosign.SignatureAnnotation:   base64.StdEncoding.EncodeToString(p.content.Signature()),
		cosign.CertificateAnnotation: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.certificate})),
		cosign.LogAnnotation:         string(log),
	}}
}

// inBundle signs a statement in a sigstore bundle.
func inBundle(t *testing.T, s *ca.VirtualSigstore, statement []byte) cosign.Signature {
	t.Helper()
	e, err := s.AttestAtTime(subject, issuer, statement, time.Now().Add(5*time.Minute), true)
	p := take(t, s, e, err)
	sealed := p.content.EnvelopeContent().RawEnvelope()
	var signatures []*protodsse.Signature
	for _, one := range sealed.Signatures {
		value, err := base64.StdEncoding.DecodeString(one.Sig)
		if err != nil {
			t.Fatal(err)
		}
		signatures = append(signatures, &protodsse.Signature{Sig: value})
	}
	text, err := protojson.Marshal(&protobundle.Bundle{
		MediaType: cosigned.BundleType,
		VerificationMaterial: &protobundle.VerificationMaterial{
			Content:     &protobundle.VerificationMaterial_Certificate{Certificate: &protocommon.X509Certificate{RawBytes: p.certificate}},
			TlogEntries: []*protorekor.TransparencyLogEntry{p.entry},
		},
		Content: &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{Payload: statement, PayloadType: sealed.PayloadType, Signatures: signatures}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return cosign.Signature{Bundle: text}
}

func TestIdentityIsVerified(t *testing.T) {
	s := sigstore(t)
	trusted := trustedRoot(t, s, asIs)
	p, v := policy(t, trusted, issuer, "https://example.org/team/app/.github/workflows/release.yml@refs/tags/*")
	for form, signature := range map[string]cosign.Signature{
		"annotations": simple(t, s, cosigned.Payload(app)), "bundle": inBundle(t, s, cosigned.Statement(app, cosign.SignPredicate)),
	} {
		who, err := v.Verify(p.Rules()[0], signature, app)
		if err != nil || who != "identity "+subject+" of "+issuer {
			t.Errorf("%s: %q, %v", form, who, err)
		}
		for name, row := range map[string][2]string{
			"another subject":         {issuer, "https://example.org/team/other/*"},
			"a subject with more":     {issuer, strings.TrimSuffix(subject, "3")},
			"another issuer":          {"https://accounts.example.org", subject},
			"a dot that is not a dot": {issuer, strings.Replace(subject, "example.org", "example-org", 1)},
		} {
			p, v := policy(t, trusted, row[0], row[1])
			if who, err := v.Verify(p.Rules()[0], signature, app); err == nil {
				t.Errorf("%s, %s: it is by %s", form, name, who)
			}
		}
		if _, err := v.Verify(p.Rules()[0], signature, digest.FromString("other").String()); err == nil {
			t.Errorf("%s: another image passes", form)
		}
		p, v := policy(t, trustedRoot(t, sigstore(t), asIs), issuer, subject)
		if _, err := v.Verify(p.Rules()[0], signature, app); err == nil {
			t.Errorf("%s: another sigstore passes", form)
		}
	}
}

// TestEvidenceOfIdentityIsNeeded takes parts of signatures away, and changes them.
func TestEvidenceOfIdentityIsNeeded(t *testing.T) {
	s := sigstore(t)
	trusted := trustedRoot(t, s, asIs)
	p, v := policy(t, trusted, issuer, subject)
	whole := simple(t, s, cosigned.Payload(app))
	for name, row := range map[string]struct{ annotation, value, want string }{
		"no certificate":           {cosign.CertificateAnnotation, "", "no certificate of an identity"},
		"no entry in the log":      {cosign.LogAnnotation, "", "not enough verified"},
		"an entry that is cut":     {cosign.LogAnnotation, "{", "its annotation " + cosign.LogAnnotation},
		"the entry of another":     {cosign.LogAnnotation, simple(t, s, cosigned.Payload(app)).Annotations[cosign.LogAnnotation], ""},
		"a timestamp of nobody":    {cosign.TimestampAnnotation, "{", "its annotation " + cosign.TimestampAnnotation},
		"the signature of another": {cosign.SignatureAnnotation, simple(t, s, cosigned.Payload(app)).Annotations[cosign.SignatureAnnotation], ""},
	} {
		changed := whole
		changed.Annotations = maps.Clone(whole.Annotations)
		changed.Annotations[row.annotation] = row.value
		if _, err := v.Verify(p.Rules()[0], changed, app); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want %s", name, err, row.want)
		}
	}
	sealed := inBundle(t, s, cosigned.Statement(app, "https://slsa.dev/provenance/v1"))
	if _, err := v.Verify(p.Rules()[0], sealed, app); err == nil || !strings.Contains(err.Error(), "an attestation of the type") {
		t.Errorf("an attestation: %v", err)
	}
	expired := trustedRoot(t, s, func(log *root.TransparencyLog) { log.ValidityPeriodEnd = time.Now().Add(-time.Minute) })
	p, v = policy(t, expired, issuer, subject)
	if _, err := v.Verify(p.Rules()[0], whole, app); err == nil {
		t.Error("an entry in a log after its end passes")
	}
}

// TestPublicSigstoreIsVerified uses a bundle of the public sigstore. It is about an archive of npm, so all but that holds.
func TestPublicSigstoreIsVerified(t *testing.T) {
	trusted, err := data.TrustedRoot(t, "public-good.json").MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	text, err := data.Bundle(t, "dsse.sigstore.json").MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	p, v := policy(t, trusted, "https://token.actions.githubusercontent.com", "*")
	if _, err := v.Verify(p.Rules()[0], cosign.Signature{Bundle: text}, app); err == nil || !strings.Contains(err.Error(), "failed to verify signature: ") {
		t.Errorf("got %v", err)
	}
	p, v = policy(t, trustedRoot(t, sigstore(t), asIs), "https://token.actions.githubusercontent.com", "*")
	if _, err := v.Verify(p.Rules()[0], cosign.Signature{Bundle: text}, app); err == nil || !strings.Contains(err.Error(), "log") {
		t.Errorf("with another trusted root: %v", err)
	}
}

func TestDamagedTrustedRootIsRefused(t *testing.T) {
	r := &strictyaml.Reader{Name: "sealift.yaml"}
	p := cosign.ReadPolicy(r, r.Mapping([]byte("example.org: {trustedRoot: '{}', identities: [{issuer: https://a.b, subject: c}]}\n")))
	if _, err := keyless.New(p); err == nil || !strings.HasPrefix(err.Error(), "signatures of example.org in sealift.yaml: trustedRoot: ") {
		t.Errorf("got %v", err)
	}
}
