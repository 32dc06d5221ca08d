package pki

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientset "k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/internal/regularfile"
)

// renewedAnnotation is in the manifest of a static pod since its certificates were renewed. The kubelet starts a pod again when
// its manifest changes.
const renewedAnnotation = "sealift.dev/certificates-renewed"

// podsOf returns the static pods that use files, in the order of their restart: kubeadm's, and others after them.
func podsOf(files []string, manifests map[string]string) []string {
	var pods []string
	for pod, text := range manifests {
		if slices.ContainsFunc(files, func(file string) bool { return mentions(text, file) }) {
			pods = append(pods, pod)
		}
	}
	first := kubeadm.StaticPods()
	rank := func(pod string) int {
		if i := slices.Index(first, pod); i >= 0 {
			return i
		}
		return len(first)
	}
	slices.SortFunc(pods, func(a, b string) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return pods
}

// restart changes the manifest of a static pod so that the kubelet starts it again. edit may change more of it. The manifest is valid
// at every moment.
func (h host) restart(pod, generation string, edit ...func(manifest map[string]any) error) error {
	manifest, err := h.manifest(pod)
	if err != nil {
		return err
	}
	annotations := manifest.GetAnnotations()
	if annotations[renewedAnnotation] == generation {
		return nil
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[renewedAnnotation] = generation
	manifest.SetAnnotations(annotations)
	for _, change := range edit {
		if err := change(manifest.Object); err != nil {
			return fmt.Errorf("%s: %w", manifestOf(pod), err)
		}
	}
	text, err := yaml.Marshal(manifest.Object)
	if err != nil {
		return err
	}
	return files.Replace(h.Path(manifestOf(pod)), text)
}

func manifestOf(pod string) string { return filepath.Join(manifestFolder, pod+".yaml") }

func (h host) manifest(pod string) (*unstructured.Unstructured, error) {
	text, err := regularfile.ReadFile(h.Path(manifestOf(pod)))
	if err != nil {
		return nil, err
	}
	manifest := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &manifest.Object); err != nil {
		return nil, fmt.Errorf("%s: %w", manifestOf(pod), err)
	}
	if manifest.GetName() == "" {
		return nil, fmt.Errorf("%s is not the manifest of a pod: it has no name", manifestOf(pod))
	}
	return manifest, nil
}

// pollPause is the time between two checks of a pod.
const pollPause = time.Second

// waitPod waits until the API shows a static pod of this node that was started for a renewal and is ready.
func (h host) waitPod(ctx context.Context, pod, node, generation string) error {
	manifest, err := h.manifest(pod)
	if err != nil {
		return err
	}
	err = poll.Until(ctx, pollPause, nil, poll.Success(func(ctx context.Context) error {
		client, err := cluster.Client(h.Path(kubeadm.AdminKubeconfig)) // its certificate is new now
		if err == nil {
			err = renewed(ctx, client, manifest, node, generation)
		}
		return err
	}))
	if err != nil {
		return fmt.Errorf("pod %s is not ready with its new certificates: %w; see 'journalctl --unit kubelet' and /var/log/pods", pod, err)
	}
	return nil
}

func renewed(ctx context.Context, client clientset.Interface, manifest *unstructured.Unstructured, node, generation string) error {
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(10*time.Second))
	defer cancel()
	pod, err := client.CoreV1().Pods(cmp.Or(manifest.GetNamespace(), metav1.NamespaceDefault)).Get(ctx, manifest.GetName()+"-"+node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if pod.Annotations[renewedAnnotation] != generation {
		return errors.New("the kubelet has not started it again yet")
	}
	if !cluster.PodReady(*pod) {
		return fmt.Errorf("it is %s and not ready", pod.Status.Phase)
	}
	return nil
}
