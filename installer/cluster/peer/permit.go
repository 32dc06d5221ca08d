package peer

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sealift/sealift/installer/cluster/identity"
)

// permitTime is how long after its beginning a node may start a transfer. A giver whose clock is further ahead refuses, and the control plane sends.
const permitTime = 10 * time.Minute

// errPermit means that a request has no valid permit.
var errPermit = errors.New("no control plane of this cluster permits this node to have it from here")

// permit lets one node have one blob from another node.
type permit struct {
	SHA256 string    `json:"sha256"` // hexadecimal
	To     string    `json:"to"`     // the node that may have the blob
	From   string    `json:"from"`   // the node that has it
	End    time.Time `json:"end"`
}

// signed is a permit with the signature of a control plane over its text.
type signed struct {
	Permit    []byte             `json:"permit"`
	Signature identity.Signature `json:"signature"`
}

// encode signs the permit as the control plane called own. The text fits into a URL's query.
func (p permit) encode(authority identity.Authority, own string) (string, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	signature, err := authority.Sign(own, identity.ForPermit, text)
	if err != nil {
		return "", err
	}
	return signed{text, signature}.encode()
}

func (s signed) encode() (string, error) {
	whole, err := json.Marshal(s)
	return base64.RawURLEncoding.EncodeToString(whole), err
}

// parsePermit reads a permit that a control plane of these CAs has signed, and that has not ended.
func parsePermit(text string, trusted []*x509.Certificate, now time.Time) (p permit, err error) {
	whole, err := base64.RawURLEncoding.DecodeString(text)
	var s signed
	if err == nil {
		err = json.Unmarshal(whole, &s)
	}
	if err == nil {
		_, err = s.Signature.Verify(trusted, identity.ForPermit, s.Permit, now)
	}
	if err == nil {
		err = json.Unmarshal(s.Permit, &p)
	}
	if err == nil && now.After(p.End) {
		err = fmt.Errorf("it ended at %s", p.End.Format(time.RFC3339))
	}
	if err != nil {
		return permit{}, fmt.Errorf("%w: %w", errPermit, err)
	}
	return p, nil
}
