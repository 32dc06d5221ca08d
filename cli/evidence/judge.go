package evidence

import (
	"context"
	"io"

	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
)

// judgement is the document of a command that may refuse what it finds.
type judgement interface {
	print(out io.Writer) error
	refusal() error // nil if nothing is refused
}

// judgeBundle holds a bundle against the configuration in a file, and prints the judgement. A refusal has the exit code of one.
func (a commands) judgeBundle(ctx context.Context, name, base, file, format string, judge func(config.Config, *bundle.Archive) (judgement, error)) error {
	settings, err := config.Load(file)
	if err != nil {
		return err
	}
	opened, err := a.open(ctx, name, base)
	if err != nil {
		return err
	}
	defer opened.Close()
	report, err := judge(settings, opened)
	if err != nil {
		return err
	}
	if err := a.Print(format, report, func() error { return report.print(a.Out) }); err != nil {
		return err
	}
	if refusal := report.refusal(); refusal != nil {
		return app.WithCode(app.ExitRefused, refusal)
	}
	return nil
}
