package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/fleet/content"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/seal"
	"github.com/sealift/sealift/fleet/template"
)

// Content says where the images of works are, and who delivers them to the nodes, before a work is applied. Store, Folder and Images
// are required.
type Content struct {
	// Store has the packages that carry images. Images that none carries are left to the nodes.
	Store *packages.Source
	// Folder keeps the images of the works that the cluster has.
	Folder string
	Images Images
	// Timeout bounds one try to fetch the images of a work and to bring them to the nodes. The next try resumes with the fetched
	// content. Default DefaultImageTimeout.
	Timeout time.Duration
}

// errDelivering means that images are being delivered.
var errDelivering = errors.New("they are being delivered")

// checksPerRetry is how often an agent checks its works before it tries again to deliver images.
const checksPerRetry = 6

// bring returns nil if the images of a work are on the nodes, or need not be. Otherwise they are delivered soon, and the error reports
// the progress.
func (a *agent) bring(ctx context.Context, work *ocm.ManifestWork) error {
	images := imagesOf(work.Spec)
	if a.Content == nil || len(images) == 0 {
		a.delivery.forget(work.Name)
		return nil
	}
	nodes, err := a.readyNodes(ctx)
	if err != nil {
		return err
	}
	return a.delivery.want(work.Name, fmt.Sprint(work.UID, work.Generation, images), images, nodes, checksPerRetry*a.Look, a.Repair)
}

// deliveries brings the images that are wanted, until ctx ends.
func (a *agent) deliveries(ctx context.Context) error {
	for {
		e, any := a.delivery.next()
		if !any {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-a.delivery.wake:
			}
			continue
		}
		var done *delivered
		err := within(ctx, a.Content.Timeout, func(ctx context.Context) (err error) {
			done, err = a.deliver(ctx, e)
			return err
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		a.delivery.finish(e, done, err)
		if err == nil {
			err = a.dropUnused(ctx)
		}
		if err != nil {
			a.Log.WarnContext(ctx, "the images of a work were not brought to the nodes", "work", e.work, "error", err)
		}
	}
}

// deliver fetches the packages that carry the images of a work, and brings these to the nodes. What was fetched before, it only brings.
func (a *agent) deliver(ctx context.Context, e delivery) (done *delivered, err error) {
	before, err := a.readyNodes(ctx)
	if err != nil {
		return nil, err
	}
	if done, err = a.fetch(ctx, e); err != nil || done.reached != nil && done.reaches(before) {
		return done, err
	}
	now := maps.Clone(before)
	for _, folder := range done.folders {
		nodes, err := a.Content.Images.Bring(ctx, folder)
		if err != nil {
			return nil, err
		}
		// a node that was away at that moment got nothing, and a new one may lack the packages before
		maps.DeleteFunc(now, func(_ types.UID, name string) bool { return !slices.Contains(nodes, name) })
	}
	reached := make(map[types.UID]bool)
	maps.Copy(reached, done.reached)
	for uid := range now {
		reached[uid] = true
	}
	done.reached = reached
	return done, nil
}

// fetch fetches the packages that carry the images of a work, unless they are here.
func (a *agent) fetch(ctx context.Context, e delivery) (done *delivered, err error) {
	c := a.Content
	here := e.done != nil && !slices.ContainsFunc(e.done.folders, isGone)
	if here && len(e.done.missing) == 0 {
		return new(*e.done), nil
	}
	list, err := c.Store.List(ctx)
	if err != nil {
		err = fmt.Errorf("list the packages of the store: %w", err)
	}
	if here && err != nil {
		a.Log.WarnContext(ctx, "nobody knows whether more images of a work can be brought", "work", e.work, "error", err)
		return new(*e.done), nil
	}
	if err != nil {
		return nil, err
	}
	if here && slices.Equal(e.done.listed, list.Packages) {
		return new(*e.done), nil
	}
	found, err := content.Find(ctx, c.Store, list.Packages, e.images)
	defer func() { err = errors.Join(err, found.Close()) }()
	for _, unusable := range found.Unusable {
		a.Log.WarnContext(ctx, "a package of the store cannot be used", "error", unusable)
	}
	if err == nil {
		err = found.Err()
	}
	if err == nil && len(found.Packages) > 0 {
		err = c.Images.Check(ctx)
	}
	if err != nil {
		return nil, err
	}
	done = &delivered{missing: found.Missing, listed: list.Packages}
	for _, p := range found.Packages {
		folder := filepath.Join(c.Folder, p.Digest)
		if err := content.Fetch(ctx, p.Archive, folder); err != nil {
			return nil, fmt.Errorf("package %s %s: %w", p.Name, p.Version, err)
		}
		done.folders = append(done.folders, folder)
	}
	if here && slices.Equal(done.folders, e.done.folders) {
		done.reached = e.done.reached
	}
	return done, nil
}

// isGone reports whether a folder no longer has all of a package.
func isGone(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, bundle.IndexName))
	return err != nil
}

