package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/catalog/online"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/store"
)

// bundleSource is the flags of every command that takes its bundle from a disk or from a server.
type bundleSource struct {
	bundle, base, from string
}

func (s *bundleSource) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&s.bundle, "bundle", "", "the bundle: an archive, or the folder with the unpacked bundle")
	flags.StringVar(&s.base, "base", "", "the earlier bundle with the files that --bundle leaves out")
	flags.StringVar(&s.from, "from", "", "URL of an Installer on a server, such as https://host/abc1234, or of a bundle")
	for _, name := range []string{"bundle", "base"} {
		_ = cmd.MarkFlagFilename(name)
	}
}

// check says whether the flags go together.
func (s *bundleSource) check(command string) error {
	switch {
	case s.bundle == "" && s.from == "":
		return app.UsageError("--bundle is missing, or --from; see 'sealift %s --help'", command)
	case s.bundle != "" && s.from != "":
		return app.UsageError("--bundle and --from exclude each other")
	case s.from != "" && s.base != "":
		return app.UsageError("--base goes with --bundle: from a server all that is missing is fetched")
	}
	return nil
}

// name is how messages call the bundle.
func (s *bundleSource) name() string {
	if s.from != "" {
		return s.from
	}
	return s.bundle
}

// open opens the bundle. One on a server is read for as long as ctx lasts. Files that the bundle leaves out are taken from --base,
// or from the bundle that is installed on this node in root.
func (s *bundleSource) open(ctx context.Context, a commands, root string, trusted ...signature.PublicKey) (_ *bundle.Archive, err error) {
	if s.from != "" {
		return a.openOnline(ctx, s.from, trusted...)
	}
	archive, err := bundle.Open(s.bundle, trusted...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, archive.Close())
		}
	}()
	if s.base == "" {
		if err := withInstalled(ctx, archive, root); err != nil {
			return nil, err
		}
		return archive, nil
	}
	base, err := bundle.Open(s.base)
	if err != nil {
		return nil, fmt.Errorf("--base: %w", err)
	}
	if err := archive.WithBase(base); err != nil {
		return nil, errors.Join(fmt.Errorf("--base %s: %w", s.base, err), base.Close())
	}
	return archive, nil
}

// withInstalled completes a bundle that leaves out files of an earlier one with what this node has.
func withInstalled(ctx context.Context, archive *bundle.Archive, root string) error {
	lacking := archive.CheckBase()
	if lacking == nil {
		return nil
	}
	node, err := install.OpenInstalled(ctx, root)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w with --base", lacking)
	}
	if err != nil {
		return err
	}
	if err := archive.WithInstalled(node); err != nil {
		return errors.Join(fmt.Errorf("%w with --base", err), node.Close())
	}
	return nil
}

// serverPatience is how long a server that has given an install its plan may be away.
const serverPatience = 5 * time.Minute

// openOnline opens the bundle of an Installer on a server. One that does not answer at all is not waited for.
func (a commands) openOnline(ctx context.Context, from string, trusted ...signature.PublicKey) (*bundle.Archive, error) {
	return online.Open(ctx, from, store.Opener{Log: a.Log, CAs: a.CAs, Reads: store.Retry{Within: serverPatience}}, trusted...)
}
