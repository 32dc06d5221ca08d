// Package authority describes the rotation of a cluster's CAs and of its service-account key: the old ones, the new ones, and what
// each file of a node contains in each stage. It makes keys; what else changes on a host is
// the work of package pki.
//
// Each new CA exists twice: as a root, and as an intermediate that the old CA signed. A certificate of the new CA is shown
// together with that intermediate. So clients and servers that know only the old CA accept it, too, and nodes can change one after
// the other.
package authority

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/hostpath"
	"github.com/sealift/sealift/internal/regularfile"
)

// File has the State on each control plane. Only root may read it: it has private keys.
const File = kubeadm.PKI + "/rotation.json"

// SignerFile has the one certificate with which the controller manager signs: it does not take a file with several.
const SignerFile = kubeadm.PKI + "/rotation-signer.crt"

// Stage says how far a rotation is.
type Stage string

// The stages, in their order.
const (
	// Trust: every node trusts the old CA and the new one. Control planes show certificates of the new one. API servers take tokens
	// of both service-account keys.
	Trust Stage = "trust"
	// Sign: the new CA signs the certificates that nodes ask for. API servers sign tokens with the new key.
	Sign Stage = "sign"
	// Forget: nobody trusts the old CA, or takes tokens of the old key.
	Forget Stage = "forget"
)

// The names of the parts.
const (
	Cluster         = "cluster"
	Etcd            = "etcd"
	FrontProxy      = "front-proxy"
	ServiceAccounts = "service-accounts"
)

// Names are those of all parts.
func Names() []string { return []string{Cluster, Etcd, FrontProxy, ServiceAccounts} }

// State is a rotation. It moves in one direction only.
type State struct {
	ID    string `json:"id"` // when it began
	Stage Stage  `json:"stage"`
	// Signed is when the last node reached Sign. Pods that were started before may have the old CA, and tokens of the old key, in
	// their memory.
	Signed *time.Time `json:"signed,omitempty"`
	Parts  []Part     `json:"parts"`
}

// Part is one CA, or the service-account key. Everything is in PEM.
type Part struct {
	Name string `json:"name"`
	Old  string `json:"old"` // certificate, or public key
	New  string `json:"new"`
	// Cross is the certificate of the new CA that the old one signed; "" for the service-account key.
	Cross string `json:"cross,omitempty"`
	Key   string `json:"key,omitempty"` // the new private key; workers do not get it
}

// Parse reads a State.
func Parse(text []byte) (s State, err error) {
	if err := json.Unmarshal(text, &s); err != nil {
		return State{}, fmt.Errorf("the rotation of CAs: %w", err)
	}
	if _, err := time.Parse(idLayout, s.ID); err != nil {
		return State{}, fmt.Errorf("the rotation of CAs: its ID %q is not a time", s.ID)
	}
	if !slices.Contains([]Stage{Trust, Sign, Forget}, s.Stage) {
		return State{}, fmt.Errorf("the rotation of CAs: this sealift does not know the stage %q", s.Stage)
	}
	if len(s.Parts) == 0 {
		return State{}, errors.New("the rotation of CAs has no part")
	}
	seen := map[string]bool{}
	for _, p := range s.Parts {
		if !slices.Contains(Names(), p.Name) || seen[p.Name] {
			return State{}, fmt.Errorf("the rotation of CAs: this sealift does not know the part %q, or it is there twice", p.Name)
		}
		seen[p.Name] = true
		if err := p.check(); err != nil {
			return State{}, fmt.Errorf("the rotation of CAs: %s: %w", p.Name, err)
		}
	}
	return s, nil
}

// Read reads the rotation that a control plane knows of; ok is false if there is none. rootfs is the folder with the host's files;
// empty means /.
func Read(rootfs string) (s State, ok bool, err error) {
	text, err := regularfile.ReadFile(files.Host{Rootfs: rootfs}.Path(File))
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err == nil {
		s, err = Parse(text)
	}
	if err != nil {
		return State{}, false, fmt.Errorf("%s: %w", File, err)
	}
	return s, true, nil
}

// Remove removes the rotation from a control plane.
func Remove(rootfs string) error {
	file := files.Host{Rootfs: rootfs}.Path(File)
	if err := files.Remove(file); err != nil {
		return err
	}
	return files.SyncDir(filepath.Dir(file))
}

// Encode writes a State as Parse reads it.
func (s State) Encode() []byte {
	text, _ := json.MarshalIndent(s, "", "  ") // structs of strings: cannot fail
	return append(text, '\n')
}

// ForWorkers is what a worker may know: the cluster's CA, and no key. ok is false if no worker takes part.
func (s State) ForWorkers() (public State, ok bool) {
	p, ok := s.Part(Cluster)
	p.Key = ""
	public = s
	public.Parts = []Part{p}
	return public, ok
}

// Rotated are the names of the parts.
func (s State) Rotated() (names []string) {
	for _, p := range s.Parts {
		names = append(names, p.Name)
	}
	return names
}

// Next is the command that continues the rotation.
func (s State) Next() string {
	if s.Signed != nil {
		return hostpath.Sudo("certs rotate-ca --finish")
	}
	return hostpath.Sudo("certs rotate-ca")
}

// Part finds a part by its name.
func (s State) Part(name string) (Part, bool) {
	at := slices.IndexFunc(s.Parts, func(p Part) bool { return p.Name == name })
	if at < 0 {
		return Part{}, false
	}
	return s.Parts[at], true
}

// After reports whether this is a later stage of the same rotation.
func (s State) After(other State) bool {
	order := []Stage{Trust, Sign, Forget}
	return s.ID == other.ID && slices.Index(order, s.Stage) > slices.Index(order, other.Stage)
}

// Request identifies the rotation and its stage, for nodes that are asked to reach it.
func (s State) Request() string { return lifecycle.Digest(s.ID, s.Stage)[:16] }

// In returns the state in a stage.
func (s State) In(stage Stage) State {
	s.Stage = stage
	return s
}

// IsCA reports whether the part is a CA, and not the service-account key.
func (p Part) IsCA() bool { return p.Name != ServiceAccounts }

// Trusted is the name of the file with what the cluster trusts.
func (p Part) Trusted() string {
	switch p.Name {
	case Etcd:
		return filepath.Join(kubeadm.PKI, "etcd/ca.crt")
	case FrontProxy:
		return filepath.Join(kubeadm.PKI, "front-proxy-ca.crt")
	case ServiceAccounts:
		return filepath.Join(kubeadm.PKI, "sa.pub")
	}
	return filepath.Join(kubeadm.PKI, "ca.crt")
}

// Private is the name of the file with the key that signs.
func (p Part) Private() string {
	if p.IsCA() {
		return strings.TrimSuffix(p.Trusted(), ".crt") + ".key"
	}
	return filepath.Join(kubeadm.PKI, "sa.key")
}

// Bundle is the content of the file Trusted in a stage. The first certificate belongs to the key in Private.
func (p Part) Bundle(stage Stage) []byte {
	switch stage {
	case Trust:
		return []byte(p.Old + p.New)
	case Sign:
		return []byte(p.New + p.Old)
	}
	return []byte(p.New)
}

// Chain is what follows a certificate of the new CA in its file: nothing, once nobody needs to trust the old CA.
func (p Part) Chain(stage Stage) []byte {
	if stage == Forget {
		return nil
	}
	return []byte(p.Cross)
}

// Signer is the certificate with which the controller manager signs in a stage.
func (p Part) Signer(stage Stage) []byte {
	if stage == Trust {
		return []byte(p.Old)
	}
	return []byte(p.New)
}
