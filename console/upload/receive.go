package upload

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/sha256hex"
)

// gzipMagic begins every bundle.
const gzipMagic = "\x1f\x8b"

// errForeign ends an upload with its first chunk.
var errForeign = fmt.Errorf("%w: the file is not a bundle", ErrInvalid)

// Append adds a chunk of size bytes at an offset. sum is the SHA-256 of the chunk in hex, or "". All of the chunk is on the disk when
// Append returns, or none: a client that was cut off sends it again. A first chunk that cannot begin a bundle ends the upload. The error is
// ErrOffset, with the state of the upload, if the upload ends elsewhere. The last chunk begins the check of the bundle.
func (s *Spool) Append(id string, offset, size int64, sum string, from io.Reader) (Upload, error) {
	u, err := s.lock(id, offset, size)
	if err != nil {
		return u, err
	}
	err = s.write(u, size, sum, from)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.locked, id)
	kept := s.all[id]
	if errors.Is(err, errForeign) {
		return *kept, errors.Join(err, s.remove(id))
	}
	if err != nil {
		return *kept, err
	}
	before := *kept
	kept.Offset, kept.Changed = offset+size, s.Now().UTC()
	if kept.Offset == kept.Length {
		kept.State = Checking
	}
	if err := s.save(kept); err != nil {
		*kept = before
		return before, err
	}
	if kept.State == Checking {
		go s.check(*kept)
	}
	return *kept, nil
}

// lock reserves an upload for one chunk.
func (s *Spool) lock(id string, offset, size int64) (Upload, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.all[id]
	switch {
	case u == nil || u.expired(s.Now()):
		return Upload{}, ErrNone
	case s.locked[id]:
		return *u, ErrInUse
	case u.State != Receiving:
		return *u, fmt.Errorf("%w: it is complete", ErrOffset)
	case offset != u.Offset:
		return *u, fmt.Errorf("%w: the upload has %d bytes, and the chunk begins at %d", ErrOffset, u.Offset, offset)
	case size <= 0 || size > MaxChunk || size > u.Length-offset:
		return *u, fmt.Errorf("%w: a chunk has 1 to %d bytes, and this upload lacks %d", ErrInvalid, MaxChunk, u.Length-offset)
	}
	if err := s.checkSpace(size); err != nil {
		return *u, err
	}
	s.locked[id] = true
	return *u, nil
}

// write writes a chunk behind the bytes of an upload, and removes it again if it is not whole.
func (s *Spool) write(u Upload, size int64, sum string, from io.Reader) (err error) {
	f, err := os.OpenFile(s.part(u.ID), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Truncate(u.Offset))
		}
		err = errors.Join(err, f.Close())
	}()
	if _, err := f.Seek(u.Offset, io.SeekStart); err != nil {
		return err
	}
	hash := sha256.New()
	got, err := io.Copy(io.MultiWriter(f, hash), io.LimitReader(from, size))
	if err != nil {
		return fmt.Errorf("receive a chunk: %w", err)
	}
	if got < size {
		return fmt.Errorf("%w: it ends after %d of %d bytes", ErrCorrupt, got, size)
	}
	if sum != "" && sum != hex.EncodeToString(hash.Sum(nil)) {
		return ErrCorrupt
	}
	if u.Offset == 0 {
		var magic [len(gzipMagic)]byte
		if _, err := f.ReadAt(magic[:], 0); err != nil || string(magic[:]) != gzipMagic {
			return fmt.Errorf("%w: %s does not begin as a file of gzip does", errForeign, u.Name)
		}
	}
	return f.Sync()
}

// Tail describes the last bytes that an upload has. A client compares them with its file before it resumes.
func (s *Spool) Tail(u Upload) (t Tail, err error) {
	t.Size = min(tailSize, u.Offset)
	if t.Size == 0 || u.State != Receiving {
		return Tail{}, nil
	}
	f, err := regularfile.Open(s.part(u.ID))
	if err != nil {
		return Tail{}, err
	}
	defer f.Close()
	t.SHA256, _, err = sha256hex.Read(io.NewSectionReader(f, u.Offset-t.Size, t.Size))
	return t, err
}

// check judges a complete upload, and makes it usable or removes it. When the console ends meanwhile, the next one checks it again.
func (s *Spool) check(u Upload) {
	verdict, err := s.judge(u)
	if s.context.Err() == nil {
		s.Ended(s.settle(u.ID, verdict, err))
	}
}

// settle ends an upload.
func (s *Spool) settle(id string, verdict Verdict, why error) Upload {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.all[id]
	u.Changed = s.Now().UTC()
	if why == nil {
		why = s.accept(u, verdict)
	}
	if why != nil {
		s.refuse(u, why)
	}
	return *u
}

func (s *Spool) judge(u Upload) (Verdict, error) {
	if u.SHA256 != "" {
		f, err := regularfile.Open(s.part(u.ID))
		if err != nil {
			return Verdict{}, err
		}
		got, _, err := sha256hex.Read(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return Verdict{}, err
		}
		if got != u.SHA256 {
			return Verdict{}, fmt.Errorf("its SHA-256 is %s, and the client announced %s", got, u.SHA256)
		}
	}
	return s.Check(s.context, s.part(u.ID))
}

// accept moves an upload to the bundles. The record comes first: Open moves what a crash leaves behind.
func (s *Spool) accept(u *Upload, verdict Verdict) error {
	u.State, u.Verdict = Ready, verdict
	if err := s.save(u); err != nil {
		return err
	}
	return os.Rename(s.part(u.ID), s.bundle(u.Name))
}

// maxReason is the maximum length of the reason of a refusal, in bytes.
const maxReason = 2000

func (s *Spool) refuse(u *Upload, why error) {
	reason := why.Error()
	u.State, u.Verdict, u.Reason = Refused, Verdict{}, strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
	if err := errors.Join(atomicfile.Remove(s.part(u.ID)), s.save(u)); err != nil {
		s.Log.Error("cannot record that an upload was refused", "name", u.Name, "error", err)
	}
}
