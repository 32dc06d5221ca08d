package batch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/kube"
)

const (
	planAnnotation = "sealift.dev/batch-plan"
	// runAnnotation has the id of the run. A Job without it does not belong to a batch, whatever its name.
	runAnnotation = "sealift.dev/batch-run"
	// coordinatorAnnotation names the coordinator that made the Job. It finds it again if the answer of the API server was lost.
	coordinatorAnnotation = "sealift.dev/batch-coordinator"
	// queueLabel hands a Job to Kueue, which starts it when its queue has room.
	queueLabel = "kueue.x-k8s.io/queue-name"
	// ensureTime is how long the API server may be away while a Job is looked up or created.
	ensureTime = 5 * time.Minute
	// removalPoll is the pause before a Job that is being removed is read again.
	removalPoll = 500 * time.Millisecond
)

// ensure returns the Job with its plan, and creates it for the missing pieces if it does not exist.
func (r *run) ensure(ctx context.Context, missing []piece) (*batchv1.Job, plan, error) {
	ctx, cancel := context.WithTimeout(ctx, ensureTime)
	defer cancel()
	if err := r.checkQueue(ctx); err != nil {
		return nil, nil, err
	}
	var job *batchv1.Job
	err := poll.Until(ctx, removalPoll, nil, func(ctx context.Context) (_ bool, err error) {
		job, err = r.find(ctx)
		if apierrors.IsNotFound(err) {
			job, err = r.create(ctx, missing)
		}
		switch {
		case err != nil:
			return false, err
		case job == nil: // another coordinator was faster
			return false, poll.NotYet(fmt.Errorf("another coordinator makes the %s", r.job))
		case job.DeletionTimestamp != nil:
			return false, poll.NotYet(fmt.Errorf("the old %s still exists", r.job))
		case !r.owns(job):
			return false, fmt.Errorf("%s is not a Job of this batch, and has its name; remove it, or choose another namespace", r.job)
		}
		return true, nil
	})
	if err != nil {
		return nil, nil, err
	}
	pieces, err := r.files.loadPlan(ctx, job.Annotations[planAnnotation])
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w; remove the Job and run the same command again", r.job, err)
	}
	if n := job.Spec.Completions; n == nil || int(*n) != len(pieces) {
		return nil, nil, fmt.Errorf("%s does not have the %d pieces of its plan; remove the Job and run the same command again", r.job, len(pieces))
	}
	return job, pieces, r.ensureFiles(ctx, job)
}

// owns reports whether a Job belongs to this run: this coordinator created it, or one with the same inputs.
func (r *run) owns(job *batchv1.Job) bool { return job.Annotations[runAnnotation] == r.id }

