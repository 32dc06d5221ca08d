package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Kubelet plays the kubelet of all nodes that pods of one namespace can have, for tests whose control plane has a scheduler and
// controllers but no nodes. It runs pods by calling a function.
type Kubelet struct {
	Client    kubernetes.Interface
	Namespace string
	// Run acts as the first container of a pod. ctx ends when the pod is to be stopped early.
	Run func(ctx context.Context, pod *corev1.Pod) error
	// End, if not nil, changes the report about an ended pod.
	End func(pod *corev1.Pod)

	work   sync.WaitGroup
	mu     sync.Mutex
	cancel map[string]context.CancelFunc // by the UID of the pod
	seen   PodsSeen
}

// PodsSeen counts the pods of a Kubelet.
type PodsSeen struct {
	Running     int // pods that run
	Most        int // pods that ran at the same time
	First, Last time.Time
}

// Start runs the kubelet until t ends, and its pods with it.
func (k *Kubelet) Start(t testing.TB) {
	t.Helper()
	k.cancel = map[string]context.CancelFunc{}
	factory := informers.NewSharedInformerFactoryWithOptions(k.Client, 0, informers.WithNamespace(k.Namespace))
	pods := factory.Core().V1().Pods().Informer()
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: k.look, UpdateFunc: func(_, pod any) { k.look(pod) }}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		factory.Shutdown()
		for _, cancel := range k.cancel { // nobody calls look any longer
			cancel()
		}
		k.work.Wait()
	})
	factory.StartWithContext(ctx)
}

// Seen returns what the kubelet has seen so far: the last field is when the last pod was assigned to a node.
func (k *Kubelet) Seen() PodsSeen {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seen
}

func (k *Kubelet) look(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	pod = pod.DeepCopy()
	k.mu.Lock()
	defer k.mu.Unlock()
	cancel := k.cancel[string(pod.UID)]
	switch {
	case cancel != nil && pod.DeletionTimestamp != nil:
		cancel()
	case cancel == nil && (pod.Status.Phase == corev1.PodPending || pod.DeletionTimestamp != nil):
		ctx, cancel := context.WithCancel(context.Background())
		k.cancel[string(pod.UID)] = cancel
		if pod.DeletionTimestamp != nil {
			cancel()
		}
		k.seen.Running++
		k.seen.Most, k.seen.Last = max(k.seen.Most, k.seen.Running), time.Now()
		if k.seen.First.IsZero() {
			k.seen.First = k.seen.Last
		}
		k.work.Go(func() { k.serve(ctx, pod) })
	}
}

// serve runs a pod to its end, reports that, and removes a deleted pod. A pod or a namespace that is already gone needs no report, so
// errors are ignored.
func (k *Kubelet) serve(ctx context.Context, pod *corev1.Pod) {
	err := ctx.Err()
	if err == nil {
		err = k.Run(ctx, pod)
	}
	ended := corev1.ContainerStateTerminated{Reason: "Completed"}
	pod.Status.Phase = corev1.PodSucceeded
	if err != nil {
		pod.Status.Phase, ended = corev1.PodFailed, corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1}
	}
	first := pod.Spec.Containers[0]
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: first.Name, Image: first.Image, ImageID: first.Image, State: corev1.ContainerState{Terminated: &ended}}}
	if k.End != nil {
		k.End(pod)
	}
	k.mu.Lock()
	k.seen.Running--
	k.mu.Unlock()
	pods, background := k.Client.CoreV1().Pods(k.Namespace), context.Background()
	pod.ResourceVersion = ""
	_, _ = pods.UpdateStatus(background, pod, metav1.UpdateOptions{})
	if ctx.Err() != nil {
		now := int64(0)
		_ = pods.Delete(background, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	}
}

// secret waits for a Secret, as a kubelet does: a Job and the Secret of its pods are created in sequence.
func (k *Kubelet) secret(ctx context.Context, name string) (secret *corev1.Secret, err error) {
	waited := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		secret, err = k.Client.CoreV1().Secrets(k.Namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil, nil
	})
	if waited != nil {
		return nil, cmp.Or(err, waited)
	}
	return secret, nil
}

// Environment returns the environment of the first container of a Job's pod: its variables, and those of Secrets.
func (k *Kubelet) Environment(ctx context.Context, pod *corev1.Pod) (map[string]string, error) {
	all := map[string]string{}
	first := pod.Spec.Containers[0]
	for _, from := range first.EnvFrom {
		secret, err := k.secret(ctx, from.SecretRef.Name)
		if err != nil {
			return nil, err
		}
		for name, value := range secret.Data {
			all[name] = string(value)
		}
	}
	for _, e := range first.Env {
		all[e.Name] = e.Value
		if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
			continue
		}
		switch path := e.ValueFrom.FieldRef.FieldPath; path {
		case "metadata.annotations['" + batchv1.JobCompletionIndexAnnotation + "']", "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']":
			all[e.Name] = pod.Annotations[batchv1.JobCompletionIndexAnnotation]
		case "metadata.labels['" + batchv1.ControllerUidLabel + "']":
			all[e.Name] = pod.Labels[batchv1.ControllerUidLabel]
		default:
			return nil, fmt.Errorf("the test's kubelet does not know the field %s", path)
		}
	}
	return all, nil
}

// Command returns a process for the first container of a pod: this program as sealift, with the arguments and the environment of the
// container. The files of its Secrets are in the folder home.
func (k *Kubelet) Command(ctx context.Context, pod *corev1.Pod, home string) (*exec.Cmd, error) {
	environment, err := k.Environment(ctx, pod)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	first := pod.Spec.Containers[0]
	cmd := exec.CommandContext(ctx, self)
	cmd.Dir, cmd.Args = home, append([]string{"sealift"}, first.Args...)
	for _, v := range pod.Spec.Volumes {
		if v.Secret == nil {
			continue
		}
		secret, err := k.secret(ctx, v.Secret.SecretName)
		if err != nil {
			return nil, err
		}
		for name, data := range secret.Data {
			if err := os.WriteFile(filepath.Join(home, name), data, 0o600); err != nil {
				return nil, err
			}
		}
		for _, mount := range first.VolumeMounts {
			for i := range cmd.Args {
				if mount.Name == v.Name {
					cmd.Args[i] = strings.Replace(cmd.Args[i], mount.MountPath, home, 1)
				}
			}
		}
	}
	environment["TMPDIR"], environment["SEALIFT_CACHE"] = home, filepath.Join(home, "cache")
	environment["PATH"], environment["AWS_EC2_METADATA_DISABLED"] = os.Getenv("PATH"), "true"
	for name, value := range environment {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd, nil
}

// MakeNode creates a ready node with room for n pods.
func MakeNode(ctx context.Context, client kubernetes.Interface, name string, labels map[string]string, pods int) error {
	room := corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(int64(pods), resource.DecimalSI),
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("64Gi")}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: corev1.NodeStatus{Capacity: room, Allocatable: room, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	nodes := client.CoreV1().Nodes()
	made, err := nodes.Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Spec.Taints = nil // not-ready, which the admission adds and a controller would remove
	made, err = nodes.Update(ctx, made, metav1.UpdateOptions{})
	if err == nil {
		made.Status = node.Status
		_, err = nodes.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	}
	return err
}
