package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store"
)

// installersDir is the folder of the store that Installers are in.
const installersDir = "installers"

var (
	// nameForm is what an Installer may be called. An id is such a name, too.
	nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	// idForm is what the ids of Installers without a name look like: the beginning of a digest.
	idForm = regexp.MustCompile(`^[0-9a-f]{7,64}$`)
)

// reservedNames are those that lead elsewhere.
func reservedNames() []string {
	return []string{"api", "bin", "bundle", "compose", "dist", "healthz", "installer", "metrics", "packages", "page", "readyz", "validate", "version"}
}

// created is the answer to a stored Installer.
type created struct {
	ID     string `json:"id"`
	URL    string `json:"url"`
	Bundle string `json:"bundle"`
}

// validated is the answer to an Installer that was only looked at.
type validated struct {
	ID        string `json:"id"`
	Installer string `json:"installer"` // canonical, with versions in place of patterns
	Size      int64  `json:"size"`      // of the bundle, in bytes
	Index     string `json:"index"`     // sha256 of the bundle's index
}

// postInstaller stores an Installer under an id that follows from it.
func (s *Server) postInstaller(w http.ResponseWriter, r *http.Request) error {
	if s.options.Closed {
		if err := s.authorize(r); err != nil {
			return err
		}
	}
	i, err := s.readInstaller(r)
	if err != nil {
		return err
	}
	id, created, err := s.keep(r.Context(), i)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return s.tellCreated(w, r, status, id)
}

// keep stores an Installer under an id that follows from it, unless it is there already.
func (s *Server) keep(ctx context.Context, i *spec.Installer) (id string, isNew bool, err error) {
	digest, err := i.Digest()
	if err != nil {
		return "", false, err
	}
	i.APIVersion = spec.APIVersion // neither it nor the name is part of the id
	for length := 7; length <= len(digest); length++ {
		id = digest[:length]
		i.Name = id
		text, err := written(i)
		if err != nil {
			return "", false, err
		}
		_, err = s.options.Packages.Store.Swap(ctx, installerKey(id), text, "")
		if err == nil {
			return id, true, nil
		}
		if !errors.Is(err, store.ErrChanged) {
			return "", false, err
		}
		if same, err := s.isStored(ctx, id, digest); err != nil {
			return "", false, err
		} else if same {
			return id, false, nil
		}
	}
	return "", false, problem(http.StatusConflict, "an object in the place of this Installer is another one; give it a name")
}

// isStored says whether the Installer of an id has a digest.
func (s *Server) isStored(ctx context.Context, id, digest string) (bool, error) {
	o, err := s.openInstaller(ctx, id)
	if err != nil {
		return false, err
	}
	defer o.Close()
	stored, err := parse(id, o) // in the turn of the Installer that it is held against
	if err != nil {
		return false, err
	}
	got, err := stored.Digest()
	return got == digest, err
}

// putInstaller stores an Installer under a name, in place of what had it.
func (s *Server) putInstaller(w http.ResponseWriter, r *http.Request) error {
	if err := s.authorize(r); err != nil {
		return err
	}
	name := r.PathValue("name")
	switch {
	case !nameForm.MatchString(name):
		return problem(http.StatusBadRequest, "a name has lower-case letters, digits and dashes, and at most 63 of them")
	case idForm.MatchString(name), slices.Contains(reservedNames(), name):
		return problem(http.StatusBadRequest, "this name has another meaning; choose one that is not of hexadecimal digits only, nor a word of the server's own")
	}
	i, err := s.readInstaller(r)
	if err != nil {
		return err
	}
	i.Name = name
	text, err := written(i)
	if err != nil {
		return err
	}
	if _, err := s.options.Packages.Store.Put(r.Context(), installerKey(name), store.Bytes(text)); err != nil {
		return err
	}
	return s.tellCreated(w, r, http.StatusOK, name)
}

