package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/parcel"
	"github.com/sealift/sealift/fleet/seal"
	"github.com/sealift/sealift/internal/atomicfile"
)

// lookOnly reports on what was applied before: the works of the parcel that the content is of.
func (w *carrier) lookOnly(ctx context.Context, plan bool) (out Applied, err error) {
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
	for _, work := range works {
		if !w.lookAt(ctx, work, w.read(ctx, work)) {
			out.Waiting = append(out.Waiting, work.Name)
		}
	}
	out.Works = namesOf(works)
	if plan {
		return out, nil
	}
	if err := w.remember(ctx, func(_ seal.Memory, last *parcel.Last) { last.Report++ }); err != nil {
		return out, err
	}
	out.Report, err = w.report(ctx, works)
	return out, err
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
