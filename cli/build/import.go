package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/builder/kurl"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/transfer"
)

type importOptions struct {
	out    string
	key    string
	format string
	size   byteSize
	files  int64
	sized  bool // a person said so
}

func (a commands) importCommand() *cobra.Command {
	o := importOptions{size: kurl.DefaultMaxSize}
	cmd := &cobra.Command{
		Use:   "import ARCHIVE… --out DIR",
		Short: "Convert kURL's packages and bundles",
		Long: `Read packages that kURL's CI built, or airgap bundles from kURL's server, and write a package for each add-on in
them. The package has an index, so that every byte can be verified from then on. With --key, it is also signed.

The files are not changed. Kubernetes itself and kURL's own programs are left out, because Sealift has its own. The
image in kURL's shared/kurl-util.tar becomes a package kurl-util. A bundle with velero, which needs the image,
contains the newest one of the store.

An archive without an add-on, such as a package of Kubernetes, does not stop the others. An archive of the packages
between two versions (rook-1.4.9,rook-1.5.12.tar.gz) gives each of them.

The size of an archive without an index is not known in advance. An archive that exceeds --max-size or --max-files
is refused, and everything unpacked from it is removed. Without --max-size, an archive may also unpack to no more than
32 times its own size, plus 64 MiB.`,
		Example: `  sealift import minio-2025-10-15T17-29-55Z.tar.gz registry-3.1.1.tar.gz --out packages
  sealift import kurl-bundle.tar.gz --out packages --key site.key -o json
  sealift import everything.tar.gz --out packages --max-size 200GiB`,
		Args: cobra.MinimumNArgs(1),
	}
	flags := cmd.Flags()
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.sized = flags.Changed("max-size")
		return a.importArchives(cmd.Context(), args, o)
	}
	flags.StringVar(&o.out, "out", "", "folder for the packages")
	flags.StringVar(&o.key, "key", "", "private key that signs the packages")
	flags.Var(&o.size, "max-size", "largest unpacked size of an archive, such as 200GiB, or none for no limit")
	flags.Int64Var(&o.files, "max-files", kurl.DefaultMaxFiles, "most files in an archive")
	app.AddOutputFlag(cmd, &o.format)
	_ = cmd.MarkFlagDirname("out")
	_ = cmd.MarkFlagFilename("key")
	return cmd
}

func (a commands) importArchives(ctx context.Context, archives []string, o importOptions) error {
	if o.out == "" {
		return app.UsageError("--out is missing; see 'sealift import --help'")
	}
	if o.files < 1 || o.size == 0 {
		return app.UsageError("--max-files and --max-size must be more than 0; see 'sealift import --help'")
	}
	key, err := a.SigningKey(o.key)
	if err != nil {
		return err
	}
	results := []kurl.Result{}
	options := kurl.Options{Dir: o.out, Key: key, MaxFiles: o.files}
	if o.sized {
		options.MaxSize = int64(o.size)
	}
	var errs []error
	made := 0
	for _, name := range archives {
		result, err := importOne(ctx, name, options)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		made += len(result.Packages)
		var empty *kurl.NoAddOnError
		if errors.As(err, &empty) && len(empty.LeftOut) > 0 && len(archives) > 1 {
			fmt.Fprintf(a.Err, "note: %s %v\n", name, err)
		} else if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		result.Archive = transfer.Shown(name)
		results = append(results, result)
		if o.format != "json" {
			a.printImported(name, result)
		}
	}
	if made == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("no archive has an add-on; nothing was written"))
	}
	if o.format == "json" {
		errs = append(errs, a.PrintJSON(results))
	}
	return errors.Join(errs...)
}

func (a commands) printImported(name string, result kurl.Result) {
	for _, made := range result.Packages {
		fmt.Fprintf(a.Out, "made %s: %d images, index %s\n", made.File, made.Images, made.Index)
	}
	if len(result.Packages) > 0 && len(result.LeftOut) > 0 {
		fmt.Fprintf(a.Out, "left out of %s: %s%s\n", name, strings.Join(result.LeftOut, ", "), kurl.KubernetesHint(result.LeftOut))
	}
}

func importOne(ctx context.Context, name string, o kurl.Options) (kurl.Result, error) {
	if strings.Contains(name, "://") {
		return kurl.Result{}, errors.New("this command reads files alone; download the archive first")
	}
	f, err := os.Open(name)
	if err != nil {
		return kurl.Result{}, err
	}
	defer f.Close()
	return kurl.Import(ctx, f, o)
}
