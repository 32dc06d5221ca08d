// Package runtime puts the images of a bundle into containerd: each blob goes straight from the archive into the content store,
// and existing blobs are not read.
//
// The package knows images and containerd. It starts no container and configures nothing.
package runtime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/diff"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/internal/platform"
	"github.com/sealift/sealift/internal/poll"
)

const (
	// Socket is where containerd listens.
	Socket = "/run/containerd/containerd.sock"

	// namespace is the kubelet's.
	namespace = "k8s.io"

	// connectTimeout bounds the wait for a containerd that was just started.
	connectTimeout = 30 * time.Second

	// dialEvery is the pause between two attempts to connect.
	dialEvery = 200 * time.Millisecond

	// parallelImages is how many images are loaded at once: unpacking uses one thread per image, and each holds one decompressor
	// of a few MiB.
	parallelImages = 2

	// parallelBlobs is how many blobs are copied at once, for all these images: each may be a transfer from a server.
	parallelBlobs = 8
)

// pinLabel keeps the kubelet's garbage collection from an image that an airgapped node could not pull again.
const pinLabel, pin = "io.cri-containerd.pinned", "pinned"

// Runtime is a connection to containerd.
type Runtime struct {
	client   *containerd.Client
	platform platforms.MatchComparer
}

// Connect connects to containerd, waiting for one that was just started. It does not wait where only root may connect.
func Connect(ctx context.Context, socket string) (*Runtime, error) {
	serving, cancel := context.WithTimeout(ctx, speed.Patience(connectTimeout))
	defer cancel()
	if err := dial(serving, socket); err != nil {
		return nil, err
	}
	client, err := containerd.New(socket, containerd.WithDefaultNamespace(namespace), containerd.WithTimeout(speed.Patience(connectTimeout)))
	if err != nil {
		return nil, fmt.Errorf("containerd at %s does not answer: %w; see 'systemctl status containerd'", socket, err)
	}
	r := &Runtime{client: client, platform: platform.Host()}
	if ok, err := client.IsServing(serving); !ok || err != nil {
		return nil, errors.Join(fmt.Errorf("containerd at %s does not serve; see 'systemctl status containerd'", socket), err, client.Close())
	}
	return r, nil
}

// ConnectRunning connects to a containerd that runs already. Connect waits for one that a step has just started; a person who runs a command
// where there is none waits for nothing.
func ConnectRunning(ctx context.Context, socket string) (*Runtime, error) {
	if err := CheckRunning(socket); err != nil {
		return nil, err
	}
	return Connect(ctx, socket)
}

// CheckRunning returns an error if there is no socket of containerd.
func CheckRunning(socket string) error {
	if _, err := os.Stat(socket); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no containerd runs on this host: it has no %s; see 'systemctl status containerd'", socket)
	}
	return nil
}

// dial waits until something listens at a socket. The client of containerd also waits where that cannot help.
func dial(ctx context.Context, socket string) error {
	err := poll.Until(ctx, dialEvery, nil, func(ctx context.Context) (bool, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if errors.Is(err, fs.ErrPermission) {
			return false, fmt.Errorf("only root can connect to containerd at %s; run the command with sudo", socket)
		}
		if err != nil {
			return false, poll.NotYet(err)
		}
		return true, conn.Close()
	})
	if poll.Ended(err) {
		return fmt.Errorf("containerd does not answer: %w; see 'systemctl status containerd'", err)
	}
	return err
}

// Close ends the connection.
func (r *Runtime) Close() error { return r.client.Close() }

// Blob opens a blob of the content store by its sha256, in hexadecimal. What is not there is fs.ErrNotExist.
func (r *Runtime) Blob(ctx context.Context, sha256 string) (content.ReaderAt, error) {
	blob, err := r.client.ContentStore().ReaderAt(ctx, ocispec.Descriptor{Digest: digest.NewDigestFromEncoded(digest.SHA256, sha256)})
	if errdefs.IsNotFound(err) {
		return nil, fmt.Errorf("containerd no longer has blob %s: %w", sha256, fs.ErrNotExist)
	}
	return blob, err
}

// Result counts the work of a load.
type Result struct {
	Loaded  int `json:"loaded"`
	Present int `json:"present"` // complete before
}

