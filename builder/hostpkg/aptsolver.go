package hostpkg

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"pault.ag/go/debian/control"

	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/atomicfile"
)

// aptSolver answers for one target and architecture of the Debian family.
type aptSolver struct {
	options Options
	target  Target
	arch    string
	apt     apt
	// upstream maps the requested URL of each archive back to the one that the target names.
	upstream map[string]string
	sources  string
	updated  bool   // the indexes were brought up to date in this run
	status   string // the package database of a minimal host, made from the indexes
}

func newAptSolver(o Options, target Target, arch string) (*aptSolver, error) {
	get, err := find("apt-get", o.AptGet, "apt")
	if err != nil {
		return nil, err
	}
	cacheBin, err := find("apt-cache", "", "apt")
	if err != nil {
		return nil, err
	}
	var logins strings.Builder
	place := func(address string) string {
		plain, user := withoutLogin(o.Mirrors.URL(address))
		if user != nil {
			password, _ := user.Password()
			fmt.Fprintf(&logins, "machine %s login %s password %s\n", plain, user.Username(), password)
		}
		return plain
	}
	s := &aptSolver{options: o, target: target, arch: arch, upstream: make(map[string]string), sources: sourcesFile(target.Sources, place)}
	for _, archive := range target.Sources {
		if _, err := os.Stat(archive.SignedBy); err != nil {
			return nil, fmt.Errorf("keyring of %s: %w; install the package that has it (debian-archive-keyring, ubuntu-keyring), or name another with signedBy in sealift.yaml", archive.URL, err)
		}
		asked, _ := withoutLogin(o.Mirrors.URL(archive.base()))
		s.upstream[asked] = archive.base()
	}
	sum := sha256.Sum256([]byte(s.sources))
	dir, err := o.Cache.Sub("apt", fmt.Sprintf("%s-%s-%s", target.Name, arch, hex.EncodeToString(sum[:6])))
	if err != nil {
		return nil, err
	}
	s.apt = apt{dir: dir, get: get, cacheBin: cacheBin, logins: logins.String()}
	return s, nil
}

func (s *aptSolver) directory() string { return s.apt.dir }

// ready brings the archive's indexes up to date, once per run, and makes sure of the database of a minimal host, which
// another process may have replaced in the meantime.
func (s *aptSolver) ready(ctx context.Context) error {
	if !s.updated && !s.current(ctx) {
		if err := s.update(ctx); err != nil {
			return err
		}
	}
	s.updated = true
	status, err := s.base(ctx)
	if err != nil {
		return fmt.Errorf("list the packages of a minimal host: %w", err)
	}
	s.status = status
	return nil
}

// readyForLocked accepts indexes past their Valid-Until: that date keeps a mirror from withholding updates, but a lock needs no
// update, only proof that the archive once signed exactly these packages.
func (s *aptSolver) readyForLocked(ctx context.Context) error {
	if s.updated || s.current(ctx) {
		return nil
	}
	err := s.update(ctx)
	if refused := new(toolError); errors.As(err, &refused) && slices.ContainsFunc(refused.messages, isExpired) {
		return s.read(ctx, "-o", "Acquire::Check-Valid-Until=false")
	}
	return err
}

// isExpired recognizes apt's message about a Release file past its Valid-Until.
func isExpired(message string) bool {
	return strings.Contains(message, "is expired") || strings.Contains(message, "Valid-Until")
}

func (s *aptSolver) update(ctx context.Context) error {
	if err := s.apt.prepare(s.arch, s.sources); err != nil {
		return fmt.Errorf("prepare a directory for apt: %w", err)
	}
	began := time.Now()
	// Until it is fully read, nothing is known about it.
	if err := atomicfile.Remove(filepath.Join(s.apt.dir, readingFile)); err != nil {
		return err
	}
	if err := s.read(ctx); err != nil {
		return err
	}
	return s.noteReading(began)
}

// read reads and verifies the indexes. apt asks with If-Modified-Since, so lists that are current cost one request each.
func (s *aptSolver) read(ctx context.Context, options ...string) error {
	if err := s.apt.run(ctx, s.apt.get, drain, append([]string{"update", "-q"}, options...)...); err != nil {
		return fmt.Errorf("read the archive's indexes: %w; check the network, the mirrors in sealift.yaml and the keyrings", err)
	}
	return nil
}

