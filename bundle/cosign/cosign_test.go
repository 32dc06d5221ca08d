package cosign_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"

	"github.com/sealift/sealift/bundle/cosign"
	"github.com/sealift/sealift/internal/strictyaml"
	"github.com/sealift/sealift/internal/testing/cosigned"
)

var (
	app   = digest.FromString("app").String()
	other = digest.FromString("other").String()
)

// policy reads a policy from a file, whose folder has a.pub.
func policy(t *testing.T, text string, key cosigned.Signer) (cosign.Policy, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.pub"), []byte(key.Public(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &strictyaml.Reader{Name: filepath.Join(dir, "sealift.yaml")}
	n := r.Mapping([]byte(text))
	if n == nil {
		t.Fatal(r.Err())
	}
	p := cosign.ReadPolicy(r, n)
	return p, r.Err()
}

// demand is a policy that demands a signature of everything by a key.
func demand(t *testing.T, key cosigned.Signer, more string) cosign.Policy {
	t.Helper()
	p, err := policy(t, "'*': {keys: [a.pub]"+more+"}\n", key)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// image is an image with manifests that are attached to it.
func image(t *testing.T, ref string, attached ...v1.Image) cosign.Image {
	t.Helper()
	blobs := make(map[digest.Digest][]byte)
	i := cosign.Image{Ref: ref, Digest: app, Read: func(d digest.Digest) ([]byte, error) {
		if data, ok := blobs[d]; ok {
			return data, nil
		}
		return nil, fmt.Errorf("there is no blob %s", d)
	}}
	for _, one := range attached {
		data, err := one.RawManifest()
		if err != nil {
			t.Fatal(err)
		}
		d := digest.FromBytes(data)
		blobs[d], i.Attached = data, append(i.Attached, d)
		layers, err := one.Layers()
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range layers {
			r, err := l.Compressed()
			if err != nil {
				t.Fatal(err)
			}
			var content bytes.Buffer
			if _, err := content.ReadFrom(r); err != nil {
				t.Fatal(err)
			}
			blobs[digest.FromBytes(content.Bytes())] = content.Bytes()
		}
	}
	return i
}

var subject = v1.Descriptor{Digest: v1.Hash{Algorithm: "sha256", Hex: strings.TrimPrefix(app, "sha256:")}}

func TestSignatureOfEachKindOfKeyIsVerified(t *testing.T) {
	for name, key := range cosigned.Keys(t) {
		for form, signature := range map[string]v1.Image{
			"simple signing": key.Simple(t, cosigned.Payload(app)),
			"bundle":         cosigned.Referrer(t, key.Bundle(t, cosigned.Statement(app, cosign.SignPredicate)), subject),
		} {
			t.Run(name+" "+form, func(t *testing.T) {
				v, err := demand(t, key, "").Judge(image(t, "example.org/app:1", signature), nil)
				if err != nil || v.State != cosign.Verified || !strings.HasPrefix(v.By, "key a.pub (SHA256:") {
					t.Errorf("%+v, %v", v, err)
				}
				if v, err := demand(t, cosigned.New(t), "").Judge(image(t, "example.org/app:1", signature), nil); err == nil || v.State != cosign.Refused {
					t.Errorf("with another key: %+v, %v", v, err)
				}
			})
		}
	}
}

func TestInvalidSignaturesAreRefused(t *testing.T) {
	key := cosigned.New(t)
	const provenance = "https://slsa.dev/provenance/v1"
	bundle := func(statement []byte) v1.Image { return cosigned.Referrer(t, key.Bundle(t, statement), subject) }
	changed := bytes.Replace(key.Bundle(t, cosigned.Statement(app, cosign.SignPredicate)), []byte(`"sig":"`), []byte(`"sig":"AAAA`), 1)
	for name, row := range map[string]struct {
		attached []v1.Image
		want     string
	}{
		"no signature":                      {nil, "it is not signed"},
		"the signature of another image":    {[]v1.Image{key.Simple(t, cosigned.Payload(other))}, "it is the signature of another image, " + other},
		"a signature without its payload":   {[]v1.Image{cosigned.Annotated(t, cosigned.Payload(app), nil)}, "it lacks the annotation"},
		"a signature that is not base64":    {[]v1.Image{cosigned.Annotated(t, cosigned.Payload(app), map[string]string{cosign.SignatureAnnotation: "%"})}, "illegal base64"},
		"a payload of another type":         {[]v1.Image{key.Simple(t, bytes.Replace(cosigned.Payload(app), []byte("cosign container"), []byte("another"), 1))}, `has the type "another image signature"`},
		"a payload that is not JSON":        {[]v1.Image{key.Simple(t, []byte("x"))}, "its payload is not JSON"},
		"a statement about another image":   {[]v1.Image{bundle(cosigned.Statement(other, cosign.SignPredicate))}, "about another image"},
		"an attestation":                    {[]v1.Image{bundle(cosigned.Statement(app, provenance))}, "an attestation of the type " + provenance},
		"a changed bundle":                  {[]v1.Image{cosigned.Referrer(t, changed, subject)}, "not by one of the keys"},
		"a bundle that is not JSON":         {[]v1.Image{cosigned.Referrer(t, []byte("x"), subject)}, "its bundle is not JSON"},
		"a bundle without a statement":      {[]v1.Image{cosigned.Referrer(t, []byte("{}"), subject)}, "its bundle has no statement"},
		"something that is not a signature": {[]v1.Image{cosigned.Referrer(t, bytes.Repeat([]byte(" "), 5<<20), subject)}, "more than 4194304 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := demand(t, key, "").Judge(image(t, "example.org/app:1", row.attached...), nil)
			var refused *cosign.RefusedError
			if !errors.As(err, &refused) || v.State != cosign.Refused || !strings.Contains(err.Error(), row.want) {
				t.Fatalf("%+v, %v; want %s", v, err, row.want)
			}
			for _, want := range []string{"image example.org/app:1 (" + app + ")", "key a.pub (SHA256:"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not name %s", err, want)
				}
			}
			if !strings.Contains(refused.Hint(), "sealift.yaml") {
				t.Errorf("the way out is %q", refused.Hint())
			}
		})
	}
	for name, signatures := range map[string][]v1.Image{
		"a valid one among others":   {key.Simple(t, cosigned.Payload(other)), cosigned.New(t).Simple(t, cosigned.Payload(app)), key.Simple(t, cosigned.Payload(app))},
		"an attestation that counts": {bundle(cosigned.Statement(app, provenance))},
	} {
		if v, err := demand(t, key, ", attestations: ['"+provenance+"']").Judge(image(t, "example.org/app:1", signatures...), nil); err != nil || v.State != cosign.Verified {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
}

func TestLongestPrefixDecides(t *testing.T) {
	key := cosigned.New(t)
	p, err := policy(t, "'*': {keys: [a.pub]}\nexample.org: {unsigned: true}\nexample.org/team/app: {keys: [a.pub]}\n", key)
	if err != nil {
		t.Fatal(err)
	}
	signed, unsigned := key.Simple(t, cosigned.Payload(app)), []v1.Image(nil)
	for _, row := range []struct {
		ref      string
		attached []v1.Image
		want     cosign.State
	}{
		{"example.org/app:1", unsigned, cosign.Unsigned},
		{"example.org/app:1", []v1.Image{signed}, cosign.Unchecked},
		{"example.org/team/app@" + app, unsigned, cosign.Refused},
		{"example.org/team/app-2:1", unsigned, cosign.Unsigned},
		{"example.org:5000/app:1", unsigned, cosign.Refused},
		{"docker.io/library/busybox:1", []v1.Image{signed}, cosign.Verified},
	} {
		v, err := p.Judge(image(t, row.ref, row.attached...), nil)
		if v.State != row.want || (err != nil) != (row.want == cosign.Refused) {
			t.Errorf("%s: %+v, %v; want %s", row.ref, v, err, row.want)
		}
	}
	if v, err := (cosign.Policy{}).Judge(image(t, "a.b/c:1", signed), nil); err != nil || v.State != cosign.Unchecked || v.Attached[0] != "cosign signature" {
		t.Errorf("without a policy: %+v, %v", v, err)
	}
}

// TestIdentitiesNeedTheirVerifier uses a program that does not know identities: it must not take the image.
func TestIdentitiesNeedTheirVerifier(t *testing.T) {
	key := cosigned.New(t)
	p, err := policy(t, "'*': {trustedRoot: '{}', identities: [{issuer: https://a.b, subject: c}]}\n", key)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := p.Judge(image(t, "a.b/c:1", key.Simple(t, cosigned.Payload(app))), nil); err == nil || v.State != cosign.Refused || !strings.Contains(err.Error(), "does not verify identities") {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestPolicyMistakesNameTheirPosition(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"a name that is not full":     {"busybox: {keys: [a.pub]}", `1:1: error: signatures: "busybox" is not the beginning of a repository's name (write it in full`},
		"a tag":                       {"example.org/app:1: {keys: [a.pub]}", `1:1: error: signatures: "example.org/app:1" is not`},
		"a pattern":                   {"example.org/*: {keys: [a.pub]}", `1:1: error: signatures: "example.org/*" is not`},
		"an unknown field":            {"example.org: {key: a.pub}", `unknown key "key" in signatures of example.org (did you mean "keys"?)`},
		"a rule that demands nothing": {"example.org: {}", "1:1: error: signatures of example.org: name keys or identities"},
		"a rule that contradicts":     {"example.org: {keys: [a.pub], unsigned: true}", "unsigned: true demands nothing, and keys"},
		"unsigned: false":             {"example.org: {unsigned: false}", "unsigned can only be true"},
		"a key that is absent":        {"example.org: {keys: [b.pub]}", "1:22: error: a key: open "},
		"a private key":               {"example.org: {keys: [\"-----BEGIN PRIVATE KEY-----\\n\"]}", "not a public key in PEM"},
		"a folder as a key":           {"example.org: {keys: [.]}", "not a regular file"},
		"identities without a root":   {"example.org: {identities: [{issuer: https://a.b, subject: c}]}", "identities are verified with a trustedRoot"},
		"an identity of anybody":      {"example.org: {trustedRoot: '{}', identities: [{issuer: https://a.b}]}", "an identity needs subject"},
		"keys that are not a list":    {"example.org: {keys: a.pub}", "keys must be a list"},
	} {
		if _, err := policy(t, row.text+"\n", cosigned.New(t)); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want %s", name, err, row.want)
		}
	}
}

func TestDigestOfPolicyCoversKeys(t *testing.T) {
	digests := make(map[string]bool)
	for range 2 {
		d, err := demand(t, cosigned.New(t), "").Digest()
		if err != nil || d == "" {
			t.Fatal(d, err)
		}
		digests[d] = true
	}
	if empty, err := (cosign.Policy{}).Digest(); len(digests) != 2 || empty != "" || err != nil {
		t.Errorf("%v, %q, %v", digests, empty, err)
	}
}

func FuzzJudge(f *testing.F) {
	key := cosigned.New(f)
	f.Add(key.Bundle(f, cosigned.Statement(app, cosign.SignPredicate)), cosigned.Payload(app))
	f.Add([]byte(`{"dsseEnvelope":{"signatures":[{}]}}`), []byte(`{"critical":null}`))
	f.Fuzz(func(t *testing.T, bundle, payload []byte) {
		forged := cosigned.New(t)
		attached := []v1.Image{cosigned.Referrer(t, bundle, subject), forged.Simple(t, payload)}
		if v, err := demand(t, cosigned.New(t), "").Judge(image(t, "a.b/c:1", attached...), nil); err == nil {
			t.Errorf("a signature of nobody passes: %+v", v)
		}
	})
}
