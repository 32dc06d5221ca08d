package installers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/store"
)

func (a commands) specUpgradeCommand() *cobra.Command {
	var format, from string
	cmd := &cobra.Command{
		Use:   "upgrade FILE",
		Short: "Write the nearest Installer that works",
		Long: `Print the Installer nearest to FILE that works, and name each difference on stderr:

- apiVersion kurl.sh/v1beta1 becomes cluster.kurl.sh/v1beta1. Options with old names get their names of today. An
  add-on with an empty version is left out.
- A version that cannot work, or that the store does not have, becomes the nearest one. Without --store, only versions
  that cannot work change.
- What Sealift does not have is replaced: Docker by containerd, k3s and RKE2 by Kubernetes, a pod network that does not
  work by flannel, Longhorn by OpenEBS. No data is moved.
- Options that do not exist, have a wrong type or no effect are left out.

FILE is not changed, and its comments are not kept. Exit codes: 0 the result works, 1 a person has to change more.`,
		Example: "  sealift spec upgrade old.yaml >installer.yaml\n  sealift spec upgrade old.yaml --store file:///srv/packages >installer.yaml\n  sealift spec upgrade old.yaml -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.upgradeSpec(cmd.Context(), args[0], from, format)
		},
	}
	cmd.Flags().StringVar(&from, "store", "", "take versions that this store has: a folder, its file:// URL, s3://bucket/prefix, or https://host/path")
	_ = cmd.MarkFlagFilename("store")
	app.AddOutputFlag(cmd, &format)
	return cmd
}

// upgraded is the answer of spec upgrade as JSON.
type upgraded struct {
	Installer string           `json:"installer"` // YAML
	Changes   []catalog.Change `json:"changes"`
	Read      []diag.Finding   `json:"read"`   // converted or omitted parts, with their positions
	Remain    []diag.Finding   `json:"remain"` // corrections for a person to make
}

func (a commands) upgradeSpec(ctx context.Context, path, from, format string) error {
	old, lost, err := a.salvageSpec(path)
	if err != nil {
		return err
	}
	var versions catalog.Versions
	if from != "" {
		opened, err := store.Opener{Log: a.Log, CAs: a.CAs}.Open(from)
		if err != nil {
			return err
		}
		versions = func(name string) ([]string, error) { return packages.Source{Store: opened}.Versions(ctx, name) }
	}
	var read diag.List
	read.Add(slices.Concat(lost, old.Migrated)...)
	result := upgraded{Changes: []catalog.Change{}, Read: slices.Concat([]diag.Finding{}, read.Findings()), Remain: []diag.Finding{}}
	i, changes, err := catalog.Upgrade(old, versions)
	if err != nil {
		return err
	}
	if len(i.AddOns)+len(i.Sections) == 0 {
		return fmt.Errorf("%s names nothing that Sealift can install; write spec: {kubernetes: {version: latest}, …}", path)
	}
	result.Changes = append(result.Changes, changes...)
	for _, f := range catalog.Check(i, nil) {
		if f.Severity == diag.Error {
			result.Remain = append(result.Remain, f)
		}
	}
	text, err := i.Canonical()
	if err != nil {
		return err
	}
	result.Installer = string(text)
	var mistakes diag.Errors
	if _, err := spec.Parse("the upgraded Installer", strings.NewReader(result.Installer)); errors.As(err, &mistakes) {
		result.Remain = append(result.Remain, mistakes...)
	}
	return a.printUpgraded(path, result, format)
}

// salvageSpec reads an Installer with mistakes; - is standard input.
func (a commands) salvageSpec(path string) (*spec.Installer, []diag.Finding, error) {
	in, name, err := open(a.In, path)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	i, lost, err := spec.Salvage(name, in)
	if _, ok := errors.AsType[diag.Errors](err); ok {
		return nil, nil, fmt.Errorf("%w; correct the document first", err)
	}
	return i, lost, err
}

func (a commands) printUpgraded(path string, result upgraded, format string) error {
	if format == "json" {
		if err := a.PrintJSON(result); err != nil {
			return err
		}
	} else {
		for _, f := range result.Read {
			f.Severity = diag.Warning
			fmt.Fprintln(a.Err, f.Error())
		}
		for _, c := range result.Changes {
			fmt.Fprintln(a.Err, c)
		}
		for _, f := range result.Remain {
			fmt.Fprintln(a.Err, f.Error())
		}
		if _, err := fmt.Fprint(a.Out, result.Installer); err != nil {
			return err
		}
	}
	if len(result.Remain) > 0 {
		return fmt.Errorf("%s needs more: %s", path, app.Counted(len(result.Remain), "error"))
	}
	return nil
}
