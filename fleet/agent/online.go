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
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/fleet/content"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/fleet/template"
)

// Content says where the images of works are, and who brings them to the nodes, before a work is applied. All fields are required.
type Content struct {
	// Store has the packages that carry images. Images that none carries are left to the nodes.
	Store *packages.Source
	// Folder keeps the images of the works that the cluster has.
	Folder string
	Images Images
}

// courier brings the images of works to the nodes, of one work at a time.
type courier struct {
	one sync.Mutex
	mu  sync.Mutex
	// brought says for which work, in which form, on which nodes that was done.
	brought map[string]string
}

func (c *courier) has(work, state string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.brought[work] == state
}

func (c *courier) done(work, state string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.brought[work] = state
}

// bring brings the images of a work to the nodes. Those that are there are not fetched.
func (a *agent) bring(ctx context.Context, work *ocm.ManifestWork) error {
	images := imagesOf(work.Spec)
	if a.Content == nil || len(images) == 0 {
		return nil
	}
	nodes, err := a.readyNodes(ctx)
	if err != nil {
		return err
	}
	state := fmt.Sprint(work.UID, work.Generation, images, nodes)
	if a.courier.has(work.Name, state) {
		return nil
	}
	a.courier.one.Lock()
	defer a.courier.one.Unlock()
	if err := a.Content.deliver(ctx, images); err != nil {
		return err
	}
	a.courier.done(work.Name, state)
	return a.dropUnused(ctx)
}

// deliver fetches the packages that carry images, and brings these to the nodes.
func (c *Content) deliver(ctx context.Context, images []string) (err error) {
	found, _, err := content.Find(ctx, c.Store, images)
	defer func() { err = errors.Join(err, content.Close(found)) }()
	if err == nil && len(found) > 0 {
		err = c.Images.Check(ctx)
	}
	if err != nil {
		return err
	}
	for _, p := range found {
		folder := filepath.Join(c.Folder, p.Digest)
		err := content.Fetch(ctx, p.Archive, folder)
		if err == nil {
			err = c.Images.Bring(ctx, folder)
		}
		if err != nil {
			return fmt.Errorf("package %s %s: %w", p.Name, p.Version, err)
		}
	}
	return nil
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

// readyNodes names the nodes that are Ready. A node that is new, or was away, may lack images.
func (a *agent) readyNodes(ctx context.Context) (names []string, err error) {
	list, err := a.reader.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("list the nodes that need images: %w", err)
	}
	for _, n := range list.Items {
		if slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// dropUnused removes packages whose images no work of the cluster names. What was not fetched whole stays: it is gone on with.
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
	folders, err := os.ReadDir(a.Content.Folder)
	if errors.Is(err, fs.ErrNotExist) { // nothing was fetched yet
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range folders {
		folder := filepath.Join(a.Content.Folder, f.Name())
		archive, err := bundle.Open(folder)
		if err != nil {
			continue
		}
		names := content.NamesOf(archive)
		if err := archive.Close(); err != nil {
			return err
		}
		if !slices.ContainsFunc(names, func(name string) bool { return used[name] }) {
			if err := os.RemoveAll(folder); err != nil {
				return err
			}
		}
	}
	return nil
}

// withoutImages reports that a work is not applied, because its images are not on the nodes.
func (a *agent) withoutImages(ctx context.Context, work *ocm.ManifestWork, err error) error {
	after, ok := work.DeepCopyObject().(*ocm.ManifestWork)
	if !ok {
		return errors.New("the copy of a work is none")
	}
	message := "The work is not applied, because its images are not on the nodes: " + strings.TrimSpace(err.Error())
	meta.SetStatusCondition(&after.Status.Conditions, metav1.Condition{
		Type: "Applied", Status: metav1.ConditionFalse, Reason: "ImagesMissing", Message: message[:min(len(message), 32000)], ObservedGeneration: work.Generation,
	})
	return errors.Join(err, client.IgnoreNotFound(a.patchStatus(ctx, work, after)))
}
