package server

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	kyaml "sigs.k8s.io/yaml"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/internal/connlimit"
	"github.com/sealift/sealift/internal/httprange"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store/release"
)

// getVersions lists the versions of each add-on, as kURL's API does: its web page and its linter ask for them.
func (s *Server) getVersions(w http.ResponseWriter, r *http.Request) error {
	c, err := s.catalogue(r.Context(), folderOf(r))
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(c.versions) // the client may be gone
	return nil
}

// versionsOf returns the versions of a release by the add-on's key in a spec: first latest, then the version that it stands for, then
// the older ones. Versions that latest never stands for, such as 1.37.0-rc.1, are last.
func versionsOf(index release.Index) map[string][]string {
	versions := map[string][]string{}
	for _, p := range index.Packages {
		key := spec.Key(p.Name)
		versions[key] = append(versions[key], p.Version)
	}
	for key, all := range versions {
		slices.SortFunc(all, catalog.NewestFirst)
		versions[key] = append([]string{catalog.Latest}, slices.Compact(all)...)
	}
	return versions
}

// getInstaller answers with a stored Installer: canonical, with ?resolve with versions instead of patterns, and as JSON for a client
// that asks for it.
func (s *Server) getInstaller(w http.ResponseWriter, r *http.Request) error {
	client := connlimit.Key(s.client(r))
	d, err := s.loadInstaller(r.Context(), client, r.PathValue("id"))
	if err != nil {
		return err
	}
	resolve, err := wants(r.URL.Query(), "resolve")
	if err != nil {
		return err
	}
	text, kind := d.text, "application/yaml"
	if resolve {
		plan, err := s.plans.get(r.Context(), planKey{document: d, folder: folderOf(r), client: client})
		if err != nil {
			return err
		}
		text = plan.installer
	}
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		kind = "application/json"
		done, err := s.slots.take(r.Context(), client, int64(len(text)))
		if err != nil {
			return err
		}
		text, err = kyaml.YAMLToJSON(text)
		done()
		if err != nil {
			return fmt.Errorf("write the Installer as JSON: %w", err)
		}
		if err := connlimit.Grow(r, int64(cap(text))); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Vary", "Accept")
	w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(text)))
	httprange.Serve(w, r, time.Time{}, bytes.NewReader(text))
	return nil
}
