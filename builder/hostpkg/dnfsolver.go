package hostpkg

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/lock"
	"github.com/sealift/sealift/bundle"
)

// basearch stands for the architecture in the URL of a repository, as in yum.conf(5).
const basearch = "$basearch"

// dnfSolver answers for one target and architecture of a family that has dnf.
type dnfSolver struct {
	options Options
	target  Target
	arch    string
	dir     string
	dnf     dnfInterface
	signed  signatures

	repositories []dnfRepository // once ready
	upstream     map[string]string
	refreshed    bool // dnf has compared its lists with the repositories in this run
}

// dnfRepository is a repository in the input of solve.py.
type dnfRepository struct {
	ID             string `json:"id"`
	URL            string `json:"url"` // as requested, without user and password
	User           string `json:"user"`
	Password       string `json:"password"`
	Key            string `json:"key"` // path of its keys
	SignedMetadata bool   `json:"signedMetadata"`

	digest string // sha256 of the keys
}

func newDNFSolver(o Options, target Target, arch string) (*dnfSolver, error) {
	dnf, err := findDNF(o.DNF)
	if err != nil {
		return nil, err
	}
	signed, err := o.signatures()
	if err != nil {
		return nil, err
	}
	identity := fmt.Sprintf("%+v", target)
	for _, a := range target.Sources {
		identity += " " + o.Mirrors.URL(a.base())
	}
	sum := sha256.Sum256([]byte(identity))
	dir, err := o.Cache.Sub("dnf", fmt.Sprintf("%s-%s-%s", target.Name, arch, hex.EncodeToString(sum[:6])))
	if err != nil {
		return nil, err
	}
	return &dnfSolver{options: o, target: target, arch: arch, dir: dir, dnf: dnf, signed: signed}, nil
}

func (s *dnfSolver) directory() string { return s.dir }

func (s *dnfSolver) ready(ctx context.Context) error {
	if s.repositories != nil {
		return nil
	}
	for _, sub := range []string{"root", "cache", "persist", "log"} {
		if err := os.MkdirAll(filepath.Join(s.dir, sub), 0o755); err != nil {
			return err
		}
	}
	upstream := make(map[string]string)
	var repositories []dnfRepository
	for i, a := range s.target.Sources {
		a.URL = strings.ReplaceAll(a.URL, basearch, s.arch)
		if a.MirrorList {
			var err error
			if a.URL, err = s.options.firstMirror(ctx, a.URL); err != nil {
				return err
			}
		}
		key, err := s.options.key(ctx, a.SignedBy)
		if err != nil {
			return err
		}
		asked, user := withoutLogin(s.options.Mirrors.URL(a.base()))
		upstream[asked] = a.base()
		r := dnfRepository{ID: "source-" + strconv.Itoa(i), URL: asked, Key: s.options.Cache.Path(key), digest: key, SignedMetadata: a.SignedMetadata}
		r.User = user.Username()
		r.Password, _ = user.Password()
		repositories = append(repositories, r)
	}
	s.repositories, s.upstream = repositories, upstream
	return nil
}

func (s *dnfSolver) readyForLocked(ctx context.Context) error { return s.ready(ctx) }

// maxMirrorList bounds a list of mirrors, in bytes.
const maxMirrorList = 1 << 20

