package agent

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/kube"
)

func (a *agent) appliedWorks() dynamic.ResourceInterface {
	return a.local.Dynamic().Resource(ocm.WorkVersion.WithResource("appliedmanifestworks"))
}

// recalled reads where the objects of a work were. Older agents kept no places.
func (a *agent) recalled(ctx context.Context, work *ocm.ManifestWork) (was places, err error) {
	record, err := a.appliedWorks().Get(ctx, a.hubHash+"-"+work.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return was, nil
	}
	if err == nil && record.GetAnnotations()[placesAnnotation] != "" {
		err = json.Unmarshal([]byte(record.GetAnnotations()[placesAnnotation]), &was)
	}
	if err != nil {
		return was, fmt.Errorf("read the record of work %s: %w", work.Name, err)
	}
	return was, nil
}

// record writes the AppliedManifestWork of a work: which of its objects exist on the cluster, and where they are.
func (a *agent) record(ctx context.Context, work *ocm.ManifestWork, manifests []manifest, now places) error {
	resources := []any{} // the API refuses a list that is null
	for _, m := range manifests {
		if m.err != nil {
			continue
		}
		ref := kube.RefOf(m.object)
		r := map[string]any{"group": ref.Group, "version": ref.Version, "resource": m.id.Resource, "name": ref.Name}
		if ref.Namespace != "" {
			r["namespace"] = ref.Namespace
		}
		resources = append(resources, r)
	}
	if err := a.recordPlaces(ctx, work, now); err != nil {
		return err
	}
	status := a.unwritten(work)
	status.Object["status"] = map[string]any{"appliedResources": resources}
	if _, err := a.appliedWorks().ApplyStatus(ctx, status.GetName(), status, metav1.ApplyOptions{FieldManager: ocm.DefaultFieldManager, Force: true}); err != nil {
		return fmt.Errorf("record the objects of work %s: %w", work.Name, err)
	}
	return nil
}

// unwritten is the record of a work without its content.
func (a *agent) unwritten(work *ocm.ManifestWork) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ocm.WorkVersion.String(), "kind": "AppliedManifestWork", "metadata": map[string]any{"name": a.hubHash + "-" + work.Name},
	}}
}

// recordPlaces writes the record of a work except its status.
func (a *agent) recordPlaces(ctx context.Context, work *ocm.ManifestWork, p places) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	record := a.unwritten(work)
	record.SetAnnotations(map[string]string{placesAnnotation: string(text)})
	record.Object["spec"] = map[string]any{"hubHash": a.hubHash, "manifestWorkName": work.Name, "agentID": a.Cluster}
	if _, err := a.appliedWorks().Apply(ctx, record.GetName(), record, metav1.ApplyOptions{FieldManager: ocm.DefaultFieldManager, Force: true}); err != nil {
		return fmt.Errorf("record the objects of work %s: %w", work.Name, err)
	}
	return nil
}

// forget deletes the AppliedManifestWork.
func (a *agent) forget(ctx context.Context, work *ocm.ManifestWork) error {
	err := a.appliedWorks().Delete(ctx, a.hubHash+"-"+work.Name, metav1.DeleteOptions{})
	return client.IgnoreNotFound(err)
}
