package agent

import (
	"context"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/kube"
)

// executorVerbs are the verbs that the executor of a work needs for each of its objects.
var executorVerbs = [...]string{"get", "create", "update", "patch"}

// permit returns an error if a work has an executor without the right to do what the agent is about to do. The agent asks before it
// applies the object, including whether the object may be deleted later, and deletes it then with its own rights.
func (a *agent) permit(ctx context.Context, spec ocm.AgentSpec, m *manifest) error {
	if spec.Executor == nil {
		return nil
	}
	who := spec.Executor.Subject
	if who.Type != ocm.ExecutorServiceAccount || who.ServiceAccount == nil {
		return fmt.Errorf("executor: its subject is %q; only a %s with namespace and name is supported", who.Type, ocm.ExecutorServiceAccount)
	}
	user := executorIdentity(*who.ServiceAccount)
	for _, verb := range executorVerbs {
		if err := a.may(ctx, user, verb, m); err != nil {
			return err
		}
	}
	if !orphaned(spec, m.id) {
		if err := a.may(ctx, user, "delete", m); err != nil {
			return err
		}
	}
	return a.mayGrant(ctx, user, m)
}

// executorIdentity is as whom an API server sees a ServiceAccount.
func executorIdentity(account ocm.ExecutorAccount) rest.ImpersonationConfig {
	return rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + account.Namespace + ":" + account.Name,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace, "system:authenticated"},
	}
}

// may returns an error unless a user has a right over the object of a manifest.
func (a *agent) may(ctx context.Context, user rest.ImpersonationConfig, verb string, m *manifest) error {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.UserName, Groups: user.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: m.id.Group, Version: kube.RefOf(m.object).Version, Resource: m.id.Resource, Namespace: m.id.Namespace, Name: m.id.Name,
		},
	}}
	answer, err := a.reader.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("executor: check whether %s may %s the object: %w", user.UserName, verb, err)
	}
	if !answer.Status.Allowed {
		return fmt.Errorf("executor: %s may not %s %s; give it this right on the cluster, or remove spec.executor", user.UserName, verb, resourceOf(m.id))
	}
	return nil
}

func resourceOf(id ocm.ResourceIdentifier) string {
	name := schema.GroupResource{Group: id.Group, Resource: id.Resource}.String() + " " + id.Name
	if id.Namespace != "" {
		name += " in namespace " + id.Namespace
	}
	return name
}

// mayGrant returns an error if the object grants rights that the user does not have and may not grant. No review answers that: the
// agent makes a dry run as the user.
func (a *agent) mayGrant(ctx context.Context, user rest.ImpersonationConfig, m *manifest) error {
	if m.id.Group != rbacv1.GroupName {
		return nil
	}
	cfg := rest.CopyConfig(a.Local)
	cfg.Impersonate = user
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	resource := schema.GroupVersionResource{Group: m.id.Group, Version: kube.RefOf(m.object).Version, Resource: m.id.Resource}
	_, err = client.Resource(resource).Namespace(m.id.Namespace).Create(ctx, m.object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case apierrors.IsAlreadyExists(err): // the API server checks the rights first
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("executor: %s may not grant what %s grants: %w", user.UserName, resourceOf(m.id), err)
	}
	return err
}

// orphaned reports whether an object stays when its work is deleted.
func orphaned(spec ocm.AgentSpec, id ocm.ResourceIdentifier) bool {
	o := spec.DeleteOption
	if o == nil {
		return false
	}
	return o.PropagationPolicy == ocm.DeleteOrphan ||
		o.PropagationPolicy == ocm.DeleteSelectivelyOrphan && o.SelectivelyOrphan != nil && slices.Contains(o.SelectivelyOrphan.OrphaningRules, id)
}
