package evidence

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/builder/keyless"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/cosign"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/plaintext"
)

// signatureReport is the document of inspect --signatures.
type signatureReport struct {
	Index  string           `json:"index"` // digest of the bundle's
	Images []cosign.Verdict `json:"images"`
	policy string           // file with the policy
}

// Signatures lists the signatures of the images of a bundle, and verifies them by the policy of a configuration; an empty name is sealift.yaml of the
// working directory, if there is one. It returns an error with the code of a refusal if the policy is not met.
func Signatures(ctx context.Context, a *app.App, name, base, file, format string) error {
	return commands{a}.judgeBundle(ctx, name, base, file, format, func(settings config.Config, opened *bundle.Archive) (judgement, error) {
		identities, err := keyless.New(settings.Signatures)
		if err != nil {
			return nil, err
		}
		verdicts, err := settings.Signatures.JudgeArchive(opened, identities)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return signatureReport{"sha256:" + opened.Digest, verdicts, settings.Signatures.File()}, nil
	})
}

func (r signatureReport) refusal() error {
	refused := r.count(cosign.Refused)
	if refused == 0 {
		return nil
	}
	return fmt.Errorf("%d of %s without the signature that %s demands", refused, app.Counted(len(r.Images), "image"), r.policy)
}

func (r signatureReport) count(state cosign.State) (n int) {
	for _, v := range r.Images {
		if v.State == state {
			n++
		}
	}
	return n
}

func (r signatureReport) print(out io.Writer) error {
	fmt.Fprintf(out, "index %s\n%s: %d verified, %d refused, %d not checked, %d unsigned\n", r.Index, app.Counted(len(r.Images), "image"),
		r.count(cosign.Verified), r.count(cosign.Refused), r.count(cosign.Unchecked), r.count(cosign.Unsigned))
	t := plaintext.NewTable(tabwriter.NewWriter(out, 2, 0, 2, ' ', 0))
	for _, v := range r.Images {
		why := v.Reason
		switch {
		case v.By != "":
			why = "by " + v.By
		case v.Reason == "":
			why = strings.Join(v.Attached, ", ")
		}
		t.Printf("  %s\t%s\t%s\n", v.State, v.Ref, why)
	}
	return t.Flush()
}
