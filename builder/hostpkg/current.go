package hostpkg

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/internal/atomicfile"
)

// maxUnread is how long indexes that have not changed are used without reading them again: reading also checks that their
// signatures are still valid, and that they are not older than their signer allows (Valid-Until).
const maxUnread = time.Hour

// reading is the record that apt has read and verified the indexes of a target.
type reading struct {
	At       time.Time `json:"at"` // when it began
	Keyrings string    `json:"keyrings"`
}

const readingFile = "reading.json"

// noteReading records that apt has read the indexes.
func (s *aptSolver) noteReading(began time.Time) error {
	data, err := json.Marshal(reading{At: began, Keyrings: s.keyrings()})
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(s.apt.dir, readingFile), data)
}

// keyrings stands for the content of all keyrings.
func (s *aptSolver) keyrings() string {
	h := sha256.New()
	for _, a := range s.target.Sources {
		data, err := os.ReadFile(a.SignedBy)
		fmt.Fprintf(h, "%s %x %v\n", a.SignedBy, sha256.Sum256(data), err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// current reports whether the archives still have the signed indexes that apt read last; those name all other indexes by hash. It
// sends the requests that apt would send, without verifying again. Any doubt counts as no.
func (s *aptSolver) current(ctx context.Context) bool {
	var last reading
	data, err := os.ReadFile(filepath.Join(s.apt.dir, readingFile))
	if err != nil || json.Unmarshal(data, &last) != nil || last.Keyrings != s.keyrings() {
		return false
	}
	if age := time.Since(last.At); age < 0 || age > maxUnread {
		return false
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, a := range s.target.Sources {
		for _, suite := range a.Suites {
			address := s.options.Mirrors.URL(a.base()) + indexOf(suite)
			group.Go(func() error { return s.unchanged(ctx, address, last.At) })
		}
	}
	return group.Wait() == nil
}

// indexOf is the path of a suite's signed index below its archive, in the terms of sources.list(5).
func indexOf(suite string) string {
	switch {
	case suite == "/": // a flat repository
		return "InRelease"
	case strings.HasSuffix(suite, "/"):
		return suite + "InRelease"
	}
	return "dists/" + suite + "/InRelease"
}

var errChanged = errors.New("the index has changed")

// maxIndex bounds a signed index, in bytes; those of large archives have a few hundred thousand.
const maxIndex = 16 << 20

// unchanged checks whether a signed index is the one that apt has. apt gives its file the server's date.
func (s *aptSolver) unchanged(ctx context.Context, address string, read time.Time) error {
	name := filepath.Join(s.apt.dir, "state/lists", listName(address))
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	header := make(http.Header)
	if read.Sub(info.ModTime()) >= time.Minute { // else the next version may have the same date
		header.Set("If-Modified-Since", info.ModTime().UTC().Format(http.TimeFormat))
	}
	resp, err := s.options.Client.Get(ctx, address, header)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusNotModified {
		return nil
	}
	known, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	served, err := io.ReadAll(io.LimitReader(resp.Body, maxIndex))
	if err != nil {
		return err
	}
	if !bytes.Equal(served, known) {
		return errChanged
	}
	return nil
}

// listName is apt's file name for the content of a URL: without scheme and credentials, with some characters escaped and slashes
// as underscores.
func listName(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, c := range []byte(u.Host + u.EscapedPath()) {
		switch {
		case c == '/':
			b.WriteByte('_')
		case strings.IndexByte(`\|{}[]<>"^~_=!@#$%&*`, c) >= 0, c <= ' ', c >= 0x7f:
			fmt.Fprintf(&b, "%%%02x", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// solutions is the kind under which the cache keeps apt's answers.
const solutions = "apt-solutions"

// question covers everything that an answer of apt depends on: its program, and the database of a minimal host, whose name
// stands for the indexes.
func (s *aptSolver) question(names []string) (string, error) {
	program, err := os.Stat(s.apt.get)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %d %s %q", s.status, program.Size(), program.ModTime().UTC().Format(time.RFC3339Nano), names), nil
}

// remembered returns what apt answered to the same question before.
func (s *aptSolver) remembered(question string) (resolved []Resolved, ok bool) {
	if _, err := os.Stat(s.status); errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	ok = s.options.Cache.Recall(solutions, question, &resolved)
	return resolved, ok
}
