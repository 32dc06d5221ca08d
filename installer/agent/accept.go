package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/internal/regularfile"
)

// accepted is the newest intent that a node took on, in a file.
type accepted struct {
	Number int64 `json:"number"`
	// Digest identifies the annotation, so that an agent that was killed resumes this intent and no other of the same number.
	Digest string `json:"digest"`
}

// maxAccepted bounds the file.
const maxAccepted = 4 << 10

func readAccepted(root string) (last accepted, err error) {
	file := node.AcceptedFile(root)
	f, err := regularfile.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return last, nil
	}
	if err == nil {
		err = json.NewDecoder(io.LimitReader(f, maxAccepted)).Decode(&last)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return last, fmt.Errorf("the newest request that this node accepted: %s: %w; remove the file if it is damaged", file, err)
	}
	return last, nil
}

// reader is this node as the reader of its annotation. The CAs are read each time, because a rotation replaces them.
func (a *Agent) reader() (intent.Reader, error) {
	trusted, err := identity.ReadCAs(filepath.Join(a.PKI, "ca.crt"))
	if err != nil {
		return intent.Reader{}, fmt.Errorf("the cluster's CA: %w", err)
	}
	controlPlane, err := a.isControlPlane()
	role := intent.RoleOf(controlPlane)
	return intent.Reader{Node: a.Node, Role: role, Trusted: trusted, Now: time.Now(), Kinds: kindsOf(role)}, err
}

// isControlPlane reports whether this host has the key by which a control plane proves itself.
func (a *Agent) isControlPlane() (bool, error) { return isThere(filepath.Join(a.PKI, "ca.key")) }

// accept reads an annotation, and accepts the request of a control plane of the cluster. An intent that the node took on before is
// resumed; an earlier one is refused.
func (a *Agent) accept(text string) (in intent.Intent, err error) {
	r, err := a.reader()
	if err != nil {
		return in, err
	}
	in, by, err := r.Open(text)
	if err != nil {
		return in, err
	}
	last, err := readAccepted(a.Root)
	if err != nil {
		return in, fmt.Errorf("%w: %w", intent.ErrRefused, err)
	}
	this := accepted{Number: in.Number, Digest: lifecycle.Digest(text)}
	switch {
	case this == last:
		return in, nil
	case this.Number <= last.Number:
		return in, fmt.Errorf("%w: its number %d is not above %d, that of the newest request; it was used before", intent.ErrRefused, this.Number, last.Number)
	}
	record, err := json.Marshal(this)
	if err == nil {
		err = files.WriteMode(node.AcceptedFile(a.Root), 0o600, record)
	}
	if err != nil {
		return in, fmt.Errorf("record the request of %s: %w", by, err)
	}
	a.Log.Info("audit: accepted", "operation", in.Operation, "from", by, "number", in.Number, "upgrade", in.Upgrade, "attempt", in.Attempt)
	return in, nil
}
