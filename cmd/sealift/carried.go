package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/server/airgap"
)

// programs are what nodes get besides packages.
type programs struct {
	sealift   *bundle.Member
	preflight *bundle.Member // nil when there is none
}

// carriedPrograms prepares the programs for the nodes, the named ones or those that run here.
func (a *app) carriedPrograms(ctx context.Context, sealift, preflight string) (p programs, err error) {
	if p.sealift, err = carriedBinary(ctx, sealift); err != nil {
		return programs{}, err
	}
	if p.preflight, err = a.carriedPreflight(ctx, preflight, sealift); err != nil {
		return programs{}, errors.Join(err, p.close())
	}
	return p, nil
}

func (p programs) close() error {
	err := p.sealift.Close()
	if p.preflight != nil {
		err = errors.Join(err, p.preflight.Close())
	}
	return err
}

// carriedBinary prepares the sealift for the nodes: this one, unless another is named. Its compressed form is kept in the cache.
func carriedBinary(ctx context.Context, name string) (*bundle.Member, error) {
	var err error
	if name == "" {
		if name, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	dir, err := cache.DefaultDir()
	if err != nil {
		return nil, err
	}
	return airgap.Binary(ctx, name, filepath.Join(dir, "deflated"))
}

// carriedPreflight prepares the sealift-preflight for the nodes: the one that is named, or else the one beside the sealift
// that they get. Without it a bundle is complete but for the checks of its add-ons.
func (a *app) carriedPreflight(ctx context.Context, name, beside string) (*bundle.Member, error) {
	if name == "" {
		var err error
		if beside == "" {
			if beside, err = os.Executable(); err != nil {
				return nil, err
			}
		}
		name = filepath.Join(filepath.Dir(beside), preflight.ProgramName)
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(a.errOut, "warning: there is no %s: the bundle will make sealift's own checks of a host, not those of its add-ons\n", name)
			return nil, nil
		}
	}
	dir, err := cache.DefaultDir()
	if err != nil {
		return nil, err
	}
	return airgap.Preflight(ctx, name, filepath.Join(dir, "deflated"))
}
