package keyless

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"

	"github.com/sealift/sealift/bundle/cosign"
)

// simpleType is the type of the bundles that simple returns. Later ones demand a proof that cosign did not keep in annotations.
const simpleType = "application/vnd.dev.sigstore.bundle+json;version=0.1"

// logEntry is the annotation cosign.LogAnnotation.
type logEntry struct {
	SignedEntryTimestamp []byte // base64
	Payload              struct {
		Body           []byte `json:"body"` // base64
		IntegratedTime int64  `json:"integratedTime"`
		LogIndex       int64  `json:"logIndex"`
		LogID          string `json:"logID"` // hex
	}
}

// simple makes a sigstore bundle of a signature whose parts are in annotations.
func simple(s cosign.Signature) (*bundle.Bundle, error) {
	certificate, _ := pem.Decode([]byte(s.Annotations[cosign.CertificateAnnotation]))
	if certificate == nil || certificate.Type != "CERTIFICATE" {
		return nil, errors.New("it has no certificate of an identity")
	}
	value, err := s.Value()
	if err != nil {
		return nil, err
	}
	material := &protobundle.VerificationMaterial{Content: &protobundle.VerificationMaterial_X509CertificateChain{
		X509CertificateChain: &protocommon.X509CertificateChain{Certificates: []*protocommon.X509Certificate{{RawBytes: certificate.Bytes}}},
	}}
	if text := s.Annotations[cosign.LogAnnotation]; text != "" {
		entry, err := inLog([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("its annotation %s: %w", cosign.LogAnnotation, err)
		}
		material.TlogEntries = append(material.TlogEntries, entry)
	}
	if text := s.Annotations[cosign.TimestampAnnotation]; text != "" {
		var seen struct{ SignedRFC3161Timestamp []byte }
		if err := json.Unmarshal([]byte(text), &seen); err != nil {
			return nil, fmt.Errorf("its annotation %s: %w", cosign.TimestampAnnotation, err)
		}
		material.TimestampVerificationData = &protobundle.TimestampVerificationData{
			Rfc3161Timestamps: []*protocommon.RFC3161SignedTimestamp{{SignedTimestamp: seen.SignedRFC3161Timestamp}},
		}
	}
	sum := sha256.Sum256(s.Payload)
	return bundle.NewBundle(&protobundle.Bundle{
		MediaType: simpleType, VerificationMaterial: material,
		Content: &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
			MessageDigest: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: sum[:]}, Signature: value,
		}},
	})
}

// inLog reads the entry of a signature in the log, with the log's promise.
func inLog(text []byte) (*protorekor.TransparencyLogEntry, error) {
	var e logEntry
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, err
	}
	id, err := hex.DecodeString(e.Payload.LogID)
	if err != nil {
		return nil, err
	}
	var body struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(e.Payload.Body, &body); err != nil {
		return nil, err
	}
	return &protorekor.TransparencyLogEntry{
		LogIndex: e.Payload.LogIndex, LogId: &protocommon.LogId{KeyId: id}, IntegratedTime: e.Payload.IntegratedTime,
		KindVersion:       &protorekor.KindVersion{Kind: body.Kind, Version: body.APIVersion},
		InclusionPromise:  &protorekor.InclusionPromise{SignedEntryTimestamp: e.SignedEntryTimestamp},
		CanonicalizedBody: e.Payload.Body,
	}, nil
}
