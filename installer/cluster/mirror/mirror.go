// Package mirror answers pulls of images by the OCI distribution protocol, version 1.1: manifests by tag and by digest, blobs with
// ranges, lists of tags, and referrers.
//
// An image has the name that it has upstream. containerd asks for docker.io/library/busybox:1.36 as
// /v2/library/busybox/manifests/1.36?ns=docker.io; another client asks for /v2/docker.io/library/busybox/manifests/1.36.
//
// The package never writes, and takes no image. It does not know who asks: the caller checks that before, and bounds connections.
package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sealift/sealift/bundle/ocilayout"
	"github.com/sealift/sealift/internal/httprange"
)

// Path is the beginning of all paths.
const Path = "/v2/"

// Content is what a server has.
type Content interface {
	// Offered returns the indexes and manifests of a repository that clients may have, by their whole names, such as
	// docker.io/library/busybox:1.36 and docker.io/library/busybox@sha256:…. It is empty for an unknown repository.
	Offered(ctx context.Context, repository string) (map[string]ocispec.Descriptor, error)
	// Blob opens a blob by the hexadecimal digits of its sha256. A missing one is fs.ErrNotExist.
	Blob(ctx context.Context, sha256 string) (content.ReaderAt, error)
	// Form returns the form of a layer that is here: the layer itself, or its lean form, which the configuration of its image names. If neither
	// is here, or no configuration, that is fs.ErrNotExist.
	Form(ctx context.Context, config, layer ocispec.Descriptor) (ocispec.Descriptor, error)
}

// Server answers requests below Path.
type Server struct {
	Content Content
	Log     *slog.Logger
	// Spread answers a request for a blob of a size in bytes that this server has: by send, or by sending the client elsewhere. Nil always
	// calls send.
	Spread func(w http.ResponseWriter, r *http.Request, of digest.Digest, size int64, send func())
}

// ServeHTTP implements http.Handler.
func (s Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		failure{http.StatusMethodNotAllowed, "UNSUPPORTED", "images can only be pulled here"}.write(w)
		return
	}
	asked, err := parse(r.URL.Path, r.URL.Query().Get("ns"))
	if err == nil {
		err = s.answer(w, r, asked)
	}
	if err == nil {
		return
	}
	if refused, ok := errors.AsType[failure](err); ok {
		refused.write(w)
		return
	}
	s.Log.Warn("cannot answer a pull", "host", r.RemoteAddr, "path", r.URL.Path, "error", err)
	failure{http.StatusInternalServerError, "UNKNOWN", err.Error()}.write(w)
}

func (s Server) answer(w http.ResponseWriter, r *http.Request, asked request) error {
	if asked.kind == version {
		w.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(w, "{}")
		return err
	}
	offered, err := s.Content.Offered(r.Context(), asked.repository)
	if err != nil {
		return err
	}
	if len(offered) == 0 {
		return failure{http.StatusNotFound, "NAME_UNKNOWN", asked.repository + " has no images here"}
	}
	repository := repository{ctx: r.Context(), content: s.Content, name: asked.repository, offered: offered}
	switch asked.kind {
	case manifests:
		return repository.manifest(w, asked)
	case blobs:
		return repository.blob(w, r, asked.digest, s.Spread)
	case tags:
		return repository.tags(w, r)
	}
	return repository.referrers(w, r, asked.digest)
}

// failure is an error in the form of the protocol.
type failure struct {
	status  int
	code    string // one of the protocol's list
	message string
}

func (f failure) Error() string { return f.code + ": " + f.message }

func (f failure) write(w http.ResponseWriter) {
	type one struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	text, _ := json.Marshal(map[string][]one{"errors": {{f.code, f.message}}}) // strings alone
	for _, of := range []string{"Docker-Content-Digest", "Content-Length", "Etag"} {
		w.Header().Del(of)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.status)
	_, _ = w.Write(text)
}

// serve answers with a document that is in memory.
func serve(w http.ResponseWriter, mediaType string, data []byte) {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data)
}

