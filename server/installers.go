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

	"github.com/sealift/sealift/internal/connlimit"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store"
)

// installersDir is the folder of Installers in the store.
const installersDir = "installers"

var (
	// nameForm matches the names of Installers. An id is also a name.
	nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	// idForm matches the ids of unnamed Installers: the beginning of a digest.
	idForm = regexp.MustCompile(`^[0-9a-f]{7,64}$`)
)

// reservedNames are the names that are paths of the server.
func reservedNames() []string {
	return []string{"api", "bin", "bundle", "compose", "dist", "healthz", "installer", "metrics", "packages", "page", "readyz", "validate", "version"}
}

// created is the response after storing an Installer.
type created struct {
	ID     string `json:"id"`
	URL    string `json:"url"`
	Bundle string `json:"bundle"`
	// Warnings name probable mistakes, such as options without effect.
	Warnings []diag.Finding `json:"warnings,omitempty"`
}

// validated is the response for an Installer that was only checked.
type validated struct {
	ID        string `json:"id"`
	Installer string `json:"installer"` // canonical, with versions instead of patterns
	Size      int64  `json:"size"`      // of the bundle, in bytes
	Index     string `json:"index"`     // sha256 of the bundle's index
	// Warnings are as in created.
	Warnings []diag.Finding `json:"warnings,omitempty"`
}

// postInstaller stores an Installer under an id that is computed from it.
func (s *Server) postInstaller(w http.ResponseWriter, r *http.Request) error {
	trusted := s.access(r) == accessValid
	if s.options.Closed && !trusted {
		return s.authorize(r)
	}
	d, err := s.readInstaller(r)
	if err != nil {
		return err
	}
	if !trusted {
		if err := s.harmless(r, d.parsed); err != nil {
			return err
		}
	}
	id, created, err := s.keep(r, d)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return s.respondCreated(w, r, status, id, d.parsed)
}

// keep stores an Installer under an id that is computed from it, unless it is stored already.
func (s *Server) keep(r *http.Request, d *document) (id string, isNew bool, err error) {
	id = d.digest[:spec.IDLength]
	i, err := d.installer()
	if err != nil {
		return "", false, err
	}
	i.APIVersion, i.Name = spec.APIVersion, id // neither affects the id
	text, err := written(i)
	if err != nil {
		return "", false, err
	}
	if same, err := s.isStored(r.Context(), id, text); err != nil || same {
		return id, false, err
	}
	if s.access(r) != accessValid {
		if err := s.room(r.Context(), s.client(r)); err != nil {
			return "", false, err
		}
	}
	_, err = s.store.Swap(r.Context(), installerKey(id), text, "")
	if errors.Is(err, store.ErrChanged) { // a concurrent request was faster
		same, err := s.isStored(r.Context(), id, text)
		return id, !same, err
	}
	return id, true, err
}

// isStored reports whether an Installer is already stored under its id.
func (s *Server) isStored(ctx context.Context, id string, text []byte) (bool, error) {
	o, err := s.store.Get(ctx, installerKey(id))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer o.Close()
	stored, err := io.ReadAll(io.NewSectionReader(o, 0, min(o.Size(), maxBody+1)))
	if err == nil && !bytes.Equal(stored, text) {
		err = problem(http.StatusConflict, "another object has this Installer's key in the store; give the Installer a name, or tell the operator of this server")
	}
	return err == nil, err
}

// putInstaller stores an Installer under a name and replaces the old one.
func (s *Server) putInstaller(w http.ResponseWriter, r *http.Request) error {
	if err := s.authorize(r); err != nil {
		return err
	}
	name := r.PathValue("name")
	switch {
	case !nameForm.MatchString(name):
		return problem(http.StatusBadRequest, "a name has at most 63 lower-case letters, digits and dashes")
	case idForm.MatchString(name), slices.Contains(reservedNames(), name):
		return problem(http.StatusBadRequest, "this name is reserved; choose one that has not only hexadecimal digits and is not a path of the server")
	}
	d, err := s.readInstaller(r)
	if err != nil {
		return err
	}
	d.parsed.Name = name
	text, err := written(d.parsed)
	if err != nil {
		return err
	}
	if _, err := s.options.Packages.Store.Put(r.Context(), installerKey(name), store.Bytes(text)); err != nil {
		return err
	}
	return s.respondCreated(w, r, http.StatusOK, name, d.parsed)
}

