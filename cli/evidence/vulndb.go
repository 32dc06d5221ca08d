package evidence

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/builder/vulnerability"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/transfer"
)

// VulnDB makes the command vulndb.
func VulnDB(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "vulndb",
		Short: "Make a database of vulnerabilities that can be carried",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(commands{a}.pullCommand())
	return cmd
}

type pullOptions struct {
	from   []string
	out    string
	date   string
	key    string
	format string
}

func (a commands) pullCommand() *cobra.Command {
	var o pullOptions
	cmd := &cobra.Command{
		Use:   "pull --from SOURCE --out FILE",
		Short: "Make a database from sources in the OSV format",
		Long: `Make a database of known vulnerabilities for 'sealift inspect --vulnerabilities'. Carry it across the gap like a
bundle: it is a package, so that 'sealift verify' checks it and 'sealift publish' takes it to a store.

A source is a folder, a zip file, or the https:// URL of one. All of its files that are records in the OSV format are taken,
as far as Sealift lists what they are about: Go modules, Debian, Ubuntu, Alpine, Wolfi, Chainguard, Red Hat, Rocky Linux, AlmaLinux.

The age of a database is that of its oldest source: --date, or the time in the name of a version of the Go module
golang.org/x/vulndb, or that of the newest record. The same sources give the same bytes.`,
		Example: `  sealift vulndb pull --from https://vuln.go.dev/vulndb.zip --out vulnerabilities.tar.gz
  sealift vulndb pull --from https://osv-vulnerabilities.storage.googleapis.com/Debian/all.zip --from https://vuln.go.dev/vulndb.zip --out vulnerabilities.tar.gz --key site.key
  sealift vulndb pull --from "$(go mod download -json golang.org/x/vulndb@latest | jq -r .Zip)" --out vulnerabilities.tar.gz
  sealift vulndb pull --from ./osv --date 2026-11-05 --out vulnerabilities.tar.gz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.pull(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.from, "from", nil, "folder, zip file, or https:// URL of a zip file; may be repeated")
	flags.StringVar(&o.out, "out", "", "the database to write")
	flags.StringVar(&o.date, "date", "", "when the sources were last changed, as 2026-11-05")
	flags.StringVar(&o.key, "key", "", "private key that signs the database")
	app.AddOutputFlag(cmd, &o.format)
	for _, name := range []string{"from", "out", "key"} {
		_ = cmd.MarkFlagFilename(name)
	}
	return cmd
}

func (a commands) pull(ctx context.Context, o pullOptions) error {
	if len(o.from) == 0 || o.out == "" {
		return app.UsageError("--from and --out are needed; see 'sealift vulndb pull --help'")
	}
	var date time.Time
	if o.date != "" {
		var err error
		if date, err = time.Parse(time.DateOnly, o.date); err != nil {
			return app.UsageError("--date %q is not a day, such as 2026-11-05", o.date)
		}
	}
	key, err := a.SigningKey(o.key)
	if err != nil {
		return err
	}
	var m vulnerability.Maker
	for _, from := range o.from {
		if err := a.source(ctx, &m, from, date); err != nil {
			return err
		}
	}
	made, err := m.Package()
	if err != nil {
		return err
	}
	if err := atomicfile.Fill(o.out, 0o644, func(w *os.File) error {
		_, err := bundle.WritePackage(ctx, w, made, bundle.WriteOptions{Key: key, Jobs: 2})
		return err
	}); err != nil {
		return fmt.Errorf("write the database: %w", err)
	}
	written, err := bundle.Open(o.out)
	if err != nil {
		return err
	}
	defer written.Close()
	database, err := vulnerability.Open(written)
	if err != nil {
		return err
	}
	report := databaseReport{"sha256:" + written.Digest, database.Date(), database.Info}
	return a.Print(o.format, report, func() error {
		for _, s := range report.Sources {
			fmt.Fprintf(a.Out, "%s: %s, of %s\n", s.Name, app.Counted(s.Records, "record"), s.Date.Format(time.DateOnly))
		}
		fmt.Fprintf(a.Out, "wrote %s: vulnerabilities of %s, index %s\n", o.out, ecosystems(report.Ecosystems), report.Index)
		return nil
	})
}

// source adds the records of a source. A source is named by the last part of its path or URL: its folder is nobody's business.
func (a commands) source(ctx context.Context, m *vulnerability.Maker, from string, date time.Time) error {
	name := path.Base(strings.TrimSuffix(from, "/"))
	if strings.Contains(from, "://") {
		file, size, err := a.download(ctx, from)
		if err != nil {
			return err
		}
		defer file.Close()
		return addZip(ctx, m, from, file, size, date)
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		root, err := os.OpenRoot(from)
		if err != nil {
			return err
		}
		defer root.Close()
		return m.Add(ctx, name, root.FS(), date)
	}
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	return addZip(ctx, m, name, file, info.Size(), date)
}

func addZip(ctx context.Context, m *vulnerability.Maker, name string, file io.ReaderAt, size int64, date time.Time) error {
	z, err := zip.NewReader(file, size)
	if err != nil {
		return fmt.Errorf("%s: %w; a source is a folder or a zip file with records in the OSV format", name, err)
	}
	var files fs.FS = z
	return m.Add(ctx, name, files, date)
}

// maxDownload is the largest zip file that is downloaded, in bytes. That of all of Ubuntu has about a gigabyte.
const maxDownload = 4 << 30

// download fetches a file into a temporary one without a name.
func (a commands) download(ctx context.Context, address string) (_ *os.File, size int64, err error) {
	if !strings.HasPrefix(address, "https://") {
		return nil, 0, app.UsageError("%s: a database is downloaded by https:// only, since nothing else says that it is the true one", transfer.Shown(address))
	}
	client := fetch.Client{Transport: fetch.NewTransport(a.CAs), Bounds: transfer.Bounds{Limit: func(*http.Request) int64 { return maxDownload }}}
	answer, err := client.Get(ctx, address, nil)
	if err != nil {
		return nil, 0, err
	}
	defer answer.Body.Close()
	file, err := os.CreateTemp("", "sealift-vulndb-")
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			_ = file.Close()
		}
	}()
	if err := os.Remove(file.Name()); err != nil {
		return nil, 0, err
	}
	if size, err = io.Copy(file, answer.Body); err != nil {
		return nil, 0, fmt.Errorf("download %s: %w", address, err)
	}
	if size == 0 {
		return nil, 0, errors.New(address + " is empty")
	}
	return file, size, nil
}
