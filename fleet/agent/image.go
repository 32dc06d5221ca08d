package agent

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/store/release"
)

// Images brings images to where the nodes of a cluster find them.
type Images interface {
	// Check reports whether it can, before anything changes.
	Check(ctx context.Context) error
	// Bring brings the images of a bundle that is unpacked in a folder to all nodes that are Ready, and names these nodes. It leaves
	// existing files alone.
	Bring(ctx context.Context, folder string) (nodes []string, err error)
}

// DefaultImageTimeout is long enough for large images on a slow line. A node that does not answer at all is given up sooner.
const DefaultImageTimeout = 4 * time.Hour

// imagesOf returns what brings the images of a parcel to the nodes, or nil if there are none to bring.
func (c Carried) imagesOf(ctx context.Context, a *bundle.Archive) (Images, error) {
	if c.Images == nil || !slices.ContainsFunc(a.Index.Packages, func(p bundle.PackageInfo) bool { return len(p.Images) > 0 }) {
		return nil, nil
	}
	return c.Images, c.Images.Check(ctx)
}

// keep keeps the content of a parcel, and brings its images to the nodes.
func (c Carried) keep(ctx context.Context, a *bundle.Archive, images Images) error {
	if err := keepContent(ctx, a, c.Content); err != nil {
		return fmt.Errorf("store the content of the parcel in %s: %w", c.Content, err)
	}
	if images == nil {
		return nil
	}
	if err := within(ctx, DefaultImageTimeout, func(ctx context.Context) error {
		_, err := images.Bring(ctx, filepath.Join(c.Content, currentName))
		return err
	}); err != nil {
		return fmt.Errorf("deliver the images of the parcel to the nodes: %w; run the same command again", err)
	}
	return nil
}

// within bounds the time of work. If that ended it, the error says so.
func within(ctx context.Context, timeout time.Duration, work func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := work(bounded)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		return fmt.Errorf("not done after %s: %w", timeout, err)
	}
	return err
}

// imageDelivery remembers which images are on which nodes, and whose images are brought next: of one work after the other, in the order in
// which they asked. Nobody waits for it.
type imageDelivery struct {
	mu         sync.Mutex
	deliveries map[string]*delivery          // by the name of the work
	queue      []string                      // names of works
	on         map[string]map[types.UID]bool // the nodes that have an image
	wake       chan struct{}                 // has room for one
}

// delivery delivers the images of one work, in its current form.
type delivery struct {
	work, state string // state distinguishes one form of the work from another
	images      []string
	tried       time.Time
	err         error      // of the last try
	done        *delivered // nil until all images were brought for the first time
}

// delivered is the result of a delivery.
type delivered struct {
	folders []string // of the packages
	reached map[types.UID]bool
	// missing are images that none of the packages listed carried then.
	missing []string
	listed  []release.Package
}

// reaches reports whether all of these nodes have everything to be delivered.
func (d *delivered) reaches(nodes map[types.UID]string) bool {
	return d != nil && (len(d.folders) == 0 || onAll(d.reached, nodes))
}

func onAll(reached map[types.UID]bool, nodes map[types.UID]string) bool {
	for uid := range nodes {
		if !reached[uid] {
			return false
		}
	}
	return true
}

func newImageDelivery() imageDelivery {
	return imageDelivery{deliveries: make(map[string]*delivery), on: make(map[string]map[types.UID]bool), wake: make(chan struct{}, 1)}
}

// want returns nil if the nodes have the images of a work, as far as packages carry them. If not, they are delivered in turn, and
// the error reports the progress. A try that failed is followed by a pause. For images that no package carried, the store is looked
// at again now and then; and once for each change of a work, because a tag may have moved.
func (c *imageDelivery) want(work, state string, images []string, nodes map[types.UID]string, pause, again time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.deliveries[work]
	if e == nil || e.state != state {
		e = &delivery{work: work, state: state, images: images}
		c.deliveries[work] = e
	}
	if e.done.reaches(nodes) {
		if len(e.done.missing) > 0 && time.Since(e.tried) > again {
			c.enqueue(work)
		}
		return nil
	}
	if e.err == nil || time.Since(e.tried) > pause {
		c.enqueue(work)
	}
	switch {
	case c.covers(images, nodes): // another work, or the one before this change, had the same
		return nil
	case e.err != nil:
		return e.err
	case c.queue[0] != work:
		return fmt.Errorf("images of work %s are delivered first", c.queue[0])
	}
	return errDelivering
}

func (c *imageDelivery) enqueue(work string) {
	if slices.Contains(c.queue, work) {
		return
	}
	c.queue = append(c.queue, work)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// covers reports whether all of these nodes have got the images, for whichever work.
func (c *imageDelivery) covers(images []string, nodes map[types.UID]string) bool {
	for _, image := range images {
		if reached, known := c.on[image]; !known || !onAll(reached, nodes) {
			return false
		}
	}
	return true
}

// next returns a copy of the delivery whose turn it is, if there is one. It stays at the head of the queue until it is finished.
func (c *imageDelivery) next() (delivery, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return delivery{}, false
	}
	return *c.deliveries[c.queue[0]], true
}

// finish records the result of a delivery. If the work has changed in the meantime, it asks again.
func (c *imageDelivery) finish(e delivery, done *delivered, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = slices.DeleteFunc(c.queue, func(name string) bool { return name == e.work })
	if err == nil {
		for _, image := range e.images {
			c.on[image] = done.reached
		}
	}
	now := c.deliveries[e.work]
	if now == nil || now.state != e.state {
		return
	}
	if now.tried, now.err = time.Now(), err; err == nil {
		now.done = done
	}
}

// forget drops the state of a work.
func (c *imageDelivery) forget(work string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.deliveries, work)
	c.queue = slices.DeleteFunc(c.queue, func(name string) bool { return name == work })
}

// keepOnly drops the state of images that nobody uses.
func (c *imageDelivery) keepOnly(used map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.on, func(image string, _ map[types.UID]bool) bool { return !used[image] })
}
