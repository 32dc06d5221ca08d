package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/sealift/sealift/assemble"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/delta"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/store"
)

const (
	// maxPatches is how many bytes of patches the spool keeps, besides those in use.
	maxPatches = 10 << 30
	// atPatches is how many requests at a time look for the patches of their bundles. One of them makes a patch.
	atPatches = 4
)

// patching is the answer while patches are made. Clients try again.
func patching() *Problem {
	p := problem(http.StatusServiceUnavailable, "the server is making patches, which takes up to half a minute for each program; send the request again in a few seconds")
	p.retryAfter = 5
	return p
}

// makePatches makes the patches of a bundle that are not kept yet: of files of an earlier bundle, and in a lean bundle of similar files. As
// compress, it goes on when the client leaves. It holds a slot while it reads the Installer only, and has its own turn for the rest.
func (p *plans) makePatches(ctx context.Context, from packages.Source, q planKey, key string, versions map[string]string) error {
	if p.server.options.Patches == nil {
		return problem(http.StatusNotFound, "this server makes no patches: it was started without --patch; request the bundle without patch")
	}
	if q.since == "" && !q.lean {
		return problem(http.StatusBadRequest, "patch needs since or lean; since is the sha256 of the index of the bundle that has the earlier files, which 'sealift inspect' shows")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, makingTime, patching())
	defer cancel()
	_, err := share(ctx, &p.flight, "patch "+key, func() (bool, error) {
		turn, err := p.patches.take(p.ctx, q.client, minText)
		if err != nil {
			return false, err
		}
		defer turn()
		if err := p.server.options.Patches.Trim(maxPatches); err != nil {
			p.server.log.Warn("patches that nobody uses were not removed", "error", err)
		}
		document := *q.document
		done, err := p.server.slots.take(p.ctx, q.client, int64(len(document.text)))
		if err != nil {
			return false, err
		}
		document.parsed, err = document.installer()
		done()
		if err != nil {
			return false, err
		}
		q.document = &document
		made, err := p.make(p.ctx, from, q, versions)
		if err != nil {
			return false, err
		}
		return true, made.Close()
	})
	return err
}

// earlier is the content of an earlier bundle, as far as the store still has its packages.
type earlier struct {
	delta.Earlier
	objects []store.Object
}

func (e *earlier) close() error {
	var errs []error
	for _, o := range e.objects {
		errs = append(errs, o.Close())
	}
	return errors.Join(errs...)
}

// openEarlier opens the packages of an earlier bundle. The caller closes what it returns, also after an error.
func (p *plans) openEarlier(ctx context.Context, from packages.Source, since *bundle.Since) (e earlier, err error) {
	e.Since, e.Spool = since, p.server.options.Patches
	for _, info := range since.Packages() {
		object, archive, found, err := assemble.OpenBuild(ctx, assemble.Build{Name: info.Name, Version: info.Version, Index: info.Index}, from, assemble.Platforms(p.server.options.Programs))
		if err != nil {
			return e, err
		}
		if found {
			e.objects, e.Archives = append(e.objects, object), append(e.Archives, archive)
		}
	}
	return e, nil
}
