// Package push is the command that fills a registry from a bundle.
package push

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/builder/fetch"
	"github.com/sealift/sealift/bundle/ocilayout"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/archive"
	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/registry"
	"github.com/sealift/sealift/store"
)

// answerTime is how long a registry may take to answer after an upload: some copy the blob to their storage then.
const answerTime = 5 * time.Minute

// maxParallel bounds the uploads at once.
const maxParallel = 32

type pushOptions struct {
	change.Flags
	keys     []string
	only     []string
	prune    bool
	plain    bool
	parallel int
	config   string
	base     string
}

// commands runs the command of this package.
type commands struct{ *app.App }

// Push makes the command push.
func Push(in *app.App) *cobra.Command {
	a := commands{in}
	o := pushOptions{}
	cmd := &cobra.Command{
		Use:   "push ARCHIVE|URL oci://REGISTRY/PREFIX",
		Short: "Push the images, charts and files of a bundle to a registry",
		Long: `Push the images of a bundle or a package, all platforms of each, to the registry of a site. The image
registry.k8s.io/pause:3.10 becomes REGISTRY/PREFIX/registry.k8s.io/pause:3.10, with the same digest.

What upstream attached to the images goes with them: signatures, SBOMs and attestations.
Helm charts become REGISTRY/PREFIX/charts/NAME:VERSION, as 'helm push' makes them. The OS packages of an add-on become
REGISTRY/PREFIX/packages/NAME/TARGET:VERSION, and its assets REGISTRY/PREFIX/files/NAME:VERSION, which 'oras pull' writes
into a folder. --only pushes some of these kinds.

What the registry has is not sent. A layer that several images have is sent once, and the registry copies it. After an
interruption run the same command again. --plan asks the registry and sends nothing. A tag that leads
to something else is moved; the plan has it as 'replaced', with the digest.

The registry keeps a record of what pushes have brought: REGISTRY/PREFIX/sealift.dev/pushed:v1. With --prune, what earlier
pushes brought and this archive does not have is removed after the push. --plan shows it first. Tags that somebody else
has made, or has pushed again, stay.

--write-config writes a folder with what clusters need to find the images there under their own names:
certs.d for containerd, k3s/registries.yaml, and openshift/mirrors.yaml.

Credentials are those of 'docker login' and 'podman login'. --ca-cert names the CA of a registry. A registry on
loopback is spoken to without TLS, another one only with --plain-http.`,
		Example: `  sealift push cluster.tar.gz oci://harbor.corp/mirror --plan
  sealift push cluster.tar.gz oci://harbor.corp/mirror --ca-cert ca.pem --write-config config
  sealift push /media/usb oci://harbor.corp/mirror --key release.pub -o json
  sealift push cluster.tar.gz oci://harbor.corp/mirror --only packages,files
  sealift push cluster.tar.gz oci://harbor.corp/mirror --prune --plan
  sealift push cluster.tar.gz oci://harbor.corp/mirror --prune`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return a.push(cmd.Context(), args[0], args[1], o) },
	}
	flags := cmd.Flags()
	o.Add(cmd, "what would be sent, and removed")
	flags.StringSliceVar(&o.only, "only", nil, "push only these kinds: "+strings.Join(registry.Kinds(), ", "))
	flags.BoolVar(&o.prune, "prune", false, "remove what earlier pushes brought and this archive does not have")
	flags.IntVar(&o.parallel, "parallel", 4, "how many layers are sent at once")
	flags.StringVar(&o.config, "write-config", "", "folder to write the configuration of clusters to")
	flags.BoolVar(&o.plain, "plain-http", false, "speak HTTP without TLS to the registry")
	flags.StringArrayVar(&o.keys, "key", nil, "public key that the archive must be signed with; may be repeated")
	archive.AddBaseFlag(cmd, &o.base)
	_ = cmd.MarkFlagFilename("key", "pub")
	_ = cmd.MarkFlagDirname("write-config")
	return cmd
}

