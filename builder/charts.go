package builder

import (
	"context"

	"github.com/sealift/sealift/builder/kind"
	"github.com/sealift/sealift/internal/diag"
)

// Charts renders the charts of the add-on in dir. It says which images they bring into a package, which others they name, and
// what deserves a look in them. A chart that cannot be had or does not render is a finding.
func (b *Builder) Charts(ctx context.Context, dir string) (carried, named []string, findings []diag.Finding, err error) {
	a, err := openAddOn(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	defer a.close()
	l, err := a.lock()
	if err != nil {
		return nil, nil, nil, err
	}
	return b.kinds.Charts(ctx, a.directives(), kind.Pins{Lock: l})
}
