package oidc

import (
	"context"
	"fmt"
	"reflect"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/spec"
)

// Binding is a ClusterRole of Kubernetes for groups of people.
type Binding struct {
	Word   string // of the Installer: admins
	Role   string
	Groups []string
}

// Name is that of the ClusterRoleBinding.
func (b Binding) Name() string { return "sealift:oidc:" + b.Word }

// Bindings are those of a login; nil has them without groups.
func Bindings(o *spec.OIDC) []Binding {
	if o == nil {
		o = &spec.OIDC{}
	}
	return []Binding{{"admins", "cluster-admin", o.Admins}, {"operators", "edit", o.Operators}, {"viewers", "view", o.Viewers}}
}

// bind makes, changes and deletes the bindings.
func bind(ctx context.Context, client kubernetes.Interface, o *spec.OIDC) error {
	for _, b := range Bindings(o) {
		if err := b.apply(ctx, client); err != nil {
			return fmt.Errorf("ClusterRoleBinding %s: %w", b.Name(), err)
		}
	}
	return nil
}

func (b Binding) apply(ctx context.Context, client kubernetes.Interface) error {
	bindings := client.RbacV1().ClusterRoleBindings()
	if len(b.Groups) == 0 {
		err := bindings.Delete(ctx, b.Name(), metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	want := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: b.Name()}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: b.Role}}
	for _, group := range b.Groups {
		want.Subjects = append(want.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group})
	}
	now, err := bindings.Get(ctx, b.Name(), metav1.GetOptions{})
	if err == nil && now.RoleRef != want.RoleRef { // it cannot be changed
		err = bindings.Delete(ctx, b.Name(), metav1.DeleteOptions{})
		if err == nil {
			err = apierrors.NewNotFound(rbacv1.Resource("clusterrolebindings"), b.Name())
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		_, err = bindings.Create(ctx, want, metav1.CreateOptions{})
	case err == nil && !reflect.DeepEqual(now.Subjects, want.Subjects):
		now.Subjects = want.Subjects
		_, err = bindings.Update(ctx, now, metav1.UpdateOptions{})
	}
	return err
}
