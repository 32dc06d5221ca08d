package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sealift/sealift/internal/atomicfile"
)

// Member is a file as it is written in a bundle: compressed if that helps, framed, and verified. Several bundles can use it
// at once.
type Member struct {
	entry  Entry
	data   io.ReaderAt // of entry.Length bytes
	closer io.Closer
}

// Render makes members of files. It holds their bytes in memory, and those of large files in a temporary file without a name.
// Close each member.
func Render(ctx context.Context, files []File, o WriteOptions) (_ []*Member, err error) {
	p := &packer{options: o}
	defer p.cleanup()
	var members []*Member
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(members))
		}
	}()
	pieces, err := p.prepare(ctx, files)
	if err != nil {
		return nil, err
	}
	for _, piece := range pieces {
		m, err := p.render(piece)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", piece.entry.Path, err)
		}
		members = append(members, m)
	}
	return members, nil
}

func closeAll(members []*Member) error {
	var errs []error
	for _, m := range members {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

func (p *packer) render(piece piece) (*Member, error) {
	if piece.entry.Length < spoolSize {
		var buf bytes.Buffer
		err := piece.write(&buf)
		return &Member{entry: piece.entry, data: bytes.NewReader(buf.Bytes()), closer: io.NopCloser(nil)}, err
	}
	f, err := atomicfile.Nameless(p.spool)
	if err != nil {
		return nil, err
	}
	if err := piece.write(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Member{entry: piece.entry, data: f, closer: f}, nil
}

// SHA256 is the digest of the file's content, lower-case hex.
func (m *Member) SHA256() string { return m.entry.SHA256 }

// Path is the path in a bundle.
func (m *Member) Path() string { return m.entry.Path }

// Size is the length of the content, in bytes.
func (m *Member) Size() int64 { return m.entry.Size }

// Entry describes the file. Its offset means nothing.
func (m *Member) Entry() Entry { return m.entry }

// Open opens the content, and verifies it as Archive.OpenEntry does.
func (m *Member) Open() (io.ReadCloser, error) {
	return newVerifiedReader(m.entry, framed(m.entry, io.NewSectionReader(m.data, 0, m.entry.Length))), nil
}

// Archive returns a small archive that contains only this file and that tar can unpack.
func (m *Member) Archive() (io.ReaderAt, int64) {
	l := &Layout{}
	l.add(section{src: m.data, size: m.entry.Length})
	l.inline(endOfArchive)
	return l.Reader(nil), l.size
}

// Close releases the bytes.
func (m *Member) Close() error { return m.closer.Close() }