// Load brings all images of a layout into containerd, unpacked and pinned. Existing images are left alone. It calls progress
// before each image that it loads, one call at a time. The blobs of a failed or killed load stay for a day, including half a
// layer: the next one resumes there.
func (r *Runtime) Load(ctx context.Context, layout *Layout, progress func(ref string)) (_ Result, err error) {
	ctx, release, err := r.client.WithLease(ctx) // nothing is collected before it has a name
	if err != nil {
		return Result{}, fmt.Errorf("containerd lease: %w", err)
	}
	defer func() {
		if err == nil {
			_ = release(context.WithoutCancel(ctx)) // it also ends on its own
		}
	}()
	present := make([]bool, len(layout.Images))
	var reporting sync.Mutex
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelImages)
	blobs := semaphore.NewWeighted(parallelBlobs)
	for i, image := range layout.Images {
		group.Go(func() (err error) {
			if present[i], err = r.present(gctx, layout, image); err != nil || present[i] {
				return err
			}
			reporting.Lock()
			progress(image.Ref)
			reporting.Unlock()
			if err := r.load(gctx, layout, image, blobs); err != nil {
				return fmt.Errorf("load image %s: %w", image.Ref, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return Result{}, err
	}
	var result Result
	for _, there := range present {
		if there {
			result.Present++
		} else {
			result.Loaded++
		}
	}
	return result, nil
}

// present reports whether an image exists under its names, pinned, complete and unpacked.
func (r *Runtime) present(ctx context.Context, layout *Layout, image Image) (bool, error) {
	if image.archive.Path != "" {
		return r.archivePresent(ctx, layout, image)
	}
	var records []images.Image
	for _, name := range image.names() {
		record, err := r.client.ImageService().Get(ctx, name)
		if errdefs.IsNotFound(err) || err == nil && (record.Target.Digest != image.Target.Digest || record.Labels[pinLabel] != pin) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("look up image %s: %w", name, err)
		}
		records = append(records, record)
	}
	if ok, err := r.complete(ctx, layout, image); err != nil || !ok {
		return false, err
	}
	return true, r.mark(ctx, layout, records)
}

// complete reports whether everything of an image is in the content store in the form that the layout has, and unpacked. Nodes that
// join ask for that form.
func (r *Runtime) complete(ctx context.Context, layout *Layout, image Image) (bool, error) {
	available, required, _, _, err := images.Check(ctx, r.client.ContentStore(), image.Target, r.platform)
	if err != nil || !available {
		return false, err
	}
	for _, blob := range required {
		if there, err := layout.stored(ctx, r.client.ContentStore(), blob); err != nil || !there {
			return false, err
		}
	}
	return r.handle(image).IsUnpacked(ctx, "")
}

// handle is containerd's view of an image for this platform.
func (r *Runtime) handle(image Image) containerd.Image {
	return containerd.NewImageWithPlatform(r.client, images.Image{Name: image.Ref, Target: image.Target}, r.platform)
}

func (r *Runtime) load(ctx context.Context, layout *Layout, image Image, blobs *semaphore.Weighted) error {
	if image.archive.Path != "" {
		return r.loadArchive(ctx, layout, image)
	}
	cs := r.client.ContentStore()
	children := images.SetChildrenMappedLabels(cs, images.ChildrenHandler(cs), nil)
	children = images.LimitManifests(images.FilterPlatforms(children, r.platform), r.platform, 1)
	write := images.HandlerFunc(func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		blob, err := layout.carried(desc)
		if err != nil {
			return nil, err
		}
		if err := r.hold(ctx, blob); err != nil {
			return nil, err
		}
		return nil, layout.copyBlob(ctx, cs, blob)
	})
	if err := images.Dispatch(ctx, images.Handlers(write, children), blobs, image.Target); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: the package lacks the image's content for this host; build it again", err)
		}
		return err
	}
	if err := r.unpack(ctx, layout, image); err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	for _, name := range image.names() {
		if err := r.name(ctx, images.Image{Name: name, Target: image.Target, Labels: layout.labels()}); err != nil {
			return err
		}
	}
	return nil
}

// durably has containerd write each layer to the disk before it counts as unpacked: after a loss of power it would otherwise
// pass for present with empty files.
func durably(_ context.Context, c *containerd.UnpackConfig) error {
	c.ApplyOpts = append(c.ApplyOpts, diff.WithSyncFs(true))
	return nil
}

// hold keeps an existing blob, left by an interrupted install, from being collected in the meantime.
func (r *Runtime) hold(ctx context.Context, desc ocispec.Descriptor) error {
	id, ok := leases.FromContext(ctx)
	if !ok {
		return nil
	}
	err := r.client.LeasesService().AddResource(ctx, leases.Lease{ID: id}, leases.Resource{ID: desc.Digest.String(), Type: "content"})
	if err != nil {
		return fmt.Errorf("hold blob %s: %w", desc.Digest, err)
	}
	return nil
}

// name creates or moves the record of a name.
func (r *Runtime) name(ctx context.Context, record images.Image) error {
	service := r.client.ImageService()
	_, err := service.Create(ctx, record)
	if errdefs.IsAlreadyExists(err) {
		_, err = service.Update(ctx, record, "target", "labels")
	}
	if err != nil {
		return fmt.Errorf("name image %s: %w", record.Name, err)
	}
	return nil
}