// manifest answers with an index or a manifest. It is compared with its digest before it is sent.
func (p repository) manifest(w http.ResponseWriter, asked request) error {
	target, data, err := p.document(asked)
	if errors.Is(err, fs.ErrNotExist) {
		return failure{http.StatusNotFound, "MANIFEST_UNKNOWN", p.name + " has no manifest " + asked.tag + asked.digest.String() + " here"}
	}
	if err != nil {
		return err
	}
	w.Header().Set("Docker-Content-Digest", target.Digest.String())
	w.Header().Set("Etag", strconv.Quote(target.Digest.String()))
	serve(w, target.MediaType, data)
	return nil
}

// document finds an index or a manifest. A missing one is fs.ErrNotExist.
func (p repository) document(asked request) (target ocispec.Descriptor, data []byte, err error) {
	var lean *leanManifest
	if asked.digest == "" {
		named, ok := p.offered[p.name+":"+asked.tag]
		if !ok {
			return target, nil, fs.ErrNotExist
		}
		target = named
		lean, err = p.lean(named)
	} else {
		found, findErr := p.find(func(m ocilayout.Manifest) bool { return m.Digest == asked.digest })
		if found != nil {
			target = found.Descriptor
		} else if err = findErr; err == nil {
			lean, err = p.findLean(func(m *leanManifest) bool { return m.target.Digest == asked.digest })
		}
	}
	switch {
	case err != nil:
		return target, nil, err
	case lean != nil:
		return lean.target, lean.data, nil
	case target.Digest == "":
		return target, nil, fs.ErrNotExist
	}
	data, err = p.layout().Document(target.Digest)
	return target, data, err
}

// blob answers with a blob of an image, or with a part of it. The content store has compared it with its digest when it was
// stored, and clients compare it again.
func (p repository) blob(w http.ResponseWriter, r *http.Request, of digest.Digest, spread func(http.ResponseWriter, *http.Request, digest.Digest, int64, func())) error {
	unknown := failure{http.StatusNotFound, "BLOB_UNKNOWN", p.name + " has no blob " + of.String() + " here"}
	found, err := p.find(func(m ocilayout.Manifest) bool {
		return m.Digest == of || m.Config.Digest == of || slices.ContainsFunc(m.Layers, func(l ocispec.Descriptor) bool { return l.Digest == of })
	})
	if err != nil {
		return err
	}
	if found == nil {
		lean, err := p.findLean(func(m *leanManifest) bool {
			return slices.ContainsFunc(m.layers, func(l ocispec.Descriptor) bool { return l.Digest == of })
		})
		if err != nil {
			return err
		}
		if lean == nil {
			return unknown
		}
	}
	blob, err := p.content.Blob(p.ctx, of.Encoded())
	if errors.Is(err, fs.ErrNotExist) { // of another platform, or only lean
		return unknown
	}
	if err != nil {
		return err
	}
	defer blob.Close()
	send := func() {
		w.Header().Set("Docker-Content-Digest", of.String())
		w.Header().Set("Etag", strconv.Quote(of.String()))
		w.Header().Set("Content-Type", "application/octet-stream")
		httprange.Serve(w, r, time.Time{}, io.NewSectionReader(blob, 0, blob.Size()))
	}
	if spread == nil {
		send()
	} else {
		spread(w, r, of, blob.Size(), send)
	}
	return nil
}

// tags answers with the tags in lexical order: all, or the n first that come after last.
func (p repository) tags(w http.ResponseWriter, r *http.Request) error {
	list := []string{}
	for name := range p.offered {
		if tag, ok := strings.CutPrefix(name, p.name+":"); ok && !strings.Contains(tag, "@") { // a name with both is asked for by its digest
			list = append(list, tag)
		}
	}
	slices.Sort(list)
	query := r.URL.Query()
	if last := query.Get("last"); last != "" {
		list = slices.DeleteFunc(list, func(tag string) bool { return tag <= last })
	}
	if text := query.Get("n"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return failure{http.StatusBadRequest, "UNSUPPORTED", fmt.Sprintf("n is %q, not a number of tags", text)}
		}
		if n < len(list) {
			if list = list[:n]; n > 0 {
				next := *r.URL
				query.Set("last", list[n-1])
				next.RawQuery = query.Encode()
				w.Header().Set("Link", "<"+next.RequestURI()+`>; rel="next"`)
			}
		}
	}
	text, err := json.Marshal(map[string]any{"name": p.name, "tags": list})
	if err == nil {
		serve(w, "application/json", text)
	}
	return err
}
