package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/batch"
	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/pods"
	"github.com/sealift/sealift/helm/engine"
	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/store/release"
)

// inPod runs in the pods of a build on a cluster.
func inPod() pods.Work {
	return pods.Work{Job: "build", Words: []string{"build-in-pod"}, Does: "Build one package", For: "sealift build", Example: "--store s3://packages/stable"}
}

// inPodOptions are the command line of a pod.
type inPodOptions struct {
	store  string
	config string
	cache  cacheFlags
}

func (a commands) inPodCommand() *cobra.Command {
	var o inPodOptions
	cmd := inPod().Command(func(ctx context.Context) error {
		s, err := store.Opener{Write: true, Log: a.Log, CAs: a.CAs}.Open(o.store)
		if err != nil {
			return app.UsageError("--store: %v", err)
		}
		return batch.Serve(ctx, s, os.Getenv, func(ctx context.Context, input json.RawMessage) (any, error) {
			var in clusterInput
			if err := json.Unmarshal(input, &in); err != nil {
				return nil, err
			}
			return a.buildInPod(ctx, s, in, o)
		})
	})
	flags := cmd.Flags()
	flags.StringVar(&o.store, "store", "", "store with the sources, for the package")
	flags.StringVar(&o.config, "config", "", "configuration file (default: sealift.yaml of the working directory)")
	o.cache.add(flags)
	return cmd
}

// buildInPod builds one package out of the sources in the store, and puts it there.
func (a commands) buildInPod(ctx context.Context, s store.Store, in clusterInput, o inPodOptions) (_ clusterOutput, err error) {
	if err := in.Check(app.CurrentVersion().Version); err != nil {
		return clusterOutput{}, err
	}
	scratch, err := os.MkdirTemp("", "sealift-build-*")
	if err != nil {
		return clusterOutput{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	sources := filepath.Join(scratch, "sources")
	if err := os.Mkdir(sources, 0o755); err != nil {
		return clusterOutput{}, err
	}
	if err := fetchSources(ctx, s, in.Sources, sources); err != nil {
		return clusterOutput{}, fmt.Errorf("the sources of %s %s: %w", in.Name, in.Version, err)
	}
	settings, err := config.Load(o.config)
	if err != nil {
		return clusterOutput{}, err
	}
	c, err := o.cache.open()
	if err != nil {
		return clusterOutput{}, err
	}
	defer c.Close()
	b, err := builder.New(c, builder.Options{
		Config: settings, Targets: in.Targets, Platforms: in.Platforms, Log: a.Log, Locked: true, ImageFormat: builder.ImageFormat(in.ImageFormat),
		Charts: engine.Renderer{}, CAs: a.CAs, Shared: s, Vouched: in.Vouched, WithoutReferrers: in.NoReferrers,
	})
	if err != nil {
		return clusterOutput{}, err
	}
	r, err := b.Build(ctx, filepath.Join(sources, filepath.FromSlash(in.Dir)), filepath.Join(scratch, "out"))
	if err != nil {
		return clusterOutput{}, err
	}
	candidate, file, err := openCandidate(ctx, r.Path)
	if err != nil {
		return clusterOutput{}, err
	}
	defer file.Close()
	built := clusterOutput{Fetched: r.Fetched, Seconds: r.Seconds}
	for _, w := range r.Warnings {
		built.Warnings = append(built.Warnings, w.Error())
	}
	built.Package, err = release.In(s, "").Add(ctx, candidate)
	return built, err
}

// fetchSources unpacks sources of the store, when their digest is right.
func fetchSources(ctx context.Context, s store.Store, digest, dir string) error {
	value, err := s.Get(ctx, sourcesKey(digest))
	if err != nil {
		return err
	}
	defer value.Close()
	got, _, err := sha256hex.Read(io.NewSectionReader(value, 0, value.Size()))
	if err != nil {
		return err
	}
	if got != digest {
		return fmt.Errorf("they have the digest %s in the store, not %s", got, digest)
	}
	return builder.UnpackSources(io.NewSectionReader(value, 0, value.Size()), dir)
}
