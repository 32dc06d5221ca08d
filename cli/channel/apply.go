package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/cli/app"
	clusterconfig "github.com/sealift/sealift/cli/kubeconfig"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/health"
	"github.com/sealift/sealift/kube/render"
)

type applyOptions struct {
	directory  string
	file       string
	set        kube.Set
	wait       time.Duration
	timeout    time.Duration
	kubeconfig string
	dryRun     bool
	format     string
	engine     kube.ApplyOptions
}

func (a commands) applyCommand() *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use:    "apply (-k DIR | -f FILE) --set NAME",
		Short:  "Apply objects to a cluster as one set, and prune what left it",
		Hidden: true,
		Long: `Render a kustomization, or read a file of YAML documents, and apply the objects to the cluster as the set NAME.
Missing objects are created, different ones are changed, and objects that have left the set are deleted. Hooks of
add-ons do the same. Run the command by hand to see what they would do.

Namespaces and CustomResourceDefinitions are applied first, and the command waits for them. Namespaces, definitions
and volume claims that leave the set stay in the cluster unless --prune-protected is given. If some objects fail,
the others are still applied, but nothing is pruned.

The command takes over fields that kubectl edit or client-side kubectl apply have set. If another manager holds a
field with another value, the command reports the field and the manager, and does not change it unless
--force-conflicts is given.

A Secret with the name of the set records its members (ApplySet, KEP-3659).`,
		Example: `  sealift apply -k ./kustomize/flannel --set flannel --wait 5m
  sealift apply -f crds.yaml --set cert-manager-crds
  render | sealift apply -f - --set metrics-server -o json
  sealift apply -k ./kustomize/flannel --set flannel --dry-run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runApply(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.directory, "kustomize", "k", "", "kustomization directory to render and apply")
	flags.StringVarP(&o.file, "filename", "f", "", "file of YAML or JSON documents to apply, - for standard input")
	flags.StringVar(&o.set.Name, "set", "", "name of the set, such as the add-on's")
	flags.StringVar(&o.set.Namespace, "namespace", kube.DefaultNamespace, "namespace for the record of the set; created if missing")
	flags.DurationVar(&o.wait, "wait", 0, "how long to wait for every object to be ready, such as 5m; 0 does not wait")
	flags.DurationVar(&o.timeout, "timeout", kube.DefaultApplyTimeout, "time limit for applying, including retries")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; default $KUBECONFIG, then ~/.kube/config")
	flags.BoolVar(&o.dryRun, "dry-run", false, "show what would change, field by field, and change nothing")
	flags.BoolVar(&o.engine.Force, "force-conflicts", false, "take over fields of other managers")
	flags.BoolVar(&o.engine.Recreate, "recreate", false, "recreate objects whose immutable fields changed, such as Jobs")
	flags.BoolVar(&o.engine.NoPrune, "no-prune", false, "do not delete objects that left the set")
	flags.BoolVar(&o.engine.PruneProtected, "prune-protected", false, "prune Namespaces, CustomResourceDefinitions and volume claims too")
	app.AddOutputFlag(cmd, &o.format)
	return cmd
}

func (a commands) runApply(ctx context.Context, o applyOptions) error {
	if (o.directory == "") == (o.file == "") {
		return app.UsageError("give the objects with either -k DIR or -f FILE")
	}
	if o.set.Name == "" {
		return app.UsageError("--set is required: the name of the set that the objects make up")
	}
	objs, err := a.readObjects(o)
	if err != nil {
		return err
	}
	if len(objs) == 0 {
		// An empty pipe is more often a failed renderer than the wish to prune a whole set.
		return fmt.Errorf("apply set %s: there are no objects to apply; nothing was changed", o.set)
	}
	engine, err := a.newEngine(o.kubeconfig)
	if err != nil {
		return err
	}
	o.engine.Timeout = o.timeout
	if o.dryRun {
		result, err := engine.Diff(ctx, o.set, objs, o.engine)
		return errors.Join(a.printResult(result, o.format), err)
	}
	if o.format == "text" {
		o.engine.Progress = a.printEntry
	}
	result, err := engine.Apply(ctx, o.set, objs, o.engine)
	if err == nil && o.wait > 0 {
		err = engine.Wait(ctx, objs, kube.WaitOptions{Timeout: o.wait, Progress: a.printWaiting()})
	}
	if o.format == "text" {
		fmt.Fprintln(a.Out, result.Summary())
		return err
	}
	return errors.Join(a.printResult(result, o.format), err)
}

// waitingEvery is the pause between two lines about one object whose reasons keep changing.
const waitingEvery = 15 * time.Second

// printWaiting prints the awaited objects: each at once when its state changes, and from time to time in between.
func (a commands) printWaiting() func(kube.ObjectState) {
	type shown struct {
		state health.State
		after time.Duration
	}
	last := map[kube.Ref]shown{}
	return func(s kube.ObjectState) {
		before, known := last[s.Object]
		if known && before.state == s.State && s.Waited-before.after < waitingEvery {
			return
		}
		last[s.Object] = shown{s.State, s.Waited}
		fmt.Fprintln(a.Err, s)
	}
}

// readObjects renders the kustomization or reads the file.
func (a commands) readObjects(o applyOptions) ([]*unstructured.Unstructured, error) {
	switch o.file {
	case "":
		return render.Build(o.directory)
	case "-":
		objs, err := render.Decode(a.In)
		if err != nil {
			return nil, fmt.Errorf("read objects from standard input: %w", err)
		}
		return objs, nil
	}
	file, err := os.Open(o.file)
	if err != nil {
		return nil, fmt.Errorf("read objects: %w", err)
	}
	defer file.Close()
	objs, err := render.Decode(file)
	if err != nil {
		return nil, fmt.Errorf("read objects from %s: %w", o.file, err)
	}
	return objs, nil
}

// newEngine connects to the cluster of a kubeconfig, or to kubectl's default.
func (a commands) newEngine(kubeconfig string) (*kube.Engine, error) {
	cfg, err := clusterconfig.Load(kubeconfig, "")
	if err != nil {
		return nil, err
	}
	cluster, err := kube.Connect(cfg, a.Log)
	if err != nil {
		return nil, err
	}
	return kube.New(cluster, kube.Options{}), nil
}

func (a commands) printResult(result kube.Result, format string) error {
	if format == "json" {
		return a.PrintJSON(result)
	}
	for _, entry := range result.Entries {
		a.printEntry(entry)
	}
	_, err := fmt.Fprintln(a.Out, result.Summary())
	return err
}

// printEntry writes one line for an object, and one for each field that would change.
func (a commands) printEntry(entry kube.Entry) {
	fmt.Fprintln(a.Out, entry)
	for _, change := range entry.Changes {
		fmt.Fprintf(a.Out, "  %s: %s -> %s\n", change.Field, compactJSON(change.Live), compactJSON(change.Wanted))
	}
}

// compactJSON writes a value on one line; a missing field is shown as absent.
func compactJSON(value any) string {
	if value == nil {
		return "(absent)"
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(data)
}
