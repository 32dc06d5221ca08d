// Package seal signs the ManifestWorks of a cluster on the hub, and checks them on the cluster. It is pure: the packages ledger
// and agent store keys and sequence numbers.
//
// A seal is an annotation, so that agents that ignore it accept the same works. It says for which cluster and which work it is,
// which number it has in the sequence of that cluster, when it was made, and the digest of the spec. It is signed with ECDSA on
// P-256, as bundles are. A deleted work gets a last seal that says so: an agent removes the objects of no other work.
package seal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/internal/sha256hex"
)

// Annotation has the seal of a ManifestWork.
const Annotation = "fleet.sealift.dev/signature"

// purpose prefixes the signed bytes. A signature for another purpose is none for a work.
const purpose = "sealift.dev/fleet/work/v1\n"

// maxSeal is the most that is read as a seal, in bytes.
const maxSeal = 4 << 10

// Statement is the hub's statement about a work.
type Statement struct {
	Cluster string `json:"cluster"`
	Work    string `json:"work"`
	// Sequence counts the seals of a cluster, from 1.
	Sequence int64 `json:"sequence"`
	// Time is when the seal was made, in whole seconds.
	Time time.Time `json:"time"`
	// Digest is the sha256 of the canonical spec, in hex.
	Digest string `json:"digest"`
	// Deleted means that the work is deleted. The spec says how its objects are removed.
	Deleted bool `json:"deleted,omitempty"`
}

// Seal is a statement with its signature.
type Seal struct {
	Statement
	Signature string `json:"signature"`
}

// Sign returns the text of the annotation.
func (s Statement) Sign(key *signature.Key) (string, error) {
	s.Time = s.Time.UTC().Truncate(time.Second)
	signed, err := s.signed()
	if err != nil {
		return "", err
	}
	sig, err := key.Sign(signed)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(Seal{s, string(bytes.TrimSpace(sig))})
	return string(text), err
}

func (s Statement) signed() ([]byte, error) {
	text, err := json.Marshal(s)
	return append([]byte(purpose), text...), err
}

// Read reads the text of an annotation. It verifies nothing.
func Read(text string) (Seal, error) {
	if len(text) > maxSeal {
		return Seal{}, fmt.Errorf("the seal has %d bytes, more than %d", len(text), maxSeal)
	}
	var s Seal
	in := json.NewDecoder(bytes.NewReader([]byte(text)))
	in.DisallowUnknownFields()
	err := in.Decode(&s)
	if err == nil && in.Decode(new(any)) != io.EOF {
		err = errors.New("unexpected data after the object")
	}
	if err == nil && s.Sequence < 1 {
		err = fmt.Errorf("sequence number %d is not positive", s.Sequence)
	}
	if err != nil {
		return Seal{}, fmt.Errorf("read the seal: %w", err)
	}
	return s, nil
}

// SignedBy returns the key that made the seal, if it is one of these.
func (s Seal) SignedBy(keys ...signature.PublicKey) (signature.PublicKey, bool) {
	signed, err := s.signed()
	i := slices.IndexFunc(keys, func(k signature.PublicKey) bool { return err == nil && k.Verify(signed, []byte(s.Signature)) })
	if i < 0 {
		return signature.PublicKey{}, false
	}
	return keys[i], true
}

// Digest returns the sha256 of the canonical form of a spec, in hex.
func Digest(spec ocm.AgentSpec) (string, error) {
	text, err := canonical(spec)
	if err != nil {
		return "", err
	}
	return sha256hex.Of(text), nil
}

// canonical returns a spec as JSON that is the same before and after an API server has stored it: with the server's
// defaults, sorted keys, no white space, no members that are null, and metadata of manifests as the server keeps it.
func canonical(spec ocm.AgentSpec) ([]byte, error) {
	text, err := json.Marshal(Defaulted(spec))
	if err != nil {
		return nil, err
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	var tree map[string]any
	if err := in.Decode(&tree); err != nil {
		return nil, err
	}
	if workload, _ := tree["workload"].(map[string]any); workload != nil {
		list, _ := workload["manifests"].([]any)
		for _, m := range list {
			if manifest, _ := m.(map[string]any); manifest != nil {
				manifest["metadata"] = stored(manifest["metadata"])
			}
		}
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(normal(tree)); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// stored returns metadata without the fields that an API server drops.
func stored(metadata any) any {
	text, err := json.Marshal(metadata)
	var known metav1.ObjectMeta
	if err == nil {
		err = json.Unmarshal(text, &known)
	}
	if err != nil {
		return metadata // the server refuses it
	}
	kept, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&known)
	if err != nil {
		return metadata
	}
	return kept
}

// normal drops null members and normalizes the spelling of numbers.
func normal(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			if member == nil {
				delete(v, key)
			} else {
				v[key] = normal(member)
			}
		}
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return n
		}
		f, err := v.Float64()
		if err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f) // 1.0 is stored as 1
		}
		if err == nil {
			return f
		}
	}
	return value
}

// parse returns the spec of a canonical text.
func parse(text []byte) (ocm.AgentSpec, error) {
	var spec ocm.AgentSpec
	err := utiljson.Unmarshal(text, &spec) // it keeps integers
	return spec, err
}

// Defaulted returns a spec with the defaults that the API server of a hub adds.
func Defaulted(s ocm.AgentSpec) ocm.AgentSpec {
	if s.DeleteOption != nil && s.DeleteOption.PropagationPolicy == "" {
		o := *s.DeleteOption
		o.PropagationPolicy = ocm.DeleteForeground
		s.DeleteOption = &o
	}
	s.ManifestConfigs = slices.Clone(s.ManifestConfigs)
	for i := range s.ManifestConfigs {
		c := &s.ManifestConfigs[i]
		if c.FeedbackScrapeType == "" {
			c.FeedbackScrapeType = "Poll"
		}
		if c.UpdateStrategy == nil {
			continue
		}
		u := *c.UpdateStrategy
		if u.Type == "" {
			u.Type = ocm.UpdateUpdate
		}
		if u.ServerSideApply != nil {
			o := *u.ServerSideApply
			if o.FieldManager == "" {
				o.FieldManager = ocm.DefaultFieldManager
			}
			o.IgnoreFields = slices.Clone(o.IgnoreFields)
			for k := range o.IgnoreFields {
				if o.IgnoreFields[k].Condition == "" {
					o.IgnoreFields[k].Condition = ocm.OnSpokePresent
				}
			}
			u.ServerSideApply = &o
		}
		c.UpdateStrategy = &u
	}
	return s
}