// tellCreated answers with the URL of an Installer, as kURL does, or with more in JSON.
func (s *Server) tellCreated(w http.ResponseWriter, r *http.Request, status int, id string) error {
	base, err := s.baseURL(r)
	if err != nil {
		return err
	}
	note(r, id)
	at := base + releasePath(r) + "/" + id
	w.Header().Set("Location", base+"/installer/"+id)
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		writeJSON(w, status, "application/json", created{ID: id, URL: at, Bundle: base + "/bundle" + releasePath(r) + "/" + id + packageSuffix})
		return nil
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, at)
	return nil
}

func (s *Server) validateInstaller(w http.ResponseWriter, r *http.Request) error {
	i, err := s.readInstaller(r)
	if err != nil {
		return err
	}
	plan, err := s.plans.get(r.Context(), question{installer: i, folder: folderOf(r)})
	if err != nil {
		return err
	}
	id, err := i.ID()
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, "application/json", validated{ID: id, Installer: string(plan.installer), Size: plan.Size(), Index: plan.Digest})
	return nil
}

func (s *Server) getInstaller(w http.ResponseWriter, r *http.Request) error {
	i, err := s.loadInstaller(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	text, err := i.Canonical()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(text)))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
	return nil
}

// readInstaller reads the Installer that was sent, and wants the store to have all that it asks for.
func (s *Server) readInstaller(r *http.Request) (*spec.Installer, error) {
	i, err := spec.Parse("installer.yaml", r.Body)
	if err != nil {
		return nil, err
	}
	if _, err := written(i); err != nil {
		return nil, err
	}
	_, err = s.plans.get(r.Context(), question{installer: i, folder: folderOf(r)})
	return i, err
}

// written gives an Installer as it is stored, which must not be larger than one that is sent: it is read with each request for it.
func written(i *spec.Installer) ([]byte, error) {
	text, err := i.Canonical()
	if err == nil && len(text) > maxBody {
		return nil, &http.MaxBytesError{Limit: maxBody}
	}
	return text, err
}

func installerKey(id string) string { return installersDir + "/" + id + ".yaml" }

// loadInstaller reads a stored Installer.
func (s *Server) loadInstaller(ctx context.Context, id string) (*spec.Installer, error) {
	o, err := s.openInstaller(ctx, id)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	done, err := s.work(ctx, o.Size())
	if err != nil {
		return nil, err
	}
	defer done()
	return parse(id, o)
}

func (s *Server) openInstaller(ctx context.Context, id string) (store.Object, error) {
	if !nameForm.MatchString(id) && !idForm.MatchString(id) {
		return nil, problem(http.StatusBadRequest, "that is no id of an Installer: it has lower-case letters, digits and dashes only")
	}
	missing := problem(http.StatusNotFound, fmt.Sprintf("there is no Installer %s; make one by sending it to /installer", id))
	if slices.Contains(reservedNames(), id) {
		return nil, missing
	}
	o, err := s.options.Packages.Store.Get(ctx, installerKey(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missing
	}
	return o, err
}

func parse(id string, o store.Object) (*spec.Installer, error) {
	i, err := spec.Parse(id+".yaml", io.NewSectionReader(o, 0, o.Size()))
	if err != nil {
		return nil, fmt.Errorf("the stored Installer is not readable: %w", err)
	}
	return i, nil
}

// authorize wants a request to bear the token.
func (s *Server) authorize(r *http.Request) error {
	if s.options.Token == "" {
		return problem(http.StatusForbidden, "this server takes no such Installers; its operator has to start it with a token")
	}
	got, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	want, given := sha256.Sum256([]byte(s.options.Token)), sha256.Sum256([]byte(got))
	if !ok || subtle.ConstantTimeCompare(want[:], given[:]) != 1 {
		return problem(http.StatusUnauthorized, "send the token of this server: 'Authorization: Bearer <token>'")
	}
	return nil
}
