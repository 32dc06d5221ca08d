package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sealift/sealift/batch"
	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/pods"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/store/release"
)

// clusterOptions say where and how a build runs on a cluster.
type clusterOptions struct {
	pods.Options

	store string
}

func (o *clusterOptions) add(flags *pflag.FlagSet) {
	o.Add(flags, "build", "packages")
	flags.StringVar(&o.store, "store", "", "with --on: store for the packages and for what builds share, s3://bucket/prefix")
}

// check refuses what builds on a cluster cannot do.
func (o *clusterOptions) check(b buildOptions, outGiven bool) error {
	switch {
	case o.On == "":
		return nil
	case o.store == "":
		return app.UsageError("--on needs --store, where packages go")
	case outGiven:
		return app.UsageError("with --on, packages go to --store; leave out --out")
	case b.perPlatform:
		return app.UsageError("--per-platform does not work with --on; run it for each --platform")
	case b.key != "":
		return app.UsageError("pods do not get the private key; leave out --key")
	}
	return o.Check(map[string]string{"--store": o.store})
}

// sourcesDir is the folder of the store with the sources of add-ons, named by their sha256.
const sourcesDir = "sources/"

func sourcesKey(digest string) string { return sourcesDir + digest + ".tar.gz" }

// clusterInput is all that the bytes of a package follow from. A pod gets it as the input of its piece.
type clusterInput struct {
	batch.Program

	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Dir         string   `json:"dir"`     // of the add-on in its sources
	Sources     string   `json:"sources"` // sha256
	Vouched     []string `json:"vouched,omitempty"`
	Targets     []string `json:"targets,omitempty"`
	Platforms   []string `json:"platforms"`
	ImageFormat string   `json:"imageFormat"`
	Config      string   `json:"config"`             // sha256 of sealift.yaml
	Licenses    string   `json:"licenses,omitempty"` // digest of the policy without exceptions that are over
	NoReferrers bool     `json:"withoutReferrers,omitempty"`
}

// clusterOutput is the output of a pod.
type clusterOutput struct {
	Package  release.Package `json:"package"`
	Fetched  int64           `json:"fetched"` // bytes
	Seconds  float64         `json:"seconds"`
	Warnings []string        `json:"warnings,omitempty"`
}

// buildOnCluster builds add-ons in pods of a cluster, one for each, and lists the packages in the store's index.
func (a commands) buildOnCluster(ctx context.Context, dirs []string, o buildOptions, b *builder.Builder) error {
	s, err := store.Opener{Write: true, Log: a.Log, CAs: a.CAs}.Open(o.cluster.store)
	if err != nil {
		return err
	}
	cluster, err := o.cluster.Connect(a.Log)
	if err != nil {
		return err
	}
	files, err := o.podFiles()
	if err != nil {
		return err
	}
	inputs, err := a.clusterInputs(ctx, dirs, o, b, s, files)
	if err != nil {
		return err
	}
	packages := release.In(s, "")
	stored, err := packages.Stored(ctx)
	if err != nil {
		return err
	}
	results := make([]builder.Result, len(dirs))
	work := o.cluster.Batch(inPod(), []string{"--store", o.cluster.store, "--config", pods.File(config.FileName)}, files, a.CAs)
	work.Log = a.Log
	work.Current = func(output json.RawMessage) bool {
		var built clusterOutput
		return json.Unmarshal(output, &built) == nil && stored(built.Package)
	}
	work.Started = func(job kube.Ref, pieces int) { fmt.Fprintf(a.Err, "%s builds %d packages\n", job, pieces) }
	work.Finished = func(i int, outcome batch.Outcome) { results[i] = a.reportBuilt(dirs[i], outcome, o.format) }
	outcomes, err := batch.Run(ctx, cluster, s, inputs, work)
	if err != nil {
		return err
	}
	err = settleBuilt(ctx, packages, outcomes, dirs)
	if o.format == "json" {
		err = errors.Join(err, a.PrintJSON(slices.DeleteFunc(results, func(r builder.Result) bool { return r.Name == "" })))
	}
	return err
}

