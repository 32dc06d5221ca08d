package evidence

import (
	"context"

	"github.com/sealift/sealift/builder/inventory"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/inspect/fips"
)

// FIPS returns the function that reports on the programs of a bundle.
func FIPS(a *app.App) func(context.Context, string) (fips.Report, error) { return commands{a}.fips }

func (a commands) fips(ctx context.Context, name string) (fips.Report, error) {
	opened, err := a.open(ctx, name, "")
	if err != nil {
		return fips.Report{}, err
	}
	defer opened.Close()
	found, err := inventory.Read(ctx, opened)
	if err != nil {
		return fips.Report{}, err
	}
	r := fips.Report{Kind: "images"}
	for _, i := range found.Images {
		place := "image " + i.Ref + " " + i.Platform
		unread := i.Unread()
		addPrograms(&r, place, i.Programs, unread)
		if len(i.Programs)+len(unread) == 0 {
			r.Others++
		}
	}
	for _, f := range found.Files {
		addPrograms(&r, "file "+f.Path, f.Programs, f.Unknown)
	}
	return r, nil
}

// addPrograms adds the programs of one place, and why others of it may be missing.
func addPrograms(r *fips.Report, place string, programs []inventory.Program, unknown []string) {
	for _, p := range programs {
		r.Findings = append(r.Findings, fips.Finding{What: place + ": " + p.Path, Found: "module " + p.FIPS.String(), Approved: p.FIPS.Active})
	}
	for _, reason := range unknown {
		r.Findings = append(r.Findings, fips.Finding{What: place, Found: "unknown: " + reason})
	}
}
