// Package upload receives bundles in chunks and keeps them in a folder of the console. A bundle can be used once a checker has accepted
// it; what the checker refuses is removed.
//
// An upload survives a client that goes away and a console that restarts: it resumes at the offset that the spool has on the disk. The
// package knows neither HTTP nor rights, and it never writes to a disk that would become too full for pods.
package upload

import (
	"errors"
	"fmt"
	"regexp"
	"time"
)

const (
	// MaxOpen is how many uploads are open at a time.
	MaxOpen = 2
	// ChunkSize is the length of the chunks that clients send, in bytes.
	ChunkSize = 4 << 20
	// MaxChunk is the maximum that a spool takes, in bytes.
	MaxChunk = 16 << 20
	// MaxLength is the maximum length of a bundle, in bytes.
	MaxLength = 256 << 30
	// Lifetime is how long an upload waits for its next chunk, and how long a refused one is listed.
	Lifetime = 24 * time.Hour
	// tailSize is how many bytes before the offset a client compares with its file before it resumes.
	tailSize = 1 << 20
	// minFree is the least space that remains on the disk, in bytes: a kubelet of Sealift evicts pods when less than 1 GiB is free.
	minFree = 4 << 30
)

// State is the progress of an upload.
type State string

// The states.
const (
	Receiving State = "receiving"
	Checking  State = "checking"
	Ready     State = "ready"
	Refused   State = "refused"
)

// The errors that callers distinguish.
var (
	ErrNone    = errors.New("there is no such upload: it was cancelled, or it waited too long for its next chunk")
	ErrBusy    = errors.New("wait until one ends, or cancel one")
	ErrExists  = errors.New("delete that bundle first, or rename the file")
	ErrInUse   = errors.New("another request writes to this upload; retry")
	ErrOffset  = errors.New("the chunk does not begin where the upload ends")
	ErrSpace   = errors.New("too little space on the node")
	ErrInvalid = errors.New("the upload is not valid")
	ErrCorrupt = errors.New("the chunk was changed on its way; send it again")
)

// Request describes a bundle that a client wants to send.
type Request struct {
	Name   string // of the file
	Length int64  // bytes
	SHA256 string // of the file in hex, or "" if the client does not know it
	Who    string // name of the person
}

// maxName is the maximum length of a bundle's file name.
const maxName = 208

var (
	nameForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,200}\.(tar\.gz|tgz)$`)
	digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// IsBundle reports whether a file name can be that of a bundle. Such a name is not a flag, and stays in its folder.
func IsBundle(name string) bool { return nameForm.MatchString(name) }

// CheckName refuses what is not the name of a bundle's file. The error is ErrInvalid.
func CheckName(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("%w: the name of a bundle has at most %d characters, not %d", ErrInvalid, maxName, len(name))
	}
	if !IsBundle(name) {
		return fmt.Errorf("%w: %q is not a name of a bundle; use letters, digits and ._+-, with .tar.gz at the end", ErrInvalid, name)
	}
	return nil
}

func (r Request) check() error {
	if err := CheckName(r.Name); err != nil {
		return err
	}
	switch {
	case r.Length <= 0 || r.Length > MaxLength:
		return fmt.Errorf("%w: a bundle has 1 to %d bytes, not %d", ErrInvalid, int64(MaxLength), r.Length)
	case r.SHA256 != "" && !digestForm.MatchString(r.SHA256):
		return fmt.Errorf("%w: give the SHA-256 as 64 hex digits", ErrInvalid)
	}
	return nil
}

// Upload is a bundle that is being sent, or has been.
type Upload struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Length  int64     `json:"length"`           // bytes
	Offset  int64     `json:"offset"`           // bytes that are on the disk
	SHA256  string    `json:"sha256,omitempty"` // that the client announced
	Who     string    `json:"who"`
	Began   time.Time `json:"began"`
	Changed time.Time `json:"changed"`
	State   State     `json:"state"`
	Reason  string    `json:"reason,omitempty"` // why it was refused
	Verdict Verdict   `json:"verdict,omitzero"` // once it is ready
}

// Verdict is what a checker found in a bundle.
type Verdict struct {
	Digest string `json:"digest,omitempty"` // SHA-256 of the index, in hex
	Signer string `json:"signer,omitempty"` // fingerprint of the key
}

// isOpen reports whether an upload takes one of the slots.
func (u Upload) isOpen() bool { return u.State == Receiving || u.State == Checking }

// expired reports whether the upload, or the notice that it was refused, is no longer kept.
func (u Upload) expired(now time.Time) bool {
	return (u.State == Receiving || u.State == Refused) && now.Sub(u.Changed) >= Lifetime
}

// Document is the state of an upload, as the console sends it to clients.
type Document struct {
	Upload
	Tail  Tail  `json:"tail"`
	Chunk int64 `json:"chunk"` // bytes that a client should send at a time
}

// Check finds what no console says of an upload. A client does not read and send what such a document asks for.
func (d Document) Check() error {
	if d.Length <= 0 || d.Offset < 0 || d.Offset > d.Length || d.Chunk <= 0 || d.Chunk > MaxChunk || d.Tail.Size < 0 || d.Tail.Size > min(tailSize, d.Offset) {
		return fmt.Errorf("the console describes an upload that cannot be: %d of %d bytes, chunks of %d, %d to compare", d.Offset, d.Length, d.Chunk, d.Tail.Size)
	}
	return nil
}

// Tail describes the bytes before the offset of an upload.
type Tail struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}
