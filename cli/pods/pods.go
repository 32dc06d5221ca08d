// Package pods is shared by commands whose work can run in pods of a cluster: the flags of --on kubernetes, the pods, and the
// commands in them.
package pods

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sealift/sealift/batch"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/kubeconfig"
	"github.com/sealift/sealift/internal/trust"
	"github.com/sealift/sealift/kube"
)

// Kubernetes is the value of --on.
const Kubernetes = "kubernetes"

// Options say where and how the work runs on a cluster.
type Options struct {
	On          string // Kubernetes, or "" for this machine
	Image       string
	Namespace   string
	Secret      string
	Parallelism int

	queue               string
	kubeconfig, context string
	cpu, memory         string
}

// Add adds the flags. verb and things describe the work of pods, such as "build" and "packages".
func (o *Options) Add(flags *pflag.FlagSet, verb, things string) {
	flags.Var(app.NewChoice(&o.On, []string{Kubernetes}), "on", verb+" on a cluster: "+Kubernetes)
	flags.StringVar(&o.Image, "image", "", "with --on: image of this sealift, as 'make image' makes it")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "with --on: kubeconfig of the cluster; default $KUBECONFIG, then ~/.kube/config")
	flags.StringVar(&o.context, "context", "", "with --on: context of the kubeconfig (default: its current context)")
	flags.StringVar(&o.Namespace, "namespace", "default", "with --on: namespace for the Job")
	flags.StringVar(&o.Secret, "secret", "", "with --on: Secret whose keys are environment variables of the pods, such as AWS_ACCESS_KEY_ID")
	flags.StringVar(&o.queue, "queue", "", "with --on: LocalQueue of Kueue that admits the Job")
	flags.IntVar(&o.Parallelism, "parallelism", 0, "with --on: "+things+" at once (default: all)")
	flags.StringVar(&o.cpu, "cpu", "1", "with --on: processors that a pod requests")
	flags.StringVar(&o.memory, "memory", "512Mi", "with --on: memory that a pod requests, and its limit")
}

// Check refuses invalid values. stores maps the names of flags to stores that pods open.
func (o Options) Check(stores map[string]string) error {
	if o.Image == "" {
		return app.UsageError("--on needs --image, which pods run; 'make image' makes it")
	}
	for flag, location := range stores {
		if !strings.HasPrefix(location, "s3://") {
			return app.UsageError("%s must be s3://bucket/prefix, because pods do not have the folders of this machine", flag)
		}
	}
	if o.Parallelism < 0 {
		return app.UsageError("--parallelism must not be negative")
	}
	for flag, text := range map[string]string{"cpu": o.cpu, "memory": o.memory} {
		if _, err := resource.ParseQuantity(text); err != nil {
			return app.UsageError("--%s %s: %v", flag, text, err)
		}
	}
	return nil
}

// Connect returns the cluster.
func (o Options) Connect(log *slog.Logger) (*kube.Cluster, error) {
	cfg, err := kubeconfig.InPodOr(o.kubeconfig, o.context, "")
	if err != nil {
		return nil, err
	}
	return kube.Connect(cfg, log)
}

// caFile is the name of the CAs among the files of a pod.
const caFile = "ca.crt"

// Work is the work of pods: one piece for each of them, by a hidden command of sealift.
type Work struct {
	Job     string   // first part of the Job's name
	Words   []string // of the command behind "sealift", such as testgrid run-in-pod
	Does    string   // to one piece, such as "Build one package"
	For     string   // the command that starts the pods, such as "sealift build"
	Example string   // flags of the command
}

// Command makes the command that pods run.
func (w Work) Command(run func(context.Context) error) *cobra.Command {
	short := fmt.Sprintf("%s in a pod of '%s --on %s'", w.Does, w.For, Kubernetes)
	return &cobra.Command{
		Use: w.Words[len(w.Words)-1], Short: short, Hidden: true,
		Long: short + `. The environment says which: the index of the Job, and the digest of its plan
in the store.`,
		Example: "  JOB_COMPLETION_INDEX=0 SEALIFT_BATCH_PLAN=DIGEST sealift " + strings.Join(w.Words, " ") + " " + w.Example,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return run(cmd.Context()) },
	}
}

// File is where the command of a pod finds one of the files.
func File(name string) string { return filepath.Join(batch.FilesDir, name) }

// Program is the program of the pods.
func (o Options) Program() batch.Program {
	return batch.Program{Sealift: app.CurrentVersion().Version, Image: o.Image}
}

// Batch describes a Job. Its pods run the command of the work with these flags, and find the files at File. They also trust the CAs.
func (o Options) Batch(w Work, flags []string, files map[string][]byte, cas trust.CAs) batch.Options {
	args := slices.Concat(w.Words, flags)
	if text := cas.Text(); text != "" {
		files[caFile] = []byte(text)
		args = append(args, "--ca-cert", File(caFile))
	}
	return batch.Options{Name: w.Job, Namespace: o.Namespace, Pod: o.pod(w.Job, args), Files: files, Parallelism: o.Parallelism, Retries: retries, Queue: o.queue}
}

// retries is how often a failed piece is retried, because a server may have been down.
const retries = 2

// forwarded are variables that configure access to the store.
var forwarded = [...]string{"SEALIFT_S3_ENDPOINT", "SEALIFT_S3_REGION", "SEALIFT_S3_PATH_STYLE", "SEALIFT_S3_CHECKSUM", "SEALIFT_S3_PARALLEL"}

// pod runs one piece: the image's sealift, without rights, with one writable folder.
func (o Options) pod(name string, args []string) corev1.PodSpec {
	const scratch = "scratch"
	memory := resource.MustParse(o.memory)
	container := corev1.Container{
		Name: name, Image: o.Image, Args: args,
		Env: []corev1.EnvVar{{Name: "SEALIFT_CACHE", Value: "/tmp/sealift"}, {Name: "HOME", Value: "/tmp"}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(o.cpu), corev1.ResourceMemory: memory},
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
	if o.Secret != "" {
		container.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: o.Secret}}}}
	}
	return corev1.PodSpec{
		AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false), TerminationGracePeriodSeconds: new(int64((10 * time.Second).Seconds())),
		Containers: []corev1.Container{container},
		Volumes:    []corev1.Volume{{Name: scratch, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}
}
