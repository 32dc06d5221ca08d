package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sealift/sealift/batch"
	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/kubeconfig"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/store/release"
)

// onKubernetes is the value of --on for builds on a cluster.
const onKubernetes = "kubernetes"

// clusterOptions say where and how a build runs on a cluster.
type clusterOptions struct {
	on          string
	store       string
	image       string
	kubeconfig  string
	context     string
	namespace   string
	secret      string
	queue       string
	parallelism int
	cpu, memory string
}

func (o *clusterOptions) add(flags *pflag.FlagSet) {
	flags.Var(app.NewChoice(&o.on, []string{onKubernetes}), "on", "build on a cluster: kubernetes")
	flags.StringVar(&o.store, "store", "", "with --on: store for the packages and for what builds share, s3://bucket/prefix")
	flags.StringVar(&o.image, "image", "", "with --on: image of this sealift, as 'make image' makes it")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "with --on: kubeconfig of the cluster; default $KUBECONFIG, then ~/.kube/config")
	flags.StringVar(&o.context, "context", "", "with --on: context of the kubeconfig (default: its current context)")
	flags.StringVar(&o.namespace, "namespace", "default", "with --on: namespace for the Job")
	flags.StringVar(&o.secret, "secret", "", "with --on: Secret whose keys are environment variables of the pods, such as AWS_ACCESS_KEY_ID")
	flags.StringVar(&o.queue, "queue", "", "with --on: LocalQueue of Kueue that admits the Job")
	flags.IntVar(&o.parallelism, "parallelism", 0, "with --on: packages at once (default: all)")
	flags.StringVar(&o.cpu, "cpu", "1", "with --on: processors that a pod requests")
	flags.StringVar(&o.memory, "memory", "512Mi", "with --on: memory that a pod requests, and its limit")
}

// check refuses what builds on a cluster cannot do.
func (o *clusterOptions) check(b buildOptions, outGiven bool) error {
	if o.on == "" {
		return nil
	}
	for _, wrong := range []struct {
		is   bool
		text string
	}{
		{o.store == "", "--on needs --store, where packages go"},
		{o.image == "", "--on needs --image, which pods run; 'make image' makes it"},
		{!strings.HasPrefix(o.store, "s3://"), "--store must be s3://bucket/prefix, because pods do not have the folders of this machine"},
		{outGiven, "with --on, packages go to --store; leave out --out"},
		{b.perPlatform, "--per-platform does not work with --on; run it for each --platform"},
		{b.key != "", "pods do not get the private key; leave out --key"},
		{o.parallelism < 0, "--parallelism must not be negative"},
	} {
		if wrong.is {
			return app.UsageError("%s", wrong.text)
		}
	}
	for flag, text := range map[string]string{"cpu": o.cpu, "memory": o.memory} {
		if _, err := resource.ParseQuantity(text); err != nil {
			return app.UsageError("--%s %s: %v", flag, text, err)
		}
	}
	return nil
}

// sourcesDir is the folder of the store with the sources of add-ons, named by their sha256.
const sourcesDir = "sources/"

func sourcesKey(digest string) string { return sourcesDir + digest + ".tar.gz" }

// clusterInput is all that the bytes of a package follow from. A pod gets it as the input of its piece.
type clusterInput struct {
	Sealift     string   `json:"sealift"` // version
	Image       string   `json:"image"`
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Dir         string   `json:"dir"`     // of the add-on in its sources
	Sources     string   `json:"sources"` // sha256
	Vouched     []string `json:"vouched,omitempty"`
	Targets     []string `json:"targets,omitempty"`
	Platforms   []string `json:"platforms"`
	ImageFormat string   `json:"imageFormat"`
	Config      string   `json:"config"` // sha256 of sealift.yaml
}

