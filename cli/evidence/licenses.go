package evidence

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/builder/inventory"
	"github.com/sealift/sealift/builder/licensing"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/plaintext"
)

// licenseReport is the document of inspect --licenses.
type licenseReport struct {
	Index string `json:"index"` // digest of the bundle's
	// Refused and Permitted are components that the policy of sealift.yaml forbids, without and with an exception.
	Refused   []licensing.Judged `json:"refused,omitempty"`
	Permitted []licensing.Judged `json:"permitted,omitempty"`
	*licensing.Report
}

// Licenses lists the licenses in a bundle and holds them against the policy of a configuration; an empty name is sealift.yaml of the working
// directory, if there is one. It returns an error with the code of a refusal if the policy is not met.
func Licenses(ctx context.Context, a *app.App, name, base, file, format string) error {
	return commands{a}.judgeBundle(ctx, name, base, file, format, func(settings config.Config, opened *bundle.Archive) (judgement, error) {
		listed, err := inventory.Read(ctx, opened, inventory.Options{})
		if err != nil {
			return nil, err
		}
		found, err := licensing.Of(opened, listed)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		report := licenseReport{Index: "sha256:" + opened.Digest, Report: found}
		report.Refused, report.Permitted = found.Judge(settings.Licenses, time.Now())
		return report, nil
	})
}

func (r licenseReport) refusal() error {
	if len(r.Refused) == 0 {
		return nil
	}
	return fmt.Errorf("licenses.forbidden refuses %s; except them under licenses.exceptions, or make the bundle without them", app.Counted(len(r.Refused), "component"))
}

func (r licenseReport) print(out io.Writer) error {
	known, unknown := r.Count()
	fmt.Fprintf(out, "index %s\n%s with a license, %d unknown, %s\n", r.Index, app.Counted(known, "component"), unknown, app.Counted(len(r.Texts), "text"))
	for _, list := range []struct {
		title  string
		judged []licensing.Judged
	}{{"refused", r.Refused}, {"permitted by an exception", r.Permitted}} {
		for n, one := range list.judged {
			if n == 0 {
				fmt.Fprintf(out, "\n%s:\n", list.title)
			}
			fmt.Fprintf(out, "  %s\n", one)
		}
	}
	for n, reason := range r.Unread {
		if n == 0 {
			fmt.Fprintln(out, "\nnot looked into:")
		}
		fmt.Fprintf(out, "  %s\n", reason)
	}
	fmt.Fprintln(out, "\nby license:")
	t := plaintext.NewTable(tabwriter.NewWriter(out, 2, 0, 2, ' ', 0))
	for _, l := range r.Licenses {
		t.Printf("  %s\t%s\t%s\n", l.ID, app.Counted(len(l.Components), "component"), named(l))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nby component:")
	for _, c := range r.Components {
		t.Printf("  %s\t%s\t%s\t%s\n", c.License, c.Kind, strings.TrimSpace(c.Name+" "+c.Version), placed(c))
	}
	return t.Flush()
}

// maxListed is how many components or places one line has. -o json has all.
const maxListed = 3

// named lists some of the components with a license.
func named(l licensing.License) string {
	text := strings.Join(l.Components[:min(maxListed, len(l.Components))], ", ")
	if more := len(l.Components) - maxListed; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// placed says where a component is.
func placed(c licensing.Component) string {
	var places []string
	for _, p := range c.Places[:min(maxListed, len(c.Places))] {
		p.Layer = ""
		places = append(places, p.String())
	}
	text := strings.Join(places, ", ")
	if more := len(c.Places) - maxListed; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}