// respondCreated answers with the URL of an Installer, as kURL does, or with JSON.
func (s *Server) respondCreated(w http.ResponseWriter, r *http.Request, status int, id string, i *spec.Installer) error {
	base, err := s.baseURL(r)
	if err != nil {
		return err
	}
	note(r, id)
	at := base + releasePath(r) + "/" + id
	w.Header().Set("Location", base+"/installer/"+id)
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		writeJSON(w, status, "application/json", created{ID: id, URL: at, Bundle: base + "/bundle" + releasePath(r) + "/" + id + packageSuffix, Warnings: i.Check()})
		return nil
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, at)
	return nil
}

func (s *Server) validateInstaller(w http.ResponseWriter, r *http.Request) error {
	i, err := spec.Parse("installer.yaml", r.Body)
	if err != nil {
		return err
	}
	d, err := sentDocument("installer.yaml", i)
	if err != nil {
		return err
	}
	plan, err := s.plans.get(r.Context(), planKey{document: d, folder: folderOf(r), client: connlimit.Key(s.client(r))})
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, "application/json", validated{ID: d.digest[:spec.IDLength], Installer: string(plan.installer), Size: plan.Size(), Index: plan.Digest, Warnings: d.parsed.Check()})
	return nil
}

// readInstaller reads the Installer in a request and checks that the store has its packages.
func (s *Server) readInstaller(r *http.Request) (*document, error) {
	i, err := spec.Parse("installer.yaml", r.Body)
	if err != nil {
		return nil, err
	}
	d, err := sentDocument("installer.yaml", i)
	if err != nil {
		return nil, err
	}
	_, err = s.plans.get(r.Context(), planKey{document: d, folder: folderOf(r), client: connlimit.Key(s.client(r))})
	return d, err
}

// harmless refuses Installers that need the token, because hosts run their commands as root, or trust or ask their servers.
func (s *Server) harmless(r *http.Request, i *spec.Installer) error {
	var lines []string
	for _, e := range append(i.Executions(), i.Reaches()...) {
		if len(lines) == maxTold {
			lines = append(lines, "and more")
			break
		}
		lines = append(lines, diag.Short(e.String()))
	}
	if len(lines) == 0 {
		return nil
	}
	way := "leave it out, or send the token of this server: 'Authorization: Bearer <token>'"
	status := http.StatusForbidden
	switch {
	case s.options.Token == "":
		way = "leave it out; this server has no token, so it cannot store it"
	case s.access(r) == accessWrong:
		status = http.StatusUnauthorized
		way = "leave it out, or send the right token: the one in the request is wrong"
	}
	return problem(status, "an Installer that runs programs, reads files or chooses servers for hosts can only be stored with the token; "+way+"\n"+strings.Join(lines, "\n"))
}

// maxTold is the maximum number of executions that a refusal lists.
const maxTold = 10

// access reports whether a request has the token.
type access string

const (
	accessNone  access = "none"
	accessWrong access = "wrong"
	accessValid access = "valid"
)

func (s *Server) access(r *http.Request) access {
	header := r.Header.Get("Authorization")
	if header == "" {
		return accessNone
	}
	scheme, got, _ := strings.Cut(header, " ")
	want, given := sha256.Sum256([]byte(s.options.Token)), sha256.Sum256([]byte(got))
	if !strings.EqualFold(scheme, "Bearer") || s.options.Token == "" || subtle.ConstantTimeCompare(want[:], given[:]) != 1 {
		return accessWrong
	}
	return accessValid
}

// authorize fails unless the request has the token.
func (s *Server) authorize(r *http.Request) error {
	switch {
	case s.options.Token == "":
		return problem(http.StatusForbidden, "this server refuses such Installers; its operator must start it with a token")
	case s.access(r) != accessValid:
		return problem(http.StatusUnauthorized, "send the token of this server: 'Authorization: Bearer <token>'")
	}
	return nil
}
