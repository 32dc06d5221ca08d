package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/parcel"
	"github.com/sealift/sealift/fleet/seal"
	"github.com/sealift/sealift/internal/atomicfile"
)

// reportOnly reports on earlier applied works: those of the parcel that the content belongs to.
func (w *carrier) reportOnly(ctx context.Context, plan bool) (out Applied, err error) {
	current, err := currentContent(w.Content)
	if err != nil {
		return out, err
	}
	if current == nil {
		return out, fmt.Errorf("no parcel was applied with the content folder %s; name a parcel", w.Content)
	}
	defer func() { err = errors.Join(err, current.Close()) }()
	var works []*ocm.ManifestWork
	p, err := parcel.ReadUnpacked(current)
	if err != nil {
		return out, err
	}
	for _, one := range p.Works {
		if one.Deleted {
			continue
		}
		work, key, err := w.origin(one)
		if err != nil {
			return out, err
		}
		w.key = key
		works = append(works, work)
	}
	if _, err := w.recall(ctx); err != nil {
		return out, err
	}
	if w.last.Sequence > 0 && !w.last.Done {
		return out, fmt.Errorf("parcel %d was begun and is not complete; apply it again, or a later one", w.last.Sequence)
	}
	for _, work := range works {
		manifests := w.read(ctx, work)
		was, err := w.recalled(ctx, work)
		if err != nil {
			return out, err
		}
		w.freeze(ctx, was.Complete, manifests)
		if err := w.recorded(ctx, work, manifests); err != nil {
			return out, err
		}
		if !w.checkStatus(ctx, work, manifests) {
			out.Waiting = append(out.Waiting, work.Name)
		}
	}
	late, err := w.recordReleases(ctx, current, p)
	if err != nil {
		return out, err
	}
	out.Waiting = append(out.Waiting, late...)
	out.Works, out.Releases = namesOf(works), releaseNames(p)
	if plan {
		return out, nil
	}
	if err := w.remember(ctx, func(_ seal.Memory, last *parcel.Last) { last.Report++ }); err != nil {
		return out, err
	}
	out.Report, err = w.report(ctx, works)
	return out, err
}

// recorded sets an error on manifests whose objects could not be applied: the record of their work lacks them.
func (w *carrier) recorded(ctx context.Context, work *ocm.ManifestWork, manifests []manifest) error {
	record, err := w.appliedWorks().Get(ctx, w.hubHash+"-"+work.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) { // the hub had another address then
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the record of work %s: %w", work.Name, err)
	}
	resources, _, err := unstructured.NestedSlice(record.Object, "status", "appliedResources")
	if err != nil {
		return fmt.Errorf("read the record of work %s: %w", work.Name, err)
	}
	applied := make(map[ocm.ResourceIdentifier]bool)
	for _, r := range resources {
		fields, _ := r.(map[string]any)
		text := func(name string) string { s, _ := fields[name].(string); return s }
		applied[ocm.ResourceIdentifier{Group: text("group"), Resource: text("resource"), Namespace: text("namespace"), Name: text("name")}] = true
	}
	for i := range manifests {
		if m := &manifests[i]; m.err == nil && !applied[m.id] {
			m.err = errors.New("the last parcel failed to apply it; see the report of that parcel, and pack another one")
		}
	}
	return nil
}

// report writes the report.
func (w *carrier) report(ctx context.Context, works []*ocm.ManifestWork) (file string, err error) {
	memory, err := w.recall(ctx)
	if err != nil {
		return "", err
	}
	r := parcel.Report{
		Cluster: w.Carried.Cluster, Number: w.last.Report, Time: time.Now().UTC().Truncate(time.Second), Parcel: w.last.Sequence,
		Highest: max(memory.Highest().Sequence, w.last.Sequence), Gone: w.gone, Works: []parcel.WorkReport{},
		Releases: w.releases,
	}
	if r.Version, err = w.local.Version(ctx); err != nil {
		return "", err
	}
	if r.Claims, err = w.claims(ctx, r.Version); err != nil {
		return "", err
	}
	if r.Capacity, r.Allocatable, err = w.resources(ctx); err != nil {
		return "", err
	}
	for _, work := range works {
		r.Works = append(r.Works, parcel.WorkReport{Name: work.Name, Seal: memory[work.Name], Status: w.status[work.Name]})
	}
	current, err := currentContent(w.Content)
	if err != nil {
		return "", err
	}
	if current != nil {
		index, _ := current.Raw()
		r.Content = string(index)
		if err := current.Close(); err != nil {
			return "", err
		}
	}
	text, err := r.Write(w.Key)
	if err != nil {
		return "", err
	}
	if err := atomicfile.WriteMode(w.Report, 0o644, text); err != nil {
		return "", fmt.Errorf("write the report: %w", err)
	}
	return w.Report, nil
}
