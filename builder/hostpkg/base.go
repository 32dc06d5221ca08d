package hostpkg

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pault.ag/go/debian/control"

	"github.com/sealift/sealift/internal/atomicfile"
)

// base returns the path of a dpkg status file that describes a minimal host: what debootstrap --variant=minbase installs (the
// packages marked required or essential), the target's Base, and what all of those depend on. It is recreated when the
// archive's indexes have changed.
func (s *aptSolver) base(ctx context.Context) (string, error) {
	key, err := s.baseKey()
	if err != nil {
		return "", err
	}
	path := filepath.Join(s.apt.dir, "status-"+key)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	names, err := s.required(ctx)
	if err != nil {
		return "", err
	}
	installed, err := s.install(ctx, filepath.Join(s.apt.dir, "status"), slices.Compact(slices.Sorted(slices.Values(append(names, s.target.Base...)))))
	if err != nil {
		return "", err
	}
	status, err := s.installedStatus(ctx, installed)
	if err != nil {
		return "", err
	}
	old, err := fs.Glob(os.DirFS(s.apt.dir), "status-*")
	if err != nil {
		return "", err
	}
	for _, name := range old {
		if err := os.Remove(filepath.Join(s.apt.dir, name)); err != nil {
			return "", err
		}
	}
	return path, atomicfile.Write(path, status)
}

// baseKey covers everything that the base depends on: the signed indexes, which hold the hashes of all others, and the names.
func (s *aptSolver) baseKey() (string, error) {
	files := os.DirFS(s.apt.dir)
	lists, err := fs.Glob(files, "state/lists/*Release") // in order of names
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", s.target.Base)
	for _, name := range lists {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %x\n", name, sha256.Sum256(data))
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// required lists the packages that the archive marks required or essential.
func (s *aptSolver) required(ctx context.Context) (names []string, err error) {
	err = s.apt.run(ctx, s.apt.cacheBin, func(r io.Reader) error {
		names, err = scanRequired(r)
		return err
	}, "dumpavail")
	if err == nil && len(names) == 0 {
		err = errors.New("the archive marks no package as required; check the target's sources in sealift.yaml")
	}
	return names, err
}

// scanRequired reads only the three fields it needs: a release has tens of thousands of paragraphs.
func scanRequired(r io.Reader) ([]string, error) {
	var names []string
	var name string
	wanted := false
	flush := func() {
		if wanted && validName(name) {
			names = append(names, name)
		}
		name, wanted = "", false
	}
	lines := bufio.NewReader(r)
	for {
		line, isPrefix, err := lines.ReadLine()
		if errors.Is(err, io.EOF) {
			flush()
			return names, nil
		}
		if err != nil {
			return nil, err
		}
		for isPrefix { // no field we look for is that long
			if _, isPrefix, err = lines.ReadLine(); err != nil {
				return nil, err
			}
			line = []byte("-")
		}
		switch {
		case len(line) == 0:
			flush()
		case bytes.HasPrefix(line, []byte("Package: ")):
			name = string(line[len("Package: "):])
		case string(line) == "Priority: required", string(line) == "Essential: yes":
			wanted = true
		}
	}
}

// installedStatus writes dpkg's database of a host that has exactly these packages.
func (s *aptSolver) installedStatus(ctx context.Context, installed []Resolved) ([]byte, error) {
	var names []string
	missing := make(map[string]bool)
	for _, r := range installed {
		names = append(names, r.Name+"="+r.Version)
		missing[r.Name] = true
	}
	var out bytes.Buffer
	err := s.apt.show(ctx, names, func(p *control.Paragraph) {
		// A version in several suites occurs several times.
		if name := p.Values["Package"]; missing[name] {
			delete(missing, name)
			p.Set("Status", "install ok installed")
			writeParagraph(&out, p)
		}
	})
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("apt-cache show does not know %d of the packages that apt-get would install", len(missing))
	}
	return out.Bytes(), nil
}

// show calls each with the paragraphs about packages in the archives' indexes, one for every version.
func (a *apt) show(ctx context.Context, names []string, each func(*control.Paragraph)) error {
	return a.run(ctx, a.cacheBin, func(r io.Reader) error {
		paragraphs, err := control.NewParagraphReader(bufio.NewReader(r), nil)
		if err != nil {
			return err
		}
		for {
			p, err := paragraphs.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			each(p)
		}
	}, append([]string{"show"}, names...)...)
}

// writeParagraph writes a paragraph of Debian's control syntax (Debian Policy §5.1) and the empty line after it.
func writeParagraph(w *bytes.Buffer, p *control.Paragraph) {
	for _, key := range p.Order {
		lines := strings.Split(strings.TrimRight(p.Values[key], "\n"), "\n")
		fmt.Fprintf(w, "%s: %s\n", key, lines[0])
		for _, line := range lines[1:] {
			if line == "" {
				line = "."
			}
			fmt.Fprintf(w, " %s\n", line)
		}
	}
	w.WriteByte('\n')
}