// find reads the Job.
func (r *run) find(ctx context.Context) (job *batchv1.Job, err error) {
	err = r.cluster.Retry(ctx, r.job, func(ctx context.Context) error {
		jobs, err := r.cluster.Objects(ctx, r.job)
		if err != nil {
			return err
		}
		found, err := jobs.Get(ctx, r.job.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		job, err = toJob(found)
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		err = fmt.Errorf("look for %s: %w", r.job, err)
	}
	return job, err
}

// create creates the Job for the missing pieces. It returns nil if there is one now.
func (r *run) create(ctx context.Context, missing []piece) (job *batchv1.Job, err error) {
	d, err := r.files.savePlan(ctx, missing)
	if err != nil {
		return nil, err
	}
	made, err := toUnstructured(r.spec(d, len(missing)))
	if err != nil {
		return nil, err
	}
	err = r.cluster.Retry(ctx, r.job, func(ctx context.Context) error {
		jobs, err := r.cluster.Objects(ctx, r.job)
		if err != nil {
			return err
		}
		r.requested = true
		created, err := jobs.Create(ctx, made, metav1.CreateOptions{FieldManager: kube.Manager})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		if err != nil {
			return err
		}
		job, err = toJob(created)
		return err
	})
	if err != nil {
		err = fmt.Errorf("create %s: %w", r.job, err)
	}
	return job, err
}

// spec is the Job for n pieces.
func (r *run) spec(plan string, pieces int) *batchv1.Job {
	labels := map[string]string{"app.kubernetes.io/managed-by": "sealift", "app.kubernetes.io/component": r.Options.Name}
	job := &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Name: r.job.Name, Namespace: r.Namespace, Labels: labels,
			Annotations: map[string]string{planAnnotation: plan, runAnnotation: r.id, coordinatorAnnotation: r.coordinator}},
		Spec: batchv1.JobSpec{
			CompletionMode: new(batchv1.IndexedCompletion), Completions: new(int32(pieces)), Parallelism: new(r.atOnce(pieces)),
			BackoffLimitPerIndex: new(int32(max(r.Retries, 0))), TTLSecondsAfterFinished: new(int32(r.Keep.Seconds())), ActiveDeadlineSeconds: new(int64(r.Time.Seconds())),
			// An evicted, preempted or lost pod says nothing about its piece.
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action:          batchv1.PodFailurePolicyActionIgnore,
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
			}}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: *r.pod(plan)},
		},
	}
	if r.Queue != "" { // Kueue resumes it
		job.Labels = map[string]string{queueLabel: r.Queue}
		maps.Copy(job.Labels, labels)
		job.Spec.Suspend = new(true)
	}
	return job
}

// pod returns the template of the pods; each runs one piece.
func (r *run) pod(plan string) *corev1.PodSpec {
	const volume = "batch"
	pod := r.Pod.DeepCopy()
	pod.RestartPolicy = corev1.RestartPolicyNever // the Job's rules for failures require it
	pod.ActiveDeadlineSeconds = new(int64(r.PieceTime.Seconds()))
	first := &pod.Containers[0]
	uid := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + batchv1.ControllerUidLabel + "']"}}
	first.Env = append(first.Env, corev1.EnvVar{Name: planVariable, Value: plan}, corev1.EnvVar{Name: jobVariable, ValueFrom: uid})
	if len(r.Files) > 0 {
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: r.job.Name}}})
		first.VolumeMounts = append(first.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: FilesDir, ReadOnly: true})
	}
	return pod
}

// ensureFiles makes the Secret that pods wait for. One of an earlier Job with the same name is about to be removed with that Job, and is
// replaced. Any other Secret stays.
func (r *run) ensureFiles(ctx context.Context, job *batchv1.Job) error {
	if len(r.Files) == 0 {
		return nil
	}
	ref := kube.Ref{Version: "v1", Kind: "Secret", Namespace: r.Namespace, Name: r.job.Name}
	made, err := toUnstructured(&corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: ref.Name, Namespace: ref.Namespace, Labels: job.Labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID}}},
		Data: r.Files,
	})
	if err != nil {
		return err
	}
	err = r.cluster.Retry(ctx, ref, func(ctx context.Context) error {
		secrets, err := r.cluster.Objects(ctx, ref)
		if err != nil {
			return err
		}
		return poll.Until(ctx, removalPoll, nil, func(ctx context.Context) (bool, error) {
			_, err = secrets.Create(ctx, made, metav1.CreateOptions{FieldManager: kube.Manager})
			if !apierrors.IsAlreadyExists(err) {
				return err == nil, err
			}
			old, err := secrets.Get(ctx, ref.Name, metav1.GetOptions{})
			if err == nil {
				owners := old.GetOwnerReferences()
				at := slices.IndexFunc(owners, func(o metav1.OwnerReference) bool { return o.Kind == "Job" && o.Name == job.Name })
				switch {
				case at < 0:
					return false, errors.New("it exists and belongs to another batch; remove it, or choose another namespace")
				case owners[at].UID == job.UID:
					return true, nil
				}
				err = secrets.Delete(ctx, ref.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(old.GetUID()))})
			}
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return false, err
			}
			return false, poll.NotYet(errors.New("the old one is still being deleted"))
		})
	})
	if err != nil {
		return fmt.Errorf("create %s: %w", ref, err)
	}
	return nil
}

