package inventory

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"

	"github.com/sealift/sealift/builder/component"
	"github.com/sealift/sealift/internal/fips"
)

const (
	elfMagic   = "\x7fELF"
	maxProgram = 512 << 20 // bytes
	maxModules = 10_000
	maxModule  = 1024 // bytes of a path or a version
	// inMemory is the largest program that is read in memory, in bytes. Larger ones are copied to a temporary file.
	inMemory = 1 << 20
)

// spool holds the content of one file at a time, so that it can be read at any offset. The zero value is empty.
type spool struct {
	file   *os.File // without a name
	memory []byte
}

// spoolError reports that the temporary file failed, which says nothing about what is read.
type spoolError struct{ err error }

func (e *spoolError) Error() string {
	return "temporary file: " + e.err.Error() + "; TMPDIR names another folder for it"
}
func (e *spoolError) Unwrap() error { return e.err }

// Write writes to the temporary file.
func (s *spool) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	if err != nil {
		err = &spoolError{err}
	}
	return n, err
}

// fill reads a file of size bytes. What it returns is valid until the next call.
func (s *spool) fill(r io.Reader, size int64) (io.ReaderAt, error) {
	if size <= inMemory {
		if s.memory == nil {
			s.memory = make([]byte, inMemory)
		}
		if _, err := io.ReadFull(r, s.memory[:size]); err != nil {
			return nil, err
		}
		return bytes.NewReader(s.memory[:size]), nil
	}
	if err := s.reset(); err != nil {
		return nil, &spoolError{err}
	}
	if _, err := io.CopyN(s, r, size); err != nil {
		return nil, err
	}
	return s.file, nil
}

// reset makes the temporary file empty.
func (s *spool) reset() error {
	if s.file == nil {
		f, err := os.CreateTemp("", "sealift-inventory-")
		if err != nil {
			return err
		}
		s.file = f
		return os.Remove(f.Name())
	}
	_, err := s.file.Seek(0, io.SeekStart)
	return errors.Join(s.file.Truncate(0), err)
}

// Close releases the temporary file.
func (s *spool) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// program reads a file of size bytes if it is a program or a library in ELF, and else returns nil.
func (s *scanner) program(in io.Reader, size int64) (*found, error) {
	if size < int64(len(elfMagic)) {
		return nil, nil
	}
	start := make([]byte, len(elfMagic))
	if _, err := io.ReadFull(in, start); err != nil {
		return nil, err
	}
	if string(start) != elfMagic {
		return nil, nil
	}
	if size > maxProgram {
		return &found{unread: fmt.Sprintf("it is a program of %d bytes, which is too large to be read", size)}, nil
	}
	r, err := s.spool.fill(io.MultiReader(bytes.NewReader(start), in), size)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.Read(io.NewSectionReader(r, 0, size))
	if err != nil {
		return &found{foreign: true}, nil //nolint:nilerr // any other program has no such record
	}
	if len(info.Deps) > maxModules {
		return &found{unread: fmt.Sprintf("it has %d modules", len(info.Deps))}, nil
	}
	p := programOf(info)
	if len(p.Main) > maxModule || slices.ContainsFunc(p.Modules, func(m component.Component) bool { return len(m.Name) > maxModule || len(m.Version) > maxModule }) {
		return &found{unread: "it has a module with an endless name"}, nil
	}
	return &found{program: p}, nil
}

// programOf lists the modules of a program.
func programOf(info *debug.BuildInfo) *Program {
	p := &Program{Main: info.Path, FIPS: fips.Of(info), Modules: []component.Component{component.Module(component.Stdlib, info.GoVersion)}}
	if p.FIPS.Name != "" && p.FIPS.Name != fips.Boring {
		p.Modules = append(p.Modules, component.Module(component.FIPS140, p.FIPS.Name))
	}
	if info.Main.Path != "" {
		p.Modules = append(p.Modules, module(&info.Main))
	}
	for _, m := range info.Deps {
		p.Modules = append(p.Modules, module(m))
	}
	slices.SortFunc(p.Modules, component.Compare)
	p.Modules = slices.CompactFunc(p.Modules, func(a, b component.Component) bool { return component.Compare(a, b) == 0 })
	return p
}

// devel is the version of a module that was built from a folder.
const devel = "(devel)"

// module names a module by what was linked: the replacement, where that is a module. What replaces it from a folder has no version.
func module(m *debug.Module) component.Component {
	if r := m.Replace; r != nil && r.Version != "" && r.Version != devel {
		m = r
	}
	if m.Version == devel || m.Replace != nil {
		return component.Module(m.Path, "")
	}
	return component.Module(m.Path, m.Version)
}
