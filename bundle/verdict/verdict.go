// Package verdict is the signed document that says whether an archive met a policy about known vulnerabilities, and when. Who has the database
// of vulnerabilities makes it; a node, which has none, verifies it: see package bundlepolicy.
//
// The package knows the document and its signature. It looks for no vulnerabilities, and knows no policy of a host.
package verdict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/regularfile"
)

// Format names the form of a verdict.
const Format = "sealift.dev/verdict/v1"

// The names of the files of a verdict, or their ends. The signature is one that cosign verifies, too.
const (
	Name            = "verdict.json"
	SignatureName   = Name + signatureSuffix
	signatureSuffix = ".sig"
)

// MaxSize is the largest verdict, in bytes.
const MaxSize = 1 << 20

// maxListed bounds the findings and the reasons that a verdict lists.
const maxListed = 500

// Verdict says whether an archive met a policy.
type Verdict struct {
	Format string `json:"format"`
	// Index is the digest of the archive's index, sha256:<hex>. The index has the digests of all files.
	Index    string    `json:"index"`
	Made     time.Time `json:"made"`
	Database Database  `json:"database"`
	Policy   Policy    `json:"policy"`
	Counts   Counts    `json:"counts"`
	// Unknown says what could not be judged. Of many reasons, the first ones are listed.
	Unknown []string `json:"unknown,omitempty"`
	Passed  bool     `json:"passed"`
	// Failed are the findings that the policy does not allow, the worst first. Of many, the first ones are listed.
	Failed []Finding `json:"failed,omitempty"`
}

// Database is what the vulnerabilities were looked up in.
type Database struct {
	Index  string    `json:"index"`            // digest of the index of its package, sha256:<hex>
	Date   time.Time `json:"date"`             // of its oldest source
	Signer string    `json:"signer,omitempty"` // fingerprint of the key that its signature was verified with
}

// Policy is what findings were held against.
type Policy struct {
	FailOn Level    `json:"failOn"`
	VEX    []string `json:"vex,omitempty"` // digests of the OpenVEX documents, sha256:<hex>
}

// Finding is a vulnerability of a package or a module.
type Finding struct {
	ID       string `json:"id"`
	Severity string `json:"severity"`
	Name     string `json:"name"`
	Version  string `json:"version"`
	Fixed    string `json:"fixed,omitempty"` // the first version without it, if one is known
}

// Level is the least severity that a policy does not allow.
type Level string

// Levels lists the levels, the strictest first.
func Levels() []string { return []string{"any", "low", "medium", "high", "critical"} }

// String describes the vulnerabilities that a level does not allow.
func (l Level) String() string {
	if l == "any" {
		return "of any severity"
	}
	return "of at least " + string(l) + " or of unknown severity"
}

// Counts counts findings by severity. Excepted ones are counted apart.
type Counts struct {
	Critical int `json:"critical"`
	High     int `json:"high"`
	Medium   int `json:"medium"`
	Low      int `json:"low"`
	Unknown  int `json:"unknown"`
	Excepted int `json:"excepted"`
}

// Failing returns how many findings a level does not allow. One of unknown severity is allowed by none: that it is harmless is not known.
func (c Counts) Failing(l Level) int {
	n := c.Unknown + c.Critical
	for _, one := range []struct {
		level Level
		count int
	}{{"high", c.High}, {"medium", c.Medium}, {"low", c.Low}} {
		if l == "critical" {
			break
		}
		n += one.count
		if l == one.level {
			break
		}
	}
	return n
}

// Signed is an encoded verdict with its signature.
type Signed struct {
	Document  []byte `json:"document"`
	Signature []byte `json:"signature"`
}

// Sign encodes and signs a verdict. It sets the format, and shortens lists that are too long.
func (v Verdict) Sign(key *signature.Key) (s Signed, err error) {
	v.Format = Format
	v.Failed, v.Unknown = v.Failed[:min(len(v.Failed), maxListed)], v.Unknown[:min(len(v.Unknown), maxListed)]
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return s, fmt.Errorf("encode the verdict: %w", err)
	}
	if out.Len() > MaxSize {
		return s, fmt.Errorf("the verdict has %d bytes, more than the limit of %d", out.Len(), MaxSize)
	}
	s.Document = out.Bytes()
	s.Signature, err = key.Sign(s.Document)
	return s, err
}

// Verify returns the verdict about the archive whose index has a digest, in hex, if one of the keys signed it.
func (s Signed) Verify(digest string, keys ...signature.PublicKey) (*Verdict, error) {
	switch {
	case len(s.Signature) == 0:
		return nil, errors.New("the verdict has no signature: the file with its name and " + signatureSuffix + " is missing")
	case signature.Signer(s.Document, s.Signature, keys) == "":
		return nil, errors.New("another key signed the verdict, or it was changed")
	}
	var v Verdict
	if err := json.Unmarshal(s.Document, &v); err != nil {
		return nil, fmt.Errorf("read the verdict: %w", err)
	}
	if v.Format != Format {
		return nil, fmt.Errorf("the verdict has the format %q, and this sealift reads %s", v.Format, Format)
	}
	if v.Index != "sha256:"+digest {
		return nil, fmt.Errorf("the verdict is about the bundle with the index %s, not about sha256:%s", v.Index, digest)
	}
	return &v, nil
}

// Write writes a verdict to a file, and its signature beside it. The signature comes last.
func (s Signed) Write(path string) error {
	if err := atomicfile.Write(path, s.Document); err != nil {
		return err
	}
	return atomicfile.Write(path+signatureSuffix, s.Signature)
}

// Load reads a verdict from a file, and its signature from the file beside it. The error wraps fs.ErrNotExist if there is no verdict. One without
// a signature is signed by nobody.
func Load(path string) (s Signed, err error) {
	if s.Document, err = regularfile.ReadAtMost(path, MaxSize); err != nil {
		return s, err
	}
	s.Signature, err = regularfile.ReadAtMost(path+signatureSuffix, signature.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return s, err
}
