package share

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/httprange"
	"github.com/sealift/sealift/internal/platform"
	"github.com/sealift/sealift/internal/regularfile"
)

// Programs are the sealift programs that a control plane gives out: its own, and those for hosts of other platforms, if its bundle has them.
type Programs struct {
	Platform string // of this node, such as linux/amd64
	Binary   string // the sealift of this node
	Root     string // the install root, which has the others: see bundle.ProgramPath
}

// platforms lists the platforms of hosts, this node's first.
func (p Programs) platforms() []string {
	return append([]string{p.Platform}, slices.DeleteFunc(platform.OfHosts(), func(other string) bool { return other == p.Platform })...)
}

// file returns the path of the program for a platform.
func (p Programs) file(name string) string {
	if name == p.Platform {
		return p.Binary
	}
	return filepath.Join(p.Root, bundle.ProgramPath(bundle.BinaryName, name))
}

// url is the path of the program for a platform. That of this node is where an earlier sealift had its only one.
func (p Programs) url(name string) string {
	if name == p.Platform {
		return binaryPath
	}
	return programPath(name)
}

// programPath is where a control plane with another platform has the program for a platform.
func programPath(name string) string { return binaryPath + "/" + strings.ReplaceAll(name, "/", "-") }

// program answers with the sealift of this node, or with that for the platform in the path.
func (s *Server) program(w http.ResponseWriter, r *http.Request, _ client) error {
	name := s.Programs.Platform
	if asked := r.PathValue("platform"); asked != "" {
		known := s.Programs.platforms()
		n := slices.IndexFunc(known, func(one string) bool { return programPath(one) == r.URL.Path })
		if n < 0 {
			return fmt.Errorf("sealift for %s: %w", asked, fs.ErrNotExist)
		}
		name = known[n]
	}
	f, err := regularfile.Open(s.Programs.file(name))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	httprange.Serve(w, r, info.ModTime(), f)
	return nil
}

// maxProgram bounds the program of a node.
const maxProgram = 1 << 30

// Program writes the sealift for hosts of a platform. Its digest must be known: it comes from a file that may be replaced. An earlier
// sealift gives out only that of its own platform.
func (c *Client) Program(ctx context.Context, platform string, w io.Writer) error {
	response, err := c.do(ctx, http.MethodGet, programPath(platform), nil, "")
	if errors.Is(err, fs.ErrNotExist) {
		response, err = c.do(ctx, http.MethodGet, binaryPath, nil, "")
	}
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(w, io.LimitReader(response.Body, maxProgram))
	return err
}
