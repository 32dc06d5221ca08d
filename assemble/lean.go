package assemble

import (
	"context"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/lean"
)

// companions opens the lean layers of packages. What the spool lacks is made first. The plan closes them.
func (p *Plan) companions(ctx context.Context, packages []*bundle.Archive, spool string) ([]*bundle.Archive, error) {
	if spool == "" {
		return nil, nil
	}
	for _, a := range packages {
		made, err := lean.Companion(ctx, a, spool)
		if err != nil {
			return nil, err
		}
		p.lean = append(p.lean, made)
	}
	return p.lean, nil
}
