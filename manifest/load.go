package manifest

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/manifest/repository"
)

// Load reads and checks the Manifest at path, which must be in the repository of its directory. Every error of the file is in
// the diag.Errors that it returns; warnings are left to Lint.
func Load(path string) (*File, error) {
	r, err := repository.Of(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	defer r.Close()
	return LoadFrom(r, path)
}

// LoadFrom is Load for a repository that is open.
func LoadFrom(r *repository.Repository, path string) (*File, error) {
	file, findings, err := readFrom(r, path)
	if err != nil {
		return nil, err
	}
	if err := diag.Err(findings); err != nil {
		return nil, err
	}
	return file, nil
}

func readFrom(r *repository.Repository, path string) (*File, []diag.Finding, error) {
	name, err := r.Name(filepath.Dir(path), filepath.Base(path))
	if err != nil {
		return nil, nil, fmt.Errorf("read manifest %s: %w", path, err)
	}
	f, err := r.Open(name)
	if err != nil {
		return nil, nil, fmt.Errorf("read manifest %s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	return read(path, f)
}

// Lint reads a Manifest and returns all findings, syntactic and semantic, in the order of the file. The error is one of reading
// the stream.
func Lint(name string, r io.Reader) ([]diag.Finding, error) {
	_, findings, err := read(name, r)
	return findings, err
}

// LintFile is Lint for the Manifest at path. It also finds what would be read from outside the repository: the Manifest
// itself, where it is a link, and assets.
func LintFile(path string) ([]diag.Finding, error) {
	r, err := repository.Of(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	defer r.Close()
	var all diag.List
	file, findings, err := readFrom(r, path)
	if errors.Is(err, repository.ErrOutside) {
		all.Errorf(diag.Pos{File: path}, "a Manifest is a file of the repository, or a link to one", "%v", err)
		return all.Findings(), nil
	}
	if err != nil {
		return nil, err
	}
	all.Add(findings...)
	for _, d := range file.Assets() {
		for _, arch := range []string{"amd64", "arm64"} {
			if err := outside(r, filepath.Dir(path), strings.ReplaceAll(d.Source, ArchWord, arch)); err != nil {
				all.Errorf(d.word(len(d.columns)-1), "name a file of the repository by its path from the Manifest, or a URL", "%v", err)
				break
			}
		}
	}
	return all.Findings(), nil
}

// outside is the error of an asset on the file system outside the repository. A missing one is checked by the build.
func outside(r *repository.Repository, dir, source string) error {
	if strings.Contains(source, "://") || filepath.IsAbs(source) { // Check reports absolute paths
		return nil
	}
	name, err := r.Name(dir, source)
	if err != nil {
		return err
	}
	f, err := r.Open(name)
	if err == nil {
		return f.Close()
	}
	if errors.Is(err, repository.ErrOutside) {
		return err
	}
	return nil
}

// read parses and checks.
func read(name string, r io.Reader) (*File, []diag.Finding, error) {
	var all diag.List
	file, err := Parse(name, r)
	var mistakes diag.Errors
	switch {
	case errors.As(err, &mistakes):
		all.Add(mistakes...)
	case err != nil:
		return nil, nil, err
	}
	all.Add(Check(file)...)
	return file, all.Findings(), nil
}