// clusterOutput is what a pod has built.
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
	cfg, err := kubeconfig.InPodOr(o.cluster.kubeconfig, o.cluster.context, "")
	if err != nil {
		return err
	}
	cluster, err := kube.Connect(cfg, a.Log)
	if err != nil {
		return err
	}
	files, err := o.podFiles(a)
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
	outcomes, err := batch.Run(ctx, cluster, s, inputs, batch.Options{
		Name: "build", Namespace: o.cluster.namespace, Pod: o.pod(files), Files: files, Parallelism: o.cluster.parallelism, Retries: pieceRetries,
		Queue: o.cluster.queue, Log: a.Log,
		Current: func(output json.RawMessage) bool {
			var built clusterOutput
			return json.Unmarshal(output, &built) == nil && stored(built.Package)
		},
		Started:  func(job kube.Ref, pieces int) { fmt.Fprintf(a.Err, "%s builds %d packages\n", job, pieces) },
		Finished: func(i int, outcome batch.Outcome) { results[i] = a.tellBuilt(dirs[i], outcome, o.format) },
	})
	if err != nil {
		return err
	}
	err = settleBuilt(ctx, packages, outcomes, dirs)
	if o.format == "json" {
		err = errors.Join(err, a.PrintJSON(slices.DeleteFunc(results, func(r builder.Result) bool { return r.Name == "" })))
	}
	return err
}

// pieceRetries is how often a build that failed is tried again, because a server may have been down.
const pieceRetries = 2

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
			Sealift: app.CurrentVersion().Version, Image: o.cluster.image, Name: sources.Name, Version: sources.Version, Dir: sources.Dir, Sources: value.SHA256,
			Vouched: sources.Vouched, Targets: o.sources.targets, Platforms: o.sources.platforms, ImageFormat: o.imageFormat, Config: store.Bytes(files[config.FileName]).SHA256,
		})
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, input)
	}
	return inputs, nil
}

// tellBuilt tells of a package that is built, or why it is not.
func (a commands) tellBuilt(dir string, outcome batch.Outcome, format string) builder.Result {
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

// settleBuilt lists what was built in the index of the store.
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
		err = errors.Join(err, fmt.Errorf("%d of %d packages were not built: %s; run the same command again for these alone", len(failed), len(dirs), strings.Join(failed, ", ")))
	}
	return err
}

// caFile is the name of the CAs among the files of a pod.
const caFile = "ca.crt"

// podFiles are the files that pods need: sealift.yaml, and the CAs of --ca-cert.
func (o buildOptions) podFiles(a commands) (map[string][]byte, error) {
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
	files := map[string][]byte{config.FileName: data}
	if text := a.CAs.Text(); text != "" {
		files[caFile] = []byte(text)
	}
	return files, nil
}

// forwarded are variables that say how to reach the store.
var forwarded = [...]string{"SEALIFT_S3_ENDPOINT", "SEALIFT_S3_REGION", "SEALIFT_S3_PATH_STYLE", "SEALIFT_S3_CHECKSUM", "SEALIFT_S3_PARALLEL"}

// pod is what builds one package: the image's sealift, without rights, with one folder to write to.
func (o buildOptions) pod(files map[string][]byte) corev1.PodSpec {
	const scratch = "scratch"
	args := []string{inPodName, "--store", o.cluster.store, "--config", filepath.Join(batch.FilesDir, config.FileName)}
	if files[caFile] != nil {
		args = append(args, "--ca-cert", filepath.Join(batch.FilesDir, caFile))
	}
	memory := resource.MustParse(o.cluster.memory)
	container := corev1.Container{
		Name: "build", Image: o.cluster.image, Args: args,
		Env: []corev1.EnvVar{{Name: "SEALIFT_CACHE", Value: "/tmp/sealift"}, {Name: "HOME", Value: "/tmp"}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(o.cluster.cpu), corev1.ResourceMemory: memory},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: memory},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: scratch, MountPath: "/tmp"}},
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: new(true), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	for _, name := range forwarded {
		if value := os.Getenv(name); value != "" {
			container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: value})
		}
	}
	if o.cluster.secret != "" {
		container.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: o.cluster.secret}}}}
	}
	return corev1.PodSpec{
		AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false), TerminationGracePeriodSeconds: new(int64((10 * time.Second).Seconds())),
		Containers: []corev1.Container{container},
		Volumes:    []corev1.Volume{{Name: scratch, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}
}
