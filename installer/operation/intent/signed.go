package intent

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/cluster/identity"
)

// An annotation is the JSON object of an Intent whose last field is the signature. What precedes that field, closed by a brace, is
// the text that was signed. An agent of an earlier sealift reads the same object, and ignores the fields that it does not know.
const signatureField = `,"signature":`

// Sign writes an Intent as an annotation, signed by a control plane.
func (in Intent) Sign(ca identity.Authority, controlPlane string) (string, error) {
	text := encode(in)
	signed, err := ca.Sign(controlPlane, identity.ForIntent, []byte(text))
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(text, "}") + signatureField + string(signed.Encode()) + "}", nil
}

// ErrRefused means that a node does not carry out an intent, whatever it asks for.
var ErrRefused = errors.New("this node refuses the request")

// Reader is a node that reads its requests.
type Reader struct {
	Node    string
	Role    Role
	Trusted []*x509.Certificate // CAs of the cluster
	Now     time.Time
	// Kinds are the operations of package operation that this node carries out, in addition to those of this package.
	Kinds []Operation
}

// Open reads an annotation and checks it: a control plane of the cluster signed it, for this node and its role, and it has not ended.
// If it does not, the error is ErrRefused; in then has the unverified annotation, so that it can be answered.
func (r Reader) Open(text string) (in Intent, controlPlane string, err error) {
	at := strings.LastIndex(text, signatureField)
	if at < 0 {
		in, err = Parse(text)
		return in, "", errors.Join(err, fmt.Errorf("%w: %w; it comes from an earlier sealift, or from an unknown source", ErrRefused, identity.ErrUnsigned))
	}
	signed := text[:at] + "}"
	if in, err = Parse(signed); err != nil {
		return in, "", err
	}
	signature, err := identity.Parse([]byte(strings.TrimSuffix(text[at+len(signatureField):], "}")))
	if err == nil {
		controlPlane, err = signature.Verify(r.Trusted, identity.ForIntent, []byte(signed), r.Now)
	}
	if err == nil {
		err = r.check(in)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return in, controlPlane, err
}

func (r Reader) check(in Intent) error {
	switch {
	case in.Node != r.Node:
		return fmt.Errorf("it is for node %q", in.Node)
	case in.Role != r.Role:
		return fmt.Errorf("it is for a %s, but this node is a %s", in.Role, r.Role)
	case !slices.Contains(operations(r.Role), in.Operation) && !slices.Contains(r.Kinds, in.Operation):
		return fmt.Errorf("a %s does not carry out %q", r.Role, in.Operation)
	case in.Number < 1:
		return errors.New("it has no number")
	case r.Now.After(in.Until):
		return fmt.Errorf("it expired at %s, but the clock of this node says %s; run the command again, or correct the wrong clock",
			in.Until.Format(time.RFC3339), r.Now.UTC().Format(time.RFC3339))
	}
	return nil
}

// Next returns the number of a new intent for a node with this report. It is above the accepted number, too: an undo or a restore brings
// older reports back.
//
// A hostile node may report any number about itself. It harms only itself, because an intent is for one node: after the highest number,
// it accepts no other intent. What is added to that number becomes negative, and does not count.
func (r Report) Next(now time.Time) int64 { return max(now.UnixNano(), r.Number+1, r.Accepted+1) }