// clusterInputs packs the sources of add-ons into the store, and returns the inputs of their builds.
func (a commands) clusterInputs(ctx context.Context, dirs []string, o buildOptions, b *builder.Builder, s store.Store, files map[string][]byte) ([]json.RawMessage, error) {
	list, err := s.List(ctx, sourcesDir)
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, info := range list {
		there[info.Key] = true
	}
	var inputs []json.RawMessage
	for _, dir := range dirs {
		var packed bytes.Buffer
		sources, err := b.Sources(ctx, dir, &packed)
		if err != nil {
			return nil, err
		}
		value := store.Bytes(packed.Bytes())
		if key := sourcesKey(value.SHA256); !there[key] {
			if _, err := s.Put(ctx, key, value); err != nil {
				return nil, fmt.Errorf("store the sources of %s: %w", dir, err)
			}
			there[key] = true
		}
		input, err := json.Marshal(clusterInput{
			Program: o.cluster.Program(), Name: sources.Name, Version: sources.Version, Dir: sources.Dir, Sources: value.SHA256,
			Vouched: sources.Vouched, Targets: o.sources.targets, Platforms: o.sources.platforms, ImageFormat: o.imageFormat, Config: store.Bytes(files[config.FileName]).SHA256,
			Licenses: sources.Licenses, NoReferrers: o.noReferrers,
		})
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, input)
	}
	return inputs, nil
}

// reportBuilt reports a built package, or the reason for a failure.
func (a commands) reportBuilt(dir string, outcome batch.Outcome, format string) builder.Result {
	if outcome.Failure != "" {
		fmt.Fprintf(a.Err, "failed %s: %s\n", dir, outcome.Failure)
		return builder.Result{}
	}
	var built clusterOutput
	if err := json.Unmarshal(outcome.Output, &built); err != nil {
		fmt.Fprintf(a.Err, "failed %s: %v\n", dir, err)
		return builder.Result{}
	}
	for _, w := range built.Warnings {
		fmt.Fprintln(a.Err, w)
	}
	p := built.Package
	r := builder.Result{Name: p.Name, Version: p.Version, Path: p.Key, Size: p.Size, SHA256: p.SHA256, UpToDate: outcome.Earlier, Fetched: built.Fetched, Seconds: built.Seconds}
	if format != "json" {
		a.printBuilt(r)
	}
	return r
}

// settleBuilt lists the built packages in the index of the store.
func settleBuilt(ctx context.Context, packages release.Release, outcomes []batch.Outcome, dirs []string) error {
	var own []release.Package
	var failed []string
	for i, outcome := range outcomes {
		var built clusterOutput
		if outcome.Failure != "" || json.Unmarshal(outcome.Output, &built) != nil {
			failed = append(failed, dirs[i])
			continue
		}
		own = append(own, built.Package)
	}
	var err error
	if len(own) > 0 {
		err = packages.Settle(ctx, own)
	}
	if len(failed) > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d packages were not built: %s; run the same command again for only these", len(failed), len(dirs), strings.Join(failed, ", ")))
	}
	return err
}

// podFiles are the files that pods need: sealift.yaml. They get no others: keys of signatures must be in it.
func (o buildOptions) podFiles() (map[string][]byte, error) {
	settings, err := config.Load(o.sources.config)
	if err != nil {
		return nil, err
	}
	if files := settings.Signatures.Files(); len(files) > 0 {
		return nil, fmt.Errorf("signatures in %s name files that pods do not have: %s; write their content in place of their names", settings.Signatures.File(), strings.Join(files, ", "))
	}
	name := o.sources.config
	if name == "" {
		name = config.FileName
	}
	data, err := os.ReadFile(name)
	if o.sources.config == "" && errors.Is(err, fs.ErrNotExist) {
		data, err = []byte("{}\n"), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return map[string][]byte{config.FileName: data}, nil
}
