package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/kube"
)

// guardName is the name of the policy and of its binding.
const guardName = "sealift-second-apiserver"

// guardTime is how long the API server may take until it follows a new policy. It needs about a second.
const guardTime = 15 * time.Second

// guard has the API refuse to remove the last address from the Service kubernetes, until release is called. An API server that ends
// does that, and kube-proxy would refuse connections for a second or more, although another server listens at the same address. The
// server gives up when its change of the Endpoints is refused, and leaves the EndpointSlice unchanged.
func guard(ctx context.Context, client kubernetes.Interface) error {
	if _, err := client.CoreV1().Endpoints(metav1.NamespaceDefault).Get(ctx, serviceName, metav1.GetOptions{}); err != nil {
		return fmt.Errorf("no policy keeps the addresses of the Service %s: %w", serviceName, err)
	}
	fail, deny := admissionv1.Fail, []admissionv1.ValidationAction{admissionv1.Deny}
	named := metav1.ObjectMeta{Name: guardName, Labels: map[string]string{"app.kubernetes.io/managed-by": "sealift"}}
	api := client.AdmissionregistrationV1()
	_, err := api.ValidatingAdmissionPolicies().Create(ctx, &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: named, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: &fail,
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
			ResourceNames: []string{serviceName}, RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"endpoints"}},
			}}}},
		MatchConditions: []admissionv1.MatchCondition{{Name: "default", Expression: "request.namespace == '" + metav1.NamespaceDefault + "'"}},
		Validations:     []admissionv1.Validation{{Expression: "has(object.subsets) && size(object.subsets) > 0", Message: "another API server listens at this address"}},
	}}, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) { // of a run that was killed
		_, err = api.ValidatingAdmissionPolicyBindings().Create(ctx, &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: named,
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: guardName, ValidationActions: deny}}, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("a policy for the Service %s: %w", serviceName, err)
	}
	return guarded(ctx, client)
}

// guarded waits until the API server follows the policy.
func guarded(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, guardTime)
	defer cancel()
	all := client.CoreV1().Endpoints(metav1.NamespaceDefault)
	err := kube.Poll(ctx, pause, func(ctx context.Context) error {
		now, err := all.Get(ctx, serviceName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Subsets = nil
		_, err = all.Update(ctx, now, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
			return nil
		case err == nil:
			err = kube.NotYet(errors.New("it allows a change"))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("the API server does not follow the policy for the Service %s: %w", serviceName, err)
	}
	return nil
}

// release removes the policy. It may be called without one.
func release(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, guardTime)
	defer cancel()
	api := client.AdmissionregistrationV1()
	err := kube.Poll(ctx, pause, func(ctx context.Context) error {
		return cmp.Or(gone(api.ValidatingAdmissionPolicyBindings().Delete(ctx, guardName, metav1.DeleteOptions{})),
			gone(api.ValidatingAdmissionPolicies().Delete(ctx, guardName, metav1.DeleteOptions{})))
	})
	if err != nil {
		return fmt.Errorf("remove the policy %s: %w", guardName, err)
	}
	return nil
}

func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