func imagesOf(spec ocm.AgentSpec) []string {
	all := make(map[string]bool)
	for _, m := range spec.Workload.Manifests {
		for _, image := range template.Images(m) {
			all[image] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// readyNodes returns the names of the nodes that are Ready.
func (a *agent) readyNodes(ctx context.Context) (map[types.UID]string, error) {
	list, err := a.reader.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the nodes that need images: %w", err)
	}
	ready := make(map[types.UID]string)
	for _, n := range list.Items {
		if slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			ready[n.UID] = n.Name
		}
	}
	return ready, nil
}

// dropUnused removes packages whose images no work of the cluster names. A partial download is kept and resumed.
func (a *agent) dropUnused(ctx context.Context) error {
	var works ocm.List[ocm.ManifestWork]
	if err := a.hub.List(ctx, &works, client.InNamespace(a.Cluster)); err != nil {
		return fmt.Errorf("read the works of the cluster: %w", err)
	}
	used := make(map[string]bool)
	for i := range works.Items {
		for _, image := range imagesOf(works.Items[i].Spec) {
			used[image] = true
		}
	}
	a.delivery.keepOnly(used)
	folders, err := os.ReadDir(a.Content.Folder)
	if errors.Is(err, fs.ErrNotExist) { // nothing was fetched yet
		return nil
	}
	for _, f := range folders {
		folder := filepath.Join(a.Content.Folder, f.Name())
		archive, openErr := bundle.Open(folder)
		if openErr != nil {
			continue
		}
		names := content.NamesOf(archive)
		err = errors.Join(err, archive.Close())
		maps.DeleteFunc(names, func(name, _ string) bool { return !used[name] })
		if len(names) == 0 {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}
	return err
}

// started reports whether the content of a work, in its current form, was applied before: then its images were on the nodes.
func started(work *ocm.ManifestWork, known *appliedWork) bool {
	if known != nil && known.generation == work.Generation && known.seal == work.Annotations[seal.Annotation] {
		return true
	}
	applied := meta.FindStatusCondition(work.Status.Conditions, "Applied")
	return applied != nil && applied.ObservedGeneration == work.Generation && (applied.Reason == appliedComplete || applied.Reason == appliedFailed)
}

// withoutImages reports that a work is not applied, because its images are not on the nodes.
func (a *agent) withoutImages(ctx context.Context, work *ocm.ManifestWork, why error) error {
	after, ok := work.DeepCopyObject().(*ocm.ManifestWork)
	if !ok {
		return errors.New("the deep copy of a work has another type")
	}
	message := "The work is not applied, because its images are not on the nodes: " + strings.TrimSpace(why.Error())
	meta.SetStatusCondition(&after.Status.Conditions, metav1.Condition{
		Type: "Applied", Status: metav1.ConditionFalse, Reason: "ImagesMissing", Message: message[:min(len(message), 32000)], ObservedGeneration: work.Generation,
	})
	return client.IgnoreNotFound(a.patchStatus(ctx, work, after))
}
