package batch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/batch"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/store"
)

// shared is the control plane of all tests of this package: a real API server, scheduler and Job controller.
var shared = controlplane.Shared{Options: controlplane.Options{Jobs: true}}

func TestMain(m *testing.M) {
	if os.Getenv(coordinatorAPI) != "" {
		os.Exit(coordinate())
	}
	shared.Main(m)
}

// site is a namespace of the shared cluster with nodes of its own, and the kubelet of these nodes.
type site struct {
	*testing.T
	config    *rest.Config
	client    *kubernetes.Clientset
	namespace string
	location  string // of the store
	store     store.Store
	kubelet   *controlplane.Kubelet
	// do is the work. It is called with the number of the attempt. Nil squares the input.
	do func(ctx context.Context, input json.RawMessage, try int) (any, error)

	mu    sync.Mutex
	tries map[string]int // by input
}

// newSite creates a namespace with the given number of nodes, each with room for the given number of pods.
func newSite(t *testing.T, location string, nodes, pods int) *site {
	t.Helper()
	s := &site{T: t, config: shared.Config(t), location: location}
	var err error
	if s.client, err = kubernetes.NewForConfig(s.config); err != nil {
		t.Fatal(err)
	}
	if s.store, err = (store.Opener{Write: true}).Open(location); err != nil {
		t.Fatal(err)
	}
	made, err := s.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "batch-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.namespace = made.Name
	for i := range nodes {
		if err := controlplane.MakeNode(t.Context(), s.client, fmt.Sprintf("%s-%d", s.namespace, i), map[string]string{"site": s.namespace}, pods); err != nil {
			t.Fatal(err)
		}
	}
	s.tries = map[string]int{}
	s.kubelet = &controlplane.Kubelet{Client: s.client, Namespace: s.namespace, Run: s.serve}
	s.kubelet.Start(t)
	return s
}

func (s *site) options() batch.Options { return optionsFor(s.namespace) }

// optionsFor are a batch whose pods go to the nodes of a site.
func optionsFor(namespace string) batch.Options {
	return batch.Options{Name: "test", Namespace: namespace, Pod: corev1.PodSpec{
		NodeSelector: map[string]string{"site": namespace}, Containers: []corev1.Container{{Name: "work", Image: "example.org/work:1"}},
	}}
}

func (s *site) cluster() *kube.Cluster {
	s.Helper()
	c, err := kube.Connect(s.config, nil)
	if err != nil {
		s.Fatal(err)
	}
	return c
}

func (s *site) run(inputs []json.RawMessage, o batch.Options) []batch.Outcome {
	s.Helper()
	outcomes, err := batch.Run(s.Context(), s.cluster(), s.store, inputs, o)
	if err != nil {
		s.Fatal(err)
	}
	s.leavesNothing()
	return outcomes
}

// leavesNothing checks that the Job was removed.
func (s *site) leavesNothing() {
	s.Helper()
	jobs, err := s.client.BatchV1().Jobs(s.namespace).List(context.WithoutCancel(s.Context()), metav1.ListOptions{})
	if err != nil || len(jobs.Items) > 0 {
		s.Errorf("%d Jobs are left: %v", len(jobs.Items), err)
	}
}

// removes deletes a Job, and waits until it is gone.
func (s *site) removes(job *batchv1.Job) {
	s.Helper()
	jobs := s.client.BatchV1().Jobs(s.namespace)
	policy := metav1.DeletePropagationBackground
	err := jobs.Delete(s.Context(), job.Name, metav1.DeleteOptions{PropagationPolicy: &policy})
	for err == nil { // until the pods let it go
		if _, err = jobs.Get(s.Context(), job.Name, metav1.GetOptions{}); err == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
	if !apierrors.IsNotFound(err) {
		s.Error(err)
	}
}

// theJob returns the only Job of the site, when there is one.
func (s *site) theJob() *batchv1.Job {
	s.Helper()
	for {
		jobs, err := s.client.BatchV1().Jobs(s.namespace).List(s.Context(), metav1.ListOptions{})
		if err != nil {
			s.Fatal(err)
		}
		if len(jobs.Items) == 1 {
			return &jobs.Items[0]
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// numbers are n inputs.
func numbers(n int) (inputs []json.RawMessage) {
	for i := range n {
		inputs = append(inputs, json.RawMessage(fmt.Sprintf(`{"number": %d}`, i)))
	}
	return inputs
}

// square is the work of these tests.
func square(input json.RawMessage) (any, error) {
	var in struct{ Number int }
	err := json.Unmarshal(input, &in)
	return in.Number * in.Number, err
}

// serve acts as the program of a pod.
func (s *site) serve(ctx context.Context, pod *corev1.Pod) error {
	environment, err := s.kubelet.Environment(ctx, pod)
	if err != nil {
		return err
	}
	return batch.Serve(ctx, s.store, func(name string) string { return environment[name] }, func(ctx context.Context, input json.RawMessage) (any, error) {
		s.mu.Lock()
		s.tries[string(input)]++
		try := s.tries[string(input)]
		s.mu.Unlock()
		if s.do == nil {
			return square(input)
		}
		return s.do(ctx, input, try)
	})
}

// ran returns how often pieces ran, and those that ran more than once.
func (s *site) ran() (tries int, again []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for input, n := range s.tries {
		tries += n
		if n > 1 {
			again = append(again, input)
		}
	}
	slices.Sort(again)
	return tries, again
}