func (a commands) push(ctx context.Context, from, to string, o pushOptions) (err error) {
	if o.parallel < 1 || o.parallel > maxParallel {
		return app.UsageError("--parallel takes 1 to %d", maxParallel)
	}
	for _, kind := range o.only {
		if !slices.Contains(registry.Kinds(), kind) {
			return app.UsageError("--only takes %s, and not %q", strings.Join(registry.Kinds(), ", "), kind)
		}
	}
	if o.prune && len(o.only) > 0 {
		return app.UsageError("--prune compares with the whole archive: leave --only out")
	}
	target, err := registry.ParseTarget(to, o.plain)
	if err != nil {
		return app.UsageError("%v", err)
	}
	keys, err := app.PublicKeys(o.keys)
	if err != nil {
		return err
	}
	opened, err := archive.OpenWithBase(ctx, store.Opener{Log: a.Log, CAs: a.CAs}, from, o.base, keys...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	if len(keys) > 0 {
		if _, err := ocilayout.VerifySignature(opened, keys...); err != nil {
			return fmt.Errorf("%s is not to be trusted: %w", from, err)
		}
	}
	transport := fetch.NewTransport(a.CAs)
	transport.ResponseHeaderTimeout = answerTime
	defer transport.CloseIdleConnections()
	notes := a.Notes(o.Format)
	prepared, err := registry.Prepare(ctx, opened, registry.Options{
		Target: target, Only: o.only, Record: true, Transport: transport, Parallel: o.parallel, Say: func(line string) { fmt.Fprintln(notes, line) },
	})
	if err != nil {
		return err
	}
	w, err := a.work(ctx, prepared, target, o)
	if err != nil {
		return err
	}
	return change.Do(ctx, a.App, o.Flags, w)
}

// work is the change that a prepared push makes.
func (a commands) work(ctx context.Context, prepared *registry.Push, target registry.Target, o pushOptions) (w change.Work, err error) {
	result := func(s registry.Summary) change.Result {
		return change.Result{Document: s, Text: func() error { return printPush(a.Out, s, o) }}
	}
	planned := prepared.Summary
	if o.prune {
		if planned.Pruned, err = prepared.Stale(ctx); err != nil {
			return w, err
		}
	}
	w = change.Work{To: "remove what earlier pushes brought", Plan: func() (change.Result, error) { return result(planned), nil }}
	if n := len(planned.Pruned); n > 0 {
		for _, i := range planned.Pruned {
			fmt.Fprintln(a.Notes(o.Format), "will remove "+i.Target)
		}
		w.Question = fmt.Sprintf("Push to %s, and remove %s of earlier pushes?", target, app.Counted(n, "manifest"))
	}
	w.Run = func(ctx context.Context, _ *change.Progress) (change.Result, error) {
		done, err := prepared.Run(ctx)
		if err != nil {
			return change.Result{}, fmt.Errorf("%w\n%s arrived", err, app.FormatBytes(done.Send))
		}
		if err := writeConfiguration(o.config, done, target, a.CAs.Text()); err != nil {
			return change.Result{}, err
		}
		if len(planned.Pruned) > 0 {
			done.Pruned, err = prepared.Prune(ctx)
		}
		return result(done), err
	}
	return w, nil
}

// writeConfiguration writes the files for clusters into a folder, if one is named.
func writeConfiguration(folder string, s registry.Summary, t registry.Target, ca string) error {
	if folder == "" {
		return nil
	}
	files, err := registry.Configuration(s, t, ca)
	if err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := atomicfile.Write(path, []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

func printPush(out io.Writer, s registry.Summary, o pushOptions) error {
	if o.Plan {
		table := plaintext.NewTable(tabwriter.NewWriter(out, 0, 0, 2, ' ', 0))
		table.Println("IMAGE\tSTATE\tSIZE\tTARGET")
		for _, i := range s.Images {
			table.Printf("%s\t%s\t%s\t%s\n", i.Ref, i.State, app.FormatBytes(i.Size), i.Target)
		}
		for _, i := range s.Pruned {
			table.Printf("%s\t%s\t\t%s\n", i.Ref, i.State, i.Target)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	for _, i := range slices.Concat(s.Images, s.Pruned) {
		if i.Replaces != "" {
			fmt.Fprintf(out, "%s: led to something else before: %s\n", i.Target, i.Replaces)
		}
		if i.Note != "" {
			fmt.Fprintf(out, "%s: %s: %s\n", i.Target, i.Note, i.Digest)
		}
	}
	counts := make(map[string]int)
	for _, i := range s.Images {
		counts[i.Kind]++
	}
	what := app.Counted(counts[registry.KindImage], registry.KindImage)
	for _, kind := range [][2]string{{registry.KindAttachment, "attachment"}, {registry.KindChart, "chart"}, {registry.KindPackages, "OS package set"}, {registry.KindFiles, "file set"}} {
		if n := counts[kind[0]]; n > 0 {
			what += ", " + app.Counted(n, kind[1])
		}
	}
	there := slices.DeleteFunc(slices.Clone(s.Images), func(i registry.Image) bool { return i.State != registry.Present })
	verbs := [2]string{"sent", "copied"}
	if o.Plan {
		verbs = [2]string{"to send", "to copy"}
	}
	fmt.Fprintf(out, "%s: %s of %s, %d there already; %s %s, and %s within the registry\n", s.Target, what, app.FormatBytes(s.Total),
		len(there), app.FormatBytes(s.Send), verbs[0], app.FormatBytes(s.Mounted)+" "+verbs[1])
	if len(s.Pruned) > 0 {
		removed := 0
		for _, i := range s.Pruned {
			if i.State == registry.Removed {
				removed++
			}
		}
		fmt.Fprintf(out, "of earlier pushes: %d to remove, %d removed\n", len(s.Pruned)-removed, removed)
	}
	if o.config != "" && !o.Plan {
		fmt.Fprintf(out, "the configuration for clusters is in %s\n", o.config)
	}
	return nil
}
