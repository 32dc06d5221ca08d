package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/assemble"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/connlimit"
	"github.com/sealift/sealift/internal/httprange"
	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/store"
)

// packageSuffix is the suffix of package and bundle names.
const packageSuffix = ".tar.gz"

// maxNames is the maximum number of packages that one request may name, directly or in an Installer. Each costs requests to the store.
const maxNames = 64

// packageForm matches the name of a package without its suffix.
var packageForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,254}$`)

// getBundle sends the bundle of an Installer, or its difference from an earlier bundle.
func (s *Server) getBundle(w http.ResponseWriter, r *http.Request) error {
	id, ok := strings.CutSuffix(r.PathValue("file"), packageSuffix)
	if !ok {
		return problem(http.StatusNotFound, "the name of a bundle is <id>.tar.gz")
	}
	query := r.URL.Query()
	q := planKey{since: query.Get("since")}
	var err error
	if q.lean, err = wants(query, "lean"); err != nil {
		return err
	}
	if q.patch, err = wants(query, "patch"); err != nil {
		return err
	}
	return s.sendBundle(w, r, id, q)
}

// getSupplement sends several packages in one archive.
func (s *Server) getSupplement(w http.ResponseWriter, r *http.Request) error {
	list, ok := strings.CutSuffix(r.PathValue("file"), packageSuffix)
	if !ok {
		return problem(http.StatusNotFound, "name the packages as <name>-<version>,<name>-<version>.tar.gz")
	}
	wanted, err := names(list)
	if err != nil {
		return err
	}
	return s.sendBundle(w, r, r.PathValue("id"), planKey{names: wanted})
}

// sendBundle sends what q wants of the bundle of an Installer.
func (s *Server) sendBundle(w http.ResponseWriter, r *http.Request, id string, q planKey) (err error) {
	q.client, q.folder = connlimit.Key(s.client(r)), folderOf(r)
	if q.document, err = s.loadInstaller(r.Context(), q.client, id); err != nil {
		return err
	}
	plan, reader, err := s.plans.open(r.Context(), q)
	if err != nil {
		return err
	}
	defer reader.Close()
	if r.Method == http.MethodGet && q.names == nil && q.since == "" {
		recorded := make(chan struct{}) // recorded during the transfer, so that the first byte does not wait
		go func() {
			defer close(recorded)
			s.plans.record(plan)
		}()
		defer func() { <-recorded }()
	}
	w.Header().Set("Sealift-Index", plan.Digest)
	err = s.send(w, r, content{ReaderAt: reader, size: plan.Size(), tag: plan.Tag, name: id + packageSuffix})
	if errors.Is(err, store.ErrChanged) {
		s.plans.forget(plan)
	}
	return s.broken(w, r, err)
}

// getPackage sends a package unchanged, or redirects to the store.
func (s *Server) getPackage(w http.ResponseWriter, r *http.Request) error {
	file := r.PathValue("file")
	if name, ok := strings.CutSuffix(file, packageSuffix); !ok || !packageForm.MatchString(name) {
		return problem(http.StatusNotFound, "the name of a package is <name>-<version>.tar.gz")
	}
	packages := s.options.Packages
	packages.Folder = folderOf(r)
	if s.options.Redirect && r.Method == http.MethodGet { // a presigned URL is valid for one method
		if at, err := packages.Presign(r.Context(), file, presignedFor); err != nil || at != "" {
			if err == nil {
				http.Redirect(w, r, at, http.StatusFound)
			}
			return err
		}
	}
	object, err := packages.Get(r.Context(), file)
	if err != nil {
		return err
	}
	defer object.Close()
	tag, err := s.packageTag(r.Context(), packages.Folder+"/"+file, object)
	if err != nil {
		return fmt.Errorf("package %s: %w", file, err)
	}
	return s.broken(w, r, s.send(w, r, content{ReaderAt: object, size: object.Size(), tag: tag, name: file}))
}

// packageTag returns the ETag of a package. It is computed from the package's content, so that a folder and a bucket with the same
// packages look the same to a client. The package is opened once for all its requests.
func (s *Server) packageTag(ctx context.Context, key string, object store.Object) (string, error) {
	key += " " + object.Version()
	if tag, ok := s.tags.get(key); ok {
		return tag, nil
	}
	return share(ctx, &s.plans.flight, "tag "+key, func() (string, error) {
		own, err := object.Reopen(s.plans.ctx) // the request that began this may end first
		if err != nil {
			return "", err
		}
		defer own.Close()
		archive, err := bundle.OpenPackage(own, own.Size())
		if err != nil {
			return "", err
		}
		index, signature := archive.Raw()
		tag := sha256hex.Of(slices.Concat(index, signature))
		s.tags.put(key, tag, int64(len(key)+len(tag)))
		return tag, nil
	})
}

// maxTags is the size of the cache of packages' ETags, in bytes.
const maxTags = 1 << 20

// presignedFor is how long a presigned URL of the store is valid.
const presignedFor = time.Hour

// getBinary sends the sealift for the nodes of one platform, in a separate archive.
func (s *Server) getBinary(w http.ResponseWriter, r *http.Request) error {
	digest := r.PathValue("digest")
	n := slices.IndexFunc(s.options.Programs, func(p assemble.Program) bool { return p.Sealift.SHA256() == digest })
	if n < 0 || r.PathValue("file") != assemble.ProgramFile {
		return problem(http.StatusNotFound, "the server now has another sealift; download the script again")
	}
	data, size := s.options.Programs[n].Sealift.Archive()
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	return s.broken(w, r, s.send(w, r, content{ReaderAt: data, size: size, tag: digest + "-member", name: assemble.ProgramFile}))
}

// getPackages lists the packages.
func (s *Server) getPackages(w http.ResponseWriter, r *http.Request) error {
	c, err := s.catalogue(r.Context(), folderOf(r))
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(c.text) // the client may be gone
	return nil
}

// content is a response body. Clients may request ranges of it.
type content struct {
	io.ReaderAt
	size int64
	tag  string // the same for the same bytes
	name string // file name for the client
}

// send answers GET and HEAD with ranges and conditions (RFC 9110 §13, §14). A returned error is a read error after the
// response has begun.
func (s *Server) send(w http.ResponseWriter, r *http.Request, c content) error {
	h := w.Header()
	h.Set("Content-Type", "application/gzip")
	h.Set("ETag", `"`+c.tag+`"`)
	h.Set("Content-Disposition", `attachment; filename="`+c.name+`"`)
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-cache") // clients must revalidate
	}
	t := &transfer{SectionReader: io.NewSectionReader(c, 0, c.size)}
	httprange.Serve(w, r, time.Time{}, t)
	return t.err
}

// transfer is a content that is being sent. It records the read error.
type transfer struct {
	*io.SectionReader
	err error
}

func (t *transfer) Read(p []byte) (int, error) {
	n, err := t.SectionReader.Read(p)
	if at, _ := t.Seek(0, io.SeekCurrent); errors.Is(err, io.EOF) && at < t.Size() {
		err = io.ErrUnexpectedEOF
	}
	if err != nil && !errors.Is(err, io.EOF) {
		t.err = err
	}
	return n, err
}

// broken closes the connection of an incomplete response, so that the client does not consider it complete.
func (s *Server) broken(w http.ResponseWriter, r *http.Request, err error) error {
	if err == nil || errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		return nil //nolint:nilerr // the client is gone
	}
	if seen, ok := w.(*observed); ok {
		seen.aborted = true
	}
	s.log.Error("transfer aborted", "path", r.URL.Path, "client", s.client(r), "error", err)
	panic(http.ErrAbortHandler)
}
