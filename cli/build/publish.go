package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/store/release"
)

// The layouts of keys in a store.
const (
	layoutSealift = "sealift" // <name>-<version>.tar.gz
	layoutKURL    = "kurl"    // (dist|staging)/<release>/<name>-<version>.tar.gz
)

type publishOptions struct {
	store    string
	layout   string
	release  string
	stage    string
	cacheDir string
	format   string
}

// Published is the result of publishing one package.
type Published struct {
	release.Result
	Sent int64 `json:"sent"` // bytes
	Kept int64 `json:"kept"` // bytes that an interrupted run had sent
}

func (a commands) publishCommand() *cobra.Command {
	o := publishOptions{layout: layoutSealift, stage: "dist"}
	cmd := &cobra.Command{
		Use:   "publish ARCHIVE... --store URL",
		Short: "Upload packages that a store lacks",
		Long: `Upload packages to a store, and list them in the index.json of the release. Packages that the store already has with
the same bytes are not uploaded. A package is listed only after all of its bytes are in the store. Several processes
can publish to one release at once.

A store is a folder, s3://bucket/prefix with settings such as ?endpoint=https://minio.example.com:9000, or a repository
of a container registry, oci://registry/repository.
Credentials come from where the AWS tools find them. Large packages are uploaded in parts: after an interruption,
the same command resumes the upload.

With --layout kurl, the keys are (dist|staging)/<release>/<name>-<version>.tar.gz.`,
		Example: `  sealift publish dist/*.tar.gz --store /srv/packages
  sealift publish dist/*.tar.gz --store 's3://packages/stable?region=eu-central-1'
  sealift publish dist/*.tar.gz --store s3://kurl-sh --layout kurl --stage staging --release v2026.11.21-0
  sealift publish dist/*.tar.gz --store oci://harbor.corp/sealift/packages
  sealift publish dist/*.tar.gz --store s3://packages -o json | jq -r '.[] | select(.status == "uploaded").key'`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, archives []string) error { return a.publish(cmd.Context(), archives, o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.store, "store", "", "store for the packages: a folder, its file:// URL, s3://bucket/prefix, or oci://registry/repository")
	flags.Var(app.NewChoice(&o.layout, []string{layoutSealift, layoutKURL}), "layout", "layout of the keys: sealift or kurl")
	flags.StringVar(&o.release, "release", "", "name of the release, for --layout kurl")
	flags.Var(app.NewChoice(&o.stage, []string{"dist", "staging"}), "stage", "dist or staging, for --layout kurl")
	flags.StringVar(&o.cacheDir, "cache", "", "directory for the state of uploads (default: sealift in the user's cache directory)")
	app.AddOutputFlag(cmd, &o.format)
	return cmd
}

func (a commands) publish(ctx context.Context, archives []string, o publishOptions) error {
	folder, err := o.folder()
	if err != nil {
		return err
	}
	if o.cacheDir == "" {
		if o.cacheDir, err = cache.DefaultDir(); err != nil {
			return err
		}
	}
	packages, err := store.Opener{Write: true, Uploads: filepath.Join(o.cacheDir, "uploads"), Log: a.Log, CAs: a.CAs}.Open(o.store)
	if err != nil {
		return err
	}
	watch := &uploadWatch{watch: newTransferWatch(a.Err, "sent"), uploads: make(map[string]*upload)}
	var candidates []release.Candidate
	seen := make(map[string]string)
	for _, name := range archives {
		c, file, err := openCandidate(ctx, name)
		if err != nil {
			return err
		}
		defer file.Close()
		id := c.Name + " " + c.Version
		if other, dup := seen[id]; dup {
			return app.UsageError("%s and %s are both %s", other, name, id)
		}
		seen[id] = name
		c.Value.Meter = watch.meter(id, c.Value.Size)
		candidates = append(candidates, c)
	}
	results, err := release.In(packages, folder).Publish(ctx, candidates)
	watch.finish(err)
	return errors.Join(err, a.printPublished(watch.tell(results), o.format))
}

// folder is the release's folder in the store.
func (o publishOptions) folder() (string, error) {
	switch {
	case o.store == "":
		return "", app.UsageError("--store is missing; see 'sealift publish --help'")
	case o.layout == layoutSealift && o.release != "":
		return "", app.UsageError("--release is for --layout kurl; without it, put the release into the URL of the store")
	case o.layout == layoutSealift:
		return "", nil
	}
	folder, err := release.KURLFolder(o.stage, o.release)
	if err != nil {
		return "", app.UsageError("--layout kurl: %v", err)
	}
	return folder, nil
}

// openCandidate opens a package and reads it once for its digests.
func openCandidate(ctx context.Context, name string) (release.Candidate, *os.File, error) {
	f, err := regularfile.Open(name)
	if err != nil {
		return release.Candidate{}, nil, err
	}
	c, err := readCandidate(ctx, f)
	if err != nil {
		return release.Candidate{}, nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return c, f, nil
}

func readCandidate(ctx context.Context, f *os.File) (release.Candidate, error) {
	info, err := f.Stat()
	if err != nil {
		return release.Candidate{}, err
	}
	archive, err := bundle.OpenPackage(f, info.Size())
	if err != nil {
		return release.Candidate{}, err
	}
	p := archive.Index.Packages[0]
	c := release.Candidate{Name: p.Name, Version: p.Version, Digest: archive.Digest}
	c.Value, err = store.Sum(ctx, f, info.Size())
	return c, err
}

func (a commands) printPublished(results []Published, format string) error {
	if format == "json" {
		return a.PrintJSON(results)
	}
	for _, r := range results {
		switch {
		case r.Status == release.Present:
			fmt.Fprintf(a.Out, "present %s: %s, sha256 %s\n", r.Key, app.FormatBytes(r.Size), r.SHA256)
		case r.Kept > 0:
			fmt.Fprintf(a.Out, "published %s: %s sent, %s had been sent before, sha256 %s\n", r.Key, app.FormatBytes(r.Sent), app.FormatBytes(r.Kept), r.SHA256)
		default:
			fmt.Fprintf(a.Out, "published %s: %s sent, sha256 %s\n", r.Key, app.FormatBytes(r.Sent), r.SHA256)
		}
	}
	return nil
}

// uploadWatch shows uploads and counts their bytes.
type uploadWatch struct {
	watch transferWatch

	mu      sync.Mutex
	uploads map[string]*upload // by name and version
}

type upload struct {
	size, sent, kept int64
	shown            fetch.Transfer // nil before the first byte
}

// meter returns a counter for the bytes of one package.
func (w *uploadWatch) meter(id string, size int64) func(sent, kept int64) {
	u := &upload{size: size}
	w.uploads[id] = u
	return func(sent, kept int64) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if u.shown == nil {
			u.shown = w.watch.Start(id, size)
		}
		u.sent, u.kept = u.sent+sent, u.kept+kept
		u.shown.Add(int(sent + kept))
		if u.sent+u.kept == size {
			u.shown.Finish(nil)
		}
	}
}

// finish ends the progress bars of failed uploads.
func (w *uploadWatch) finish(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, u := range w.uploads {
		if u.shown != nil && u.sent+u.kept < u.size {
			u.shown.Finish(err)
		}
	}
	w.watch.settle()
}

// tell adds the counts to results.
func (w *uploadWatch) tell(results []release.Result) []Published {
	told := []Published{}
	for _, r := range results {
		u := w.uploads[r.Name+" "+r.Version]
		told = append(told, Published{Result: r, Sent: u.sent, Kept: u.kept})
	}
	return told
}