// removalTime is the timeout for the removal of a Job.
const removalTime = 30 * time.Second

// removeLeft removes the Job that a coordinator of this run has left when it was killed.
func (r *run) removeLeft(ctx context.Context) error { return r.removeIf(ctx, r.owns) }

// removeMade removes the Job that this coordinator may have made without learning of it. That of another coordinator stays: it works.
func (r *run) removeMade(ctx context.Context) error {
	if !r.requested {
		return nil
	}
	return r.removeIf(ctx, func(job *batchv1.Job) bool { return job.Annotations[coordinatorAnnotation] == r.coordinator })
}

func (r *run) removeIf(ctx context.Context, own func(*batchv1.Job) bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTime)
	defer cancel()
	job, err := r.find(ctx)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || !own(job) {
		return err
	}
	return r.remove(ctx, job.UID)
}

// remove removes the Job with a UID, even if ctx has ended. Another coordinator may have made another Job with its name by now. The
// garbage collector removes its pods and its files.
func (r *run) remove(ctx context.Context, uid types.UID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTime)
	defer cancel()
	err := r.cluster.Retry(ctx, r.job, func(ctx context.Context) error {
		jobs, err := r.cluster.Objects(ctx, r.job)
		if err != nil {
			return err
		}
		err = jobs.Delete(ctx, r.job.Name, metav1.DeleteOptions{
			PropagationPolicy: new(metav1.DeletePropagationBackground), Preconditions: &metav1.Preconditions{UID: &uid},
		})
		if apierrors.IsConflict(err) {
			return nil // that is another Job
		}
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove %s: %w; Kubernetes deletes it %s after it finishes", r.job, err, r.Keep)
	}
	return nil
}

// checkQueue refuses a queue that does not exist, because a Job for it would wait forever.
func (r *run) checkQueue(ctx context.Context) error {
	if r.Queue == "" {
		return nil
	}
	var missing error
	for _, version := range []string{"v1beta2", "v1beta1"} {
		ref := kube.Ref{Group: "kueue.x-k8s.io", Version: version, Kind: "LocalQueue", Namespace: r.Namespace, Name: r.Queue}
		queues, err := r.cluster.Objects(ctx, ref)
		if meta.IsNoMatchError(err) {
			missing = err
			continue
		}
		if err == nil {
			_, err = queues.Get(ctx, ref.Name, metav1.GetOptions{})
		}
		if err != nil {
			return fmt.Errorf("look for %s: %w", ref, err)
		}
		return nil
	}
	return fmt.Errorf("the queue %s needs Kueue: %w", r.Queue, missing)
}

func toUnstructured(object any) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	return &unstructured.Unstructured{Object: content}, err
}

func toJob(object *unstructured.Unstructured) (*batchv1.Job, error) {
	job := &batchv1.Job{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, job); err != nil {
		return nil, fmt.Errorf("the API server sent an unexpected Job: %w", err)
	}
	return job, nil
}

// podReason says why a pod has ended, or why it does not run, or nothing.
func podReason(pod *corev1.Pod) string {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return strings.TrimSpace(fmt.Sprintf("%s with exit code %d %s", t.Reason, t.ExitCode, t.Message))
		}
		if w := c.State.Waiting; w != nil && w.Message != "" {
			return w.Reason + ": " + w.Message
		}
	}
	if pod.Status.Reason != "" || pod.Status.Message != "" {
		return strings.TrimSpace(pod.Status.Reason + ": " + pod.Status.Message)
	}
	for _, c := range pod.Status.Conditions {
		if c.Status == corev1.ConditionFalse && c.Message != "" {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}
