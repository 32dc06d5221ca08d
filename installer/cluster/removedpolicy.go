package cluster

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// stayRemoved refuses the kubelet of a removed node that makes its node again. The record is the parameter of the policy.
const stayRemoved = `!request.userInfo.username.startsWith('system:node:') || !has(params.data) || !(object.metadata.name in params.data) ||
params.data[object.metadata.name].contains('"joined"')`

// guardRemoved makes the policy by which the API server reads the record. API servers before 1.30 have no such policies.
func guardRemoved(ctx context.Context, client kubernetes.Interface) error {
	fail, allow := admissionv1.Fail, admissionv1.AllowAction
	name := metav1.ObjectMeta{Name: RemovedConfig}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: name, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: &fail, ParamKind: &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes"}},
		}}}},
		Validations: []admissionv1.Validation{{Expression: stayRemoved, Message: "this node was removed from the cluster; run 'sealift reset' on its host, and join again with a new token"}},
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: name, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: RemovedConfig, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		ParamRef: &admissionv1.ParamRef{Name: RemovedConfig, Namespace: metav1.NamespaceSystem, ParameterNotFoundAction: &allow},
	}}
	_, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsAlreadyExists(err):
		err = nil
	}
	if err == nil {
		_, err = client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("the policy that keeps removed nodes away: %w", err)
	}
	return nil
}
