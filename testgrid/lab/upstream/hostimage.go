package upstream

import (
	"archive/tar"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/testgrid/lab/debian"
)

// TreeLayer is an image layer with the tree of a system.
type TreeLayer struct{ Component string }

// Needs implements Recipe.
func (l TreeLayer) Needs() []string { return []string{l.Component} }

// Tools implements Recipe.
func (l TreeLayer) Tools() []debian.Tool { return nil }

// Make implements Recipe.
func (l TreeLayer) Make(ctx context.Context, w *Workshop, dir string) error {
	tree, err := w.Path(ctx, l.Component)
	if err != nil {
		return err
	}
	return writeLayer(dir, func(t *tar.Writer) error { return writeTree(t, filepath.Join(tree, TreeName)) })
}

// hostLayers are made only for images of hosts.
func hostLayers() []Component {
	return []Component{
		{Name: "image-host-debian", Version: "12", Recipe: TreeLayer{HostDebian12}},
		{Name: "image-host-debian", Version: "13", Recipe: TreeLayer{HostDebian13}},
	}
}

// bootScript makes a container look like a machine to systemd, and becomes systemd. The container gets a namespace of control groups, so
// that the groups that it sees are its own, in all versions. Like a host of the lab, it has no unused console, and no downloads that
// would take apt's lock at a random moment.
const bootScript = `exec unshare --cgroup /bin/sh -euc '
umount --recursive /sys/fs/cgroup
if [ "$(wc -l </proc/self/cgroup)" = 1 ]; then
	mount -t cgroup2 cgroup2 /sys/fs/cgroup
else
	mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
	while IFS=: read -r number names path; do
		folder=/sys/fs/cgroup/${names#name=}
		[ "$number" != 0 ] || folder=/sys/fs/cgroup/unified
		mkdir -p "$folder"
		case $number:$names in
		0:) mount -t cgroup2 cgroup2 "$folder" ;;
		*:name=*) mount -t cgroup -o "none,$names" cgroup "$folder" ;;
		*) mount -t cgroup -o "$names" cgroup "$folder" ;;
		esac
	done </proc/self/cgroup
fi
: >/etc/machine-id
ln -sf /dev/null /etc/systemd/system/console-getty.service
ln -sf /dev/null /etc/systemd/system/apt-daily.timer
ln -sf /dev/null /etc/systemd/system/apt-daily-upgrade.timer
exec /sbin/init'`

// hostImage is the image of a host's system, for privileged containers.
func hostImage(component string) Image {
	return Image{Ref: "sealift.dev/" + component, Base: []string{"image-" + component}, Entrypoint: []string{"/bin/sh", "-c", bootScript}, OCI: true}
}

// WriteHostImage writes the image of a host's system as a file for 'ctr images import' and for 'skopeo copy docker-archive:FILE'.
func (w *Workshop) WriteHostImage(ctx context.Context, component, ref, file string) (v1.Hash, error) {
	tag, err := name.NewTag(ref)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("the name of the image: %w", err)
	}
	index, err := w.Image(ctx, hostImage(component))
	if err != nil {
		return v1.Hash{}, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return v1.Hash{}, err
	}
	digest := manifest.Manifests[0].Digest
	image, err := index.Image(digest)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := atomicfile.Fill(file, 0o644, func(f *os.File) error { return tarball.Write(tag, image, f) }); err != nil {
		return v1.Hash{}, fmt.Errorf("write the image %s: %w", file, err)
	}
	return digest, nil
}