func drain(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

func (s *aptSolver) solve(ctx context.Context, names []string) ([]Resolved, error) {
	question, err := s.question(names)
	if err != nil {
		return nil, err
	}
	if resolved, ok := s.remembered(question); ok {
		return resolved, nil
	}
	if err := s.known(ctx, names); err != nil {
		return nil, err
	}
	resolved, err := s.resolveTogether(ctx, names)
	if err == nil {
		return resolved, s.options.Cache.Remember(solutions, question, resolved)
	}
	if _, ok := errors.AsType[*toolError](err); !ok {
		return nil, err
	}
	// Which of them is to blame? apt stops at the first.
	alone := make(map[string]string)
	for _, name := range names {
		_, err := s.install(ctx, s.status, []string{name})
		if one, ok := errors.AsType[*toolError](err); ok {
			alone[name] = strings.Join(one.messages, "; ")
		} else if err != nil {
			return nil, err
		}
	}
	return nil, &Error{Target: s.target.Name, Names: alone, Err: err}
}

// resolveTogether resolves names, and adds the packages of a minimal host that have the same sources. Packages of one source often depend on
// one another in exactly their version, but a host may have an older one, so they are resolved together, as with yum.
func (s *aptSolver) resolveTogether(ctx context.Context, names []string) ([]Resolved, error) {
	resolved, err := s.install(ctx, s.status, names)
	if err != nil || len(resolved) == 0 {
		return resolved, err
	}
	carried := make(map[string]bool)
	var versions []string
	for _, r := range resolved {
		versions = append(versions, r.Name+"="+r.Version)
	}
	if err := s.apt.show(ctx, versions, func(p *control.Paragraph) { carried[sourceOf(p)] = true }); err != nil {
		return nil, err
	}
	siblings, err := s.installedOf(carried)
	if err != nil || len(siblings) == 0 {
		return resolved, err
	}
	again, err := s.install(ctx, s.status, siblings, "--reinstall")
	return append(resolved, again...), err
}

// installedOf names the packages of some sources that a minimal host has, with their versions.
func (s *aptSolver) installedOf(sources map[string]bool) (siblings []string, err error) {
	text, err := os.ReadFile(s.status)
	if err != nil {
		return nil, err
	}
	paragraphs, err := control.NewParagraphReader(bytes.NewReader(text), nil)
	if err != nil {
		return nil, err
	}
	for {
		p, err := paragraphs.Next()
		if errors.Is(err, io.EOF) {
			return siblings, nil
		}
		if err != nil {
			return nil, err
		}
		if sources[sourceOf(p)] {
			siblings = append(siblings, p.Values["Package"]+"="+p.Values["Version"])
		}
	}
}

// sourceOf names the source that a binary package was built from, with its version (Debian Policy §5.6.1).
func sourceOf(p *control.Paragraph) string {
	name, version, _ := strings.Cut(p.Values["Source"], " ")
	return cmp.Or(name, p.Values["Package"]) + " " + cmp.Or(strings.Trim(version, "()"), p.Values["Version"])
}

// known refuses names that are not packages but that apt-get would take for a pattern or a command, as it does for names with a
// dot or a plus.
func (s *aptSolver) known(ctx context.Context, names []string) error {
	unknown := make(map[string]string)
	for _, name := range names {
		if !strings.ContainsAny(name, ".+") {
			continue
		}
		found := false
		err := s.apt.run(ctx, s.apt.cacheBin, func(r io.Reader) error {
			lines := bufio.NewScanner(r)
			for lines.Scan() {
				found = found || lines.Text() == name
			}
			return lines.Err()
		}, "pkgnames", name)
		if err != nil {
			return err
		}
		if !found {
			unknown[name] = "Unable to locate package " + name
		}
	}
	if len(unknown) > 0 {
		return &Error{Target: s.target.Name, Names: unknown}
	}
	return nil
}

// install asks apt-get which files it would fetch to install names on a host with the given database.
func (s *aptSolver) install(ctx context.Context, status string, names []string, options ...string) ([]Resolved, error) {
	var resolved []Resolved
	args := []string{"install", "-o", "Dir::State::status=" + status, "--print-uris", "-y", "-qq", "--no-install-recommends", "--no-remove"}
	err := s.apt.run(ctx, s.apt.get, func(r io.Reader) (err error) {
		resolved, err = parseURIs(r)
		return err
	}, slices.Concat(args, options, names)...)
	if err != nil {
		return nil, err
	}
	for i := range resolved {
		r := &resolved[i]
		r.Target = s.target.Name
		address := upstreamURL(s.upstream, r.URL)
		if r.URL = cleaned(address); !s.target.has(r.URL, s.arch) {
			return nil, fmt.Errorf("the archive's index names a path outside the archive for package %s: %s", r.Name, address)
		}
	}
	return resolved, nil
}

// parseURIs reads what apt-get --print-uris prints, one file to a line: a quoted URL, the name under which apt would keep
// it, its size and its hash. The name is <package>_<version>_<architecture>.deb with percent-escapes.
func parseURIs(r io.Reader) ([]Resolved, error) {
	var resolved []Resolved
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "'") {
			continue
		}
		one, err := parseURI(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("apt-get --print-uris: line %q: %w", lines.Text(), err)
		}
		resolved = append(resolved, one)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("apt-get --print-uris: %w", err)
	}
	return resolved, nil
}

func parseURI(line string) (Resolved, error) {
	fields := strings.Fields(line)
	if len(fields) != 4 {
		return Resolved{}, fmt.Errorf("%d words, want 4", len(fields))
	}
	address, ok := strings.CutPrefix(fields[0], "'")
	address, ok2 := strings.CutSuffix(address, "'")
	if !ok || !ok2 || address == "" {
		return Resolved{}, errors.New("no quoted URL")
	}
	name, err := url.PathUnescape(fields[1])
	if err != nil {
		return Resolved{}, err
	}
	parts := strings.Split(strings.TrimSuffix(name, ".deb"), "_")
	if len(parts) != 3 || !strings.HasSuffix(name, ".deb") || strings.ContainsAny(name, "/\\ \t\r\n\x00") || !validName(parts[0]) {
		return Resolved{}, fmt.Errorf("%q is not the name of a package file", name)
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || size <= 0 {
		return Resolved{}, fmt.Errorf("size %q", fields[2])
	}
	hash, ok := strings.CutPrefix(fields[3], "SHA256:")
	if raw, err := hex.DecodeString(hash); !ok || err != nil || len(raw) != sha256.Size {
		return Resolved{}, fmt.Errorf("no sha256, the archive gives only %q", fields[3])
	}
	return Resolved{Package: lock.Package{
		HostPackageID: bundle.HostPackageID{Name: parts[0], Version: parts[1], Arch: parts[2]},
		URL:           address, Blob: bundle.Blob{SHA256: strings.ToLower(hash), Size: size},
	}}, nil
}
