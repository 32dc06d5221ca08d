package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/parts"
	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/bundle/verdict"
	"github.com/sealift/sealift/catalog/online"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/archive"
	"github.com/sealift/sealift/cli/installers"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/store"
)

// bundleSource is the flags of every command that takes its bundle from a disk or from a server. Some can also do without one, with
// an Installer and a store.
type bundleSource struct {
	bundle, base, from string
	file, store        string
	verdict            string
}

func (s *bundleSource) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&s.bundle, "bundle", "", "the bundle: an archive, the folder with its parts or several as DIR:DIR, or the folder with the unpacked bundle")
	flags.StringVar(&s.base, "base", "", "the earlier bundle with the files that --bundle leaves out")
	flags.StringVar(&s.from, "from", "", "URL of an Installer on a server, such as https://host/abc1234, or of a bundle")
	addVerdict(cmd, &s.verdict)
	for _, name := range []string{"bundle", "base"} {
		_ = cmd.MarkFlagFilename(name)
	}
}

// addVerdict adds the flag for the file with a verdict about vulnerabilities.
func addVerdict(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "verdict", "", "file with the verdict of 'sealift verdict', if this host demands one and it does not lie beside the bundle")
	_ = cmd.MarkFlagFilename("verdict", "json")
}

// addStore adds the flags for an Installer and a store, if this program can assemble bundles.
func (s *bundleSource) addStore(cmd *cobra.Command, a commands) {
	if a.assemble == nil {
		return
	}
	flags := cmd.Flags()
	if flags.Lookup("file") == nil {
		flags.StringVarP(&s.file, "file", "f", "", "with --store: the Installer")
		_ = cmd.MarkFlagFilename("file", "yaml", "yml")
	}
	flags.StringVar(&s.store, "store", "", "store with the packages of the Installer: a folder, its file:// URL, s3://bucket/prefix, or https://host/path")
	_ = cmd.MarkFlagDirname("store")
}

// remote means that the files of the bundle come from a server.
func (s *bundleSource) remote() bool {
	return s.from != "" || s.assembled() && store.Folder(s.store) == ""
}

// assembled means that the bundle is assembled from an Installer and a store. A store alone, which the environment may name for
// other commands, has no effect.
func (s *bundleSource) assembled() bool { return s.file != "" && s.store != "" }

// check reports whether the flags go together.
func (s *bundleSource) check(command string) error {
	switch {
	case s.file != "" && s.store == "":
		return app.UsageError("-f names an Installer; say with --store where its packages are")
	case s.assembled() && (s.bundle != "" || s.from != "" || s.base != ""):
		return app.UsageError("-f with --store takes the place of a bundle: leave --bundle, --base and --from out")
	case s.assembled():
		return nil
	case s.store != "" && s.bundle == "" && s.from == "":
		return app.UsageError("--store has the packages of an Installer; name the Installer with -f")
	case s.bundle == "" && s.from == "":
		return app.UsageError("--bundle is missing, or --from; see 'sealift %s --help'", command)
	case s.bundle != "" && s.from != "":
		return app.UsageError("--bundle and --from exclude each other")
	case s.from != "" && s.base != "":
		return app.UsageError("--base goes with --bundle: from a server all that is missing is fetched")
	}
	return nil
}

// name returns the name of the bundle in messages.
func (s *bundleSource) name() string {
	return cmp.Or(s.from, s.bundle, s.file)
}

// trust describes who made the content of the prepared install. keys are the files with public keys.
func (s *bundleSource) trust(in *install.Install, keys []string) string {
	switch {
	case !s.assembled():
		return fmt.Sprintf("bundle %s: %s", s.name(), in.Trust())
	case len(keys) > 0:
		return s.name() + ": each of its packages is signed with a key of --key"
	}
	return s.name() + ": signatures of its packages were not checked; name the public key with --key"
}

// options completes the options of an install with the bundle. keys are files with public keys.
func (s *bundleSource) options(ctx context.Context, a commands, root string, keys []string, o install.Options) (install.Options, error) {
	trusted, err := app.PublicKeys(keys)
	if err != nil {
		return o, err
	}
	o.Bundle, o.Root, o.Remote, o.Online = s.name(), root, s.remote(), s.remote()
	if !s.assembled() {
		o.Trusted, o.Open = trusted, func() (*bundle.Archive, error) { return s.open(ctx, a, root, trusted...) }
		return o, nil
	}
	o.Verdict = s.verdict
	stored, err := a.opener().Open(s.store)
	if err != nil {
		return o, err
	}
	adjust := o.Adjust
	o.Adjust = nil
	o.Open = func() (*bundle.Archive, error) {
		installer, err := installers.Load(nil, s.file)
		if err == nil && adjust != nil { // before the packages are chosen: it may change versions
			installer, err = adjust(installer)
		}
		if err != nil {
			return nil, err
		}
		return a.assemble(ctx, s.file, installer, stored, trusted)
	}
	return o, nil
}

// open opens the bundle. One on a server is read for as long as ctx lasts. Files omitted from the bundle are read from --base, or
// from the bundle installed on this node in root. Its verdict is that of --verdict.
func (s *bundleSource) open(ctx context.Context, a commands, root string, trusted ...signature.PublicKey) (*bundle.Archive, error) {
	opened, err := s.complete(ctx, a, root, trusted)
	if err == nil && s.verdict != "" {
		opened.SetVerdict(func() (verdict.Signed, error) { return verdict.Load(s.verdict) })
	}
	return opened, err
}

func (s *bundleSource) complete(ctx context.Context, a commands, root string, trusted []signature.PublicKey) (_ *bundle.Archive, err error) {
	if s.from != "" {
		return a.openOnline(ctx, s.from, trusted...)
	}
	opened, err := s.openMedia(a, trusted)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, opened.Close())
		}
	}()
	if s.base == "" {
		if err := withInstalled(ctx, opened, root); err != nil {
			return nil, err
		}
		return opened, nil
	}
	return opened, archive.AddBase(opened, s.base)
}

// openMedia opens --bundle. Where parts are missing, a person at a terminal is asked for the next folder, until enough are found.
func (s *bundleSource) openMedia(a commands, trusted []signature.PublicKey) (*bundle.Archive, error) {
	for {
		archive, err := bundle.Open(s.bundle, trusted...)
		if _, ok := errors.AsType[*parts.MissingError](err); !ok || !a.CanAsk() {
			return archive, err
		}
		folder := a.Ask(fmt.Sprintf("%v\nfolder with more parts, or nothing to stop:", err))
		if folder == "" {
			return nil, err
		}
		if _, statErr := os.Stat(folder); statErr != nil {
			fmt.Fprintln(a.Err, statErr)
			continue
		}
		s.bundle += string(os.PathListSeparator) + folder
	}
}

// withInstalled completes an incremental bundle with this node's content.
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

// serverPatience is how long a server may be unreachable after it has given an install its plan.
const serverPatience = 5 * time.Minute

// openOnline opens the bundle of an Installer on a server. One that does not answer at all is not waited for.
func (a commands) openOnline(ctx context.Context, from string, trusted ...signature.PublicKey) (*bundle.Archive, error) {
	return online.Open(ctx, from, a.opener(), trusted...)
}

// opener opens the source of an install.
func (a commands) opener() store.Opener {
	return store.Opener{Log: a.Log, CAs: a.CAs, Reads: store.Retry{Within: serverPatience}}
}
