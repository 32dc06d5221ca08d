package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	machine "github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/installer/recovery/volume"
)

// VolumesStep writes volumes.
const VolumesStep = "restore/volumes"

// VolumeTime is how long all volumes may take: terabytes from a slow disk.
const VolumeTime = 24 * time.Hour

// ReadVolumes reads the volumes of a snapshot, as snapshot.ReadVolumes does. It may be called again.
type ReadVolumes func(ctx context.Context, create func(name string) (*volume.Writer, error)) error

// Volumes are those of a snapshot, on this host.
type Volumes struct {
	Lacking []snapshot.Volume `json:"writes"` // the folder is not there, or empty, or was not written to its end
	Present []snapshot.Volume `json:"stay"`   // the folder has content, which stays

	host host
	read ReadVolumes
}

// FindVolumes says which volumes of a snapshot this host lacks.
func FindVolumes(index snapshot.Index, read ReadVolumes) (Volumes, error) {
	return host{}.volumes(index, read)
}

func (h host) volumes(index snapshot.Index, read ReadVolumes) (v Volumes, err error) {
	v = Volumes{host: h, read: read}
	for _, one := range index.Volumes {
		lacks, err := volume.IsEmpty(h.Path(one.Path))
		if err != nil {
			return v, fmt.Errorf("volume %s: %w", one.Name, err)
		}
		if lacks {
			v.Lacking = append(v.Lacking, one)
		} else {
			v.Present = append(v.Present, one)
		}
	}
	return v, nil
}

// Title describes Write.
func (v Volumes) Title() string {
	return fmt.Sprintf("write %d volumes that this host lacks", len(v.Lacking))
}

// Write writes the volumes that the host lacks. It may be interrupted and repeated.
func (v Volumes) Write(ctx context.Context, output io.Writer) error {
	again, err := v.host.volumes(snapshot.Index{Volumes: v.Lacking}, nil)
	if err != nil {
		return err
	}
	lacking := map[string]snapshot.Volume{}
	for _, one := range again.Lacking {
		lacking[one.Name] = one
	}
	if len(lacking) == 0 {
		return nil
	}
	return v.read(ctx, func(name string) (*volume.Writer, error) {
		one, ok := lacking[name]
		if !ok {
			return nil, nil //nolint:nilnil // skips it
		}
		fmt.Fprintf(output, "volume %s %s: writes %s\n", one.Name, one.Claim, one.Path)
		return volume.Write(ctx, v.host.Path(one.Path))
	})
}

// Alone writes volumes while no other command works on this node. On a control plane, it refuses volumes
// that a pod uses. It may be interrupted and repeated.
func (v Volumes) Alone(ctx context.Context, root string, output io.Writer) (err error) {
	journal, err := node.Lock(root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, VolumeTime)
	defer cancel()
	if err := v.checkUnused(ctx); err != nil {
		return fmt.Errorf("%w\nnothing was changed", err)
	}
	if err := v.Write(ctx, output); err != nil {
		return fmt.Errorf("%w\nrun the same command again to go on", err)
	}
	return nil
}

func (v Volumes) checkUnused(ctx context.Context) error {
	config := v.host.Path(kubeadm.AdminKubeconfig)
	if _, err := os.Stat(config); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	client, err := cluster.Client(config)
	if err != nil {
		return err
	}
	name, err := machine.Name()
	if err != nil {
		return err
	}
	var volumes []volume.Volume
	for _, one := range v.Lacking {
		volumes = append(volumes, one.Volume)
	}
	return volume.CheckUnused(ctx, client, name, volumes)
}
