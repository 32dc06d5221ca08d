package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/parts"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/plaintext"
)

// verifyMedia reports the state of the parts of a bundle.
func (a commands) verifyMedia(ctx context.Context, path string, o verifyOptions) error {
	if len(o.keys) > 0 || o.packages {
		return app.UsageError("--media reads parts and knows no keys: run 'sealift verify %s --key KEY' too", path)
	}
	report, err := bundle.CheckParts(ctx, path)
	if errors.Is(err, parts.ErrNotPart) {
		return fmt.Errorf("%w; verify an archive in one piece without --media", err)
	}
	if err != nil {
		return err
	}
	if err := a.Print(o.format, report, func() error { return printMedia(a.Out, report) }); err != nil {
		return err
	}
	if !report.Repairable {
		return fmt.Errorf("%s cannot be repaired: %s; copy one of the damaged or missing parts again", path, loss(report))
	}
	return nil
}

func loss(r parts.Report) string {
	if n := r.Missing(); n > r.Parity {
		return fmt.Sprintf("%d of %d parts are missing, and the others replace %d", n, len(r.State), r.Parity)
	}
	return fmt.Sprintf("at %s up to %d of %d parts are damaged or missing, and the others replace %d", app.Counted(int(r.Lost), "place"), r.Worst, len(r.State), r.Parity)
}

func printMedia(out io.Writer, r parts.Report) error {
	fmt.Fprintf(out, "archive %s: %s in %s, and %s of parity\n", r.Archive, app.FormatBytes(r.Size), app.Counted(r.Data, "part"), app.Counted(r.Parity, "part"))
	table := plaintext.NewTable(tabwriter.NewWriter(out, 0, 0, 2, ' ', 0))
	table.Println("PART\tSTATE\tDAMAGED\tFILE")
	for _, s := range r.State {
		number, file := strconv.Itoa(s.Number), s.File
		if s.Parity {
			number += " (parity)"
		}
		if s.Note != "" {
			file += " (" + s.Note + ")"
		}
		table.Printf("%s\t%s\t%d of %d blocks\t%s\n", number, s.State, s.Damaged, s.Blocks, file)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, note := range r.Notes {
		fmt.Fprintln(out, note)
	}
	switch {
	case !r.Repairable:
		fmt.Fprintln(out, "cannot be repaired")
	case r.Worst > 0:
		fmt.Fprintf(out, "can be repaired: at no place are more than %d of %d parts lost, and %d may be\n", r.Worst, len(r.State), r.Parity)
	default:
		fmt.Fprintln(out, "no block is damaged")
	}
	return nil
}
