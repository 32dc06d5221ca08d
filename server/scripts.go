package server

import (
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/sealift/sealift/assemble"
	"github.com/sealift/sealift/internal/connlimit"
)

var (
	// plainHost and plainPath match text that is safe in a script: a shell takes it literally.
	plainHost = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)
	plainPath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)*/?$`)
)

// getScript sends a script for the nodes of an Installer: install.sh (also under the id alone), join.sh, upgrade.sh, or
// tasks.sh, whose first argument is a task.
func (s *Server) getScript(w http.ResponseWriter, r *http.Request) error {
	id, name := r.PathValue("id"), r.PathValue("script")
	if name == "" {
		name = "install.sh"
	}
	command, ok := strings.CutSuffix(name, ".sh")
	if !ok || !slices.Contains(assemble.ScriptNames(), command) {
		return problem(http.StatusNotFound, "the scripts are install.sh, join.sh, upgrade.sh and tasks.sh")
	}
	if _, err := s.loadInstaller(r.Context(), connlimit.Key(s.client(r)), id); err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Type", "text/x-shellscript; charset=utf-8")
	base, err := s.baseURL(r)
	if err != nil {
		return err
	}
	script := assemble.Script{
		Programs: s.options.Programs, Command: command, Commands: s.options.Commands,
		URL: base + releasePath(r) + "/" + id, ProgramsURL: base + "/bin",
	}
	_, _ = w.Write(script.Text()) // the client may be gone
	return nil
}

// baseURL returns the URL by which clients reach the server.
func (s *Server) baseURL(r *http.Request) (string, error) {
	if s.options.URL != "" {
		return s.options.URL, nil
	}
	if !plainHost.MatchString(r.Host) {
		return "", problem(http.StatusBadRequest, "the Host of the request is not the name or address of a server")
	}
	if r.TLS != nil {
		return "https://" + r.Host, nil
	}
	return "http://" + r.Host, nil
}

// releasePath returns the path prefix of the request's release.
func releasePath(r *http.Request) string {
	if folder := folderOf(r); folder != "" {
		return "/version/" + path.Base(folder)
	}
	return ""
}