// firstMirror reads a list of mirrors, one URL to a line, the nearest first.
func (o Options) firstMirror(ctx context.Context, list string) (string, error) {
	resp, err := o.Client.Get(ctx, o.Mirrors.URL(list), nil)
	if err != nil {
		return "", fmt.Errorf("read the list of mirrors %s: %w", list, err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(io.LimitReader(resp.Body, maxMirrorList))
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); isHTTP(line) {
			return line, nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("read the list of mirrors %s: %w", list, err)
	}
	return "", fmt.Errorf("the list of mirrors %s names no http or https URL; check the target's sources in sealift.yaml", list)
}

// question is the input of solve.py.
type question struct {
	Dir          string          `json:"dir"`
	Arch         string          `json:"arch"`
	Release      string          `json:"release"`
	Platform     string          `json:"platform"`
	Modules      []string        `json:"modules"`
	Refresh      bool            `json:"refresh"`
	Repositories []dnfRepository `json:"repositories"`
	Base         []string        `json:"base"`
	Names        []string        `json:"names"`
	List         []string        `json:"list"` // names to list instead
}

// answer is the output of solve.py.
type answer struct {
	Error string            `json:"error"` // of the repositories
	Bare  solution          `json:"bare"`  // with Base only
	Whole solution          `json:"whole"` // with Base and Names
	Alone map[string]string `json:"alone"` // for each of Names, why the whole has no solution
	// Listed are all packages that have a name of List.
	Listed []candidate `json:"listed"`
}

type solution struct {
	Error    string      `json:"error"`
	Packages []candidate `json:"packages"`
}

// candidate is a package of a solution.
type candidate struct {
	Name       string `json:"name"`
	Epoch      uint64 `json:"epoch"`
	Version    string `json:"version"`
	Release    string `json:"release"`
	Arch       string `json:"arch"`
	Source     string `json:"source"`   // file name of the source package
	Base       string `json:"base"`     // xml:base: a URL, absolute or relative to the repository; empty means the repository
	Location   string `json:"location"` // below Base
	Repository string `json:"repository"`
	Checksum   string `json:"checksum"` // the kind of digest
	Digest     string `json:"digest"`
	Size       int64  `json:"size"`
}

func (s *dnfSolver) solve(ctx context.Context, names []string) ([]Resolved, error) {
	a, err := s.query(ctx, names, nil)
	switch {
	case err != nil:
		return nil, err
	case a.Bare.Error != "":
		return nil, fmt.Errorf("list the packages of a minimal host: %s; correct base in sealift.yaml", a.Bare.Error)
	case a.Whole.Error != "":
		return nil, &Error{Target: s.target.Name, Names: a.Alone, Err: errors.New(a.Whole.Error)}
	}
	s.refreshed = true
	var resolved []Resolved
	for _, c := range beyond(a.Whole.Packages, a.Bare.Packages) {
		r, err := s.resolved(c)
		if err != nil {
			return nil, err
		}
		resolved = append(resolved, r)
	}
	if err := s.fetchAll(ctx, resolved); err != nil {
		return nil, err
	}
	return resolved, forEach(ctx, resolved, func(ctx context.Context, r *Resolved) error { return s.signed.check(ctx, *r) })
}

// beyond leaves out packages of a minimal host. Packages built from one source depend on one another in exactly their version,
// and a host may have an older one: where one of a source is carried, so are the others.
func beyond(whole, bare []candidate) []candidate {
	had := make(map[string]bool)
	for _, c := range bare {
		had[c.Name+"."+c.Arch] = true
	}
	carried := make(map[string]bool)
	for _, c := range whole {
		if !had[c.Name+"."+c.Arch] && c.Source != "" {
			carried[c.Source] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(whole), func(c candidate) bool { return had[c.Name+"."+c.Arch] && !carried[c.Source] })
}

func (s *dnfSolver) resolved(c candidate) (_ Resolved, err error) {
	if c.Checksum != "sha256" || len(c.Digest) != sha256.Size*2 {
		return Resolved{}, fmt.Errorf("package %s: no sha256, the repository gives only %s", c.Name, c.Checksum)
	}
	r := Resolved{Target: s.target.Name, Package: lock.Package{
		HostPackageID: rpmID(c.Name, c.Epoch, c.Version, c.Release, c.Arch), Blob: bundle.Blob{SHA256: c.Digest, Size: c.Size},
	}}
	for _, repository := range s.repositories {
		if repository.ID == c.Repository {
			r.Key = repository.digest
			if r.URL, err = s.address(repository, c); err != nil {
				return Resolved{}, fmt.Errorf("package %s: %w", c.Name, err)
			}
		}
	}
	if !r.isRPM() || strings.ContainsAny(r.fileName(), "/\\ \t\r\n") {
		return Resolved{}, fmt.Errorf("package %s: %s is not the URL of an rpm", c.Name, r.URL)
	}
	return r, nil
}

// address returns upstream's URL of a package.
func (s *dnfSolver) address(repository dnfRepository, c candidate) (string, error) {
	root, err := url.Parse(s.upstream[repository.URL])
	if err != nil {
		return "", err
	}
	if c.Base != "" {
		base, err := url.Parse(strings.TrimSuffix(upstreamURL(s.upstream, c.Base), "/") + "/")
		if err != nil {
			return "", fmt.Errorf("xml:base %q of its repository: %w", c.Base, err)
		}
		root = root.ResolveReference(base)
	}
	if root = root.JoinPath(c.Location); !isHTTP(root.String()) {
		return "", fmt.Errorf("%s is not an http or https URL", root)
	}
	return root.String(), nil
}

// lists refuses packages that no repository has. Those below a repository's URL are not asked for: the signatures of rpms are
// checked when they are fetched.
func (s *dnfSolver) lists(ctx context.Context, packages []Resolved) error {
	var names []string
	for _, r := range packages {
		names = append(names, r.Name)
	}
	a, err := s.query(ctx, nil, slices.Compact(slices.Sorted(slices.Values(names))))
	if err != nil {
		return fmt.Errorf("look for locked packages in the repositories: %w", err)
	}
	have := make(map[string]bool)
	for _, c := range a.Listed {
		if r, err := s.resolved(c); err == nil {
			have[r.URL+" "+r.SHA256] = true
		}
	}
	for _, r := range packages {
		if !have[r.URL+" "+r.SHA256] {
			return fmt.Errorf("locked package %s %s: %s is not in any source of %s, and no repository there says that it has the package; "+
				"lock the add-on again with sealift lock --update", r.Name, r.Version, r.URL, s.target.Name)
		}
	}
	return nil
}

// upstreamURL is the inverse of the mirrors, for URLs below a target's sources.
func upstreamURL(upstream map[string]string, address string) string {
	for asked, place := range upstream {
		if rest, ok := strings.CutPrefix(address, asked); ok {
			return place + rest
		}
	}
	return address
}

// maxAnswer bounds solve.py's output in memory, in bytes; a whole distribution has some ten thousand packages.
const maxAnswer = 64 << 20

// query requests the solution of names, or a list of all packages with a name.
func (s *dnfSolver) query(ctx context.Context, names, list []string) (answer, error) {
	q, err := json.Marshal(question{
		Dir: s.dir, Arch: s.arch, Release: s.release(), Platform: s.target.Platform, Modules: append([]string{}, s.target.Modules...),
		Refresh: !s.refreshed, Repositories: s.repositories, Base: append([]string{}, s.target.Base...), Names: append([]string{}, names...), List: list,
	})
	if err != nil {
		return answer{}, err
	}
	cmd := exec.CommandContext(ctx, s.dnf.python, "-c", s.dnf.script)
	cmd.Env = append(environment(os.Environ()), "HOME="+s.dir)
	cmd.Dir = s.dir
	cmd.Stdin = bytes.NewReader(q)
	var a answer
	err = execute(ctx, cmd, lastLine, func(r io.Reader) error {
		return json.NewDecoder(io.LimitReader(r, maxAnswer)).Decode(&a)
	})
	if err != nil {
		return answer{}, fmt.Errorf("ask dnf: %w", err)
	}
	if a.Error != "" {
		return answer{}, fmt.Errorf("read the repositories: %s; check the network, the mirrors in sealift.yaml and the keys", a.Error)
	}
	return a, nil
}

// release is the value of $releasever: the version in the target's name.
func (s *dnfSolver) release() string {
	return s.target.Name[strings.LastIndexByte(s.target.Name, '-')+1:]
}

// lastLine is the last line of a Python traceback, which has the error.
func lastLine(said []byte) []string {
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	return lines[len(lines)-1:]
}

// fetchAll brings the packages into the cache.
func (s *dnfSolver) fetchAll(ctx context.Context, packages []Resolved) error {
	return forEach(ctx, packages, func(ctx context.Context, r *Resolved) error {
		var stored fetch.Stored
		stored, err := s.options.fetch(ctx, *r)
		if err != nil {
			return fmt.Errorf("package %s %s: %w", r.Name, r.Version, err)
		}
		if !stored.Cached {
			r.Fetched = stored.Size
		}
		return nil
	})
}
