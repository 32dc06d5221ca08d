package view

import (
	"context"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Limited returns a reader for users with few rights: those who read the resources of the fleet often may not read Leases, or the hub's
// own namespace. What they add is missing then. note is called once for each of them.
func Limited(r client.Reader, note func(what string, err error)) client.Reader {
	return &limited{Reader: r, note: note, noted: make(map[string]bool)}
}

type limited struct {
	client.Reader
	note func(what string, err error)

	mu    sync.Mutex
	noted map[string]bool
}

func (l *limited) noteOnce(what string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.noted[what] {
		l.noted[what] = true
		l.note(what, err)
	}
}

// Get implements client.Reader. A Lease that must not be read was renewed at the zero time, and a ConfigMap does not exist.
func (l *limited) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	err := l.Reader.Get(ctx, key, o, options...)
	if !apierrors.IsForbidden(err) {
		return err
	}
	switch o := o.(type) {
	case *coordinationv1.Lease:
		l.noteOnce("when clusters were last in contact", err)
		o.Spec.RenewTime = &metav1.MicroTime{}
		return nil
	case *corev1.ConfigMap:
		l.noteOnce("what the hub remembers of rollouts", err)
		return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
	}
	return err
}
