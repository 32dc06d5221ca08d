package snapshot

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"strings"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/recovery/volume"
)

// Volume is a local volume of the host. How large it is follows its content in the archive: a volume is read once.
type Volume struct {
	volume.Volume
	volumeSum
}

// volumeSum is the entry volumes/NAME.json, which follows the content of a volume.
type volumeSum struct {
	Size    int64  `json:"size,omitempty"`    // bytes of its archive
	SHA256  string `json:"sha256,omitempty"`  // of its archive, in lower-case hex
	Changed bool   `json:"changed,omitempty"` // files changed while they were read
}

// The entries of a volume are volumes/NAME.tar.00000000 and so on, which make an archive of tar, and volumes/NAME.json.
const (
	volumesFolder = "volumes/"
	volumePart    = 4 << 20 // bytes of an entry, at most
	maxVolumeSum  = 4096    // bytes
)

func archiveOf(v Volume) string { return volumesFolder + v.Name + ".tar" }

func partOf(v Volume, n int) string { return fmt.Sprintf("%s.%08d", archiveOf(v), n) }

func sumOf(v Volume) string { return volumesFolder + v.Name + ".json" }

// findVolumes notes the local volumes of the host in the index.
func (o *opened) findVolumes(ctx context.Context) error {
	client, err := cluster.Client(o.source.path(kubeadm.AdminKubeconfig))
	if err != nil {
		return err
	}
	o.groups, o.index.VolumesLeftOut, err = volume.Find(ctx, client, o.source.Node, o.source.Rootfs)
	for _, g := range o.groups {
		for _, v := range g.Volumes {
			o.index.Volumes = append(o.index.Volumes, Volume{Volume: v})
		}
	}
	return err
}

func (o *opened) quiescence() volume.Quiescence {
	return volume.Quiescence{File: o.source.path(node.QuiescedFile(o.source.Root)), Execute: o.source.execute, Output: o.source.Output}
}

// sleeps warns that pods could not be resumed. The save goes on: anybody who may annotate a pod could stop it otherwise.
func (o *opened) sleeps(err error) {
	fmt.Fprintln(o.source.Output, "warning:", err)
	o.asleep = errors.Join(o.asleep, err)
}

// resumed is ErrNotResumed of a save with volumes after which pods are not resumed.
func (o *opened) resumed() error {
	if o.asleep == nil || !o.source.Volumes {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotResumed, o.asleep)
}

func execute(ctx context.Context, container string, command []string, output io.Writer) error {
	containers, err := runtime.Connect(ctx, runtime.Socket)
	if err != nil {
		return err
	}
	defer containers.Close()
	return containers.Exec(ctx, container, command, output)
}

// writeVolumes writes all volumes, each while its pods are quiesced.
func (o *opened) writeVolumes(ctx context.Context, to writer) error {
	n := 0
	for _, g := range o.groups {
		read := false
		err := o.quiescence().During(ctx, g, func() error {
			for range g.Volumes {
				if err := o.writeVolume(ctx, to, &o.index.Volumes[n]); err != nil {
					return err
				}
				n++
			}
			read = true
			return nil
		})
		switch {
		case err == nil:
		case read && errors.Is(err, volume.ErrAsleep):
			o.sleeps(err)
		default:
			return err
		}
	}
	return nil
}

func (o *opened) writeVolume(ctx context.Context, to writer, v *Volume) (err error) {
	fmt.Fprintf(o.source.Output, "volume %s %s: reads %s\n", v.Name, v.Claim, v.Path)
	p := &parts{to: to, volume: *v, sum: sha256.New()}
	if v.Changed, err = volume.Pack(ctx, o.source.path(v.Path), p); err != nil {
		return fmt.Errorf("volume %s: %w; without --volumes a snapshot has no volumes", v.Name, err)
	}
	if err := p.flush(); err != nil {
		return err
	}
	v.Size, v.SHA256 = p.size, hex.EncodeToString(p.sum.Sum(nil))
	text, err := json.Marshal(v.volumeSum)
	if err != nil {
		return err
	}
	return to.file(sumOf(*v), text)
}

// parts writes an archive of unknown size as entries of a larger one.
type parts struct {
	to     writer
	volume Volume
	sum    hash.Hash
	size   int64
	next   int
	buffer []byte
}

func (p *parts) Write(b []byte) (int, error) {
	p.sum.Write(b)
	p.size += int64(len(b))
	for rest := b; len(rest) > 0; {
		if p.buffer == nil {
			p.buffer = make([]byte, 0, volumePart)
		}
		n := min(len(rest), volumePart-len(p.buffer))
		p.buffer, rest = append(p.buffer, rest[:n]...), rest[n:]
		if len(p.buffer) < volumePart {
			break
		}
		if err := p.flush(); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

func (p *parts) flush() error {
	if len(p.buffer) == 0 {
		return nil
	}
	err := p.to.file(partOf(p.volume, p.next), p.buffer)
	p.buffer = p.buffer[:0]
	p.next++
	return err
}

// discarder is a writer that can discard its output.
type discarder interface{ Discard() }

// readVolume copies the archive of a volume, and adds its size and digest to v when it was right to its last byte, and is the verified
// one, unless that is nil. Only then it closes the writer.
func readVolume(archive *entries, v, verified *Volume, create createFunc) (err error) {
	w, err := create(archiveOf(*v), 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if d, ok := w.(discarder); ok && err != nil {
			d.Discard()
		} else {
			err = errors.Join(err, w.Close())
		}
	}()
	sum, size := sha256.New(), int64(0)
	for n := 0; ; n++ {
		header, err := archive.Next()
		switch {
		case err != nil:
			return damaged(err)
		case header.Typeflag == tar.TypeReg && header.Name == sumOf(*v):
			if v.volumeSum, err = readSum(archive, header.Size); err != nil {
				return err
			}
			if got := hex.EncodeToString(sum.Sum(nil)); got != v.SHA256 || size != v.Size {
				return damaged(fmt.Errorf("volume %s has %d bytes with sha256 %s, and should have %d with %s", v.Name, size, got, v.Size, v.SHA256))
			}
			if verified != nil && *v != *verified {
				return errExchanged
			}
			return nil
		case header.Typeflag != tar.TypeReg || header.Name != partOf(*v, n) || header.Size > volumePart:
			return damaged(fmt.Errorf("found %s of %d bytes, want the next part of volume %s", header.Name, header.Size, v.Name))
		}
		from := &source{Reader: archive}
		copied, err := io.Copy(io.MultiWriter(sum, w), from)
		if from.err != nil {
			return damaged(from.err)
		}
		if err != nil {
			return err
		}
		size += copied
	}
}

func readSum(archive *entries, size int64) (s volumeSum, err error) {
	if size > maxVolumeSum {
		return s, damaged(fmt.Errorf("the sum of a volume has %d bytes", size))
	}
	text, err := io.ReadAll(archive)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return s, damaged(err)
	}
	return s, nil
}

// Volumes reads a snapshot that was verified as of, and copies the archives of its volumes to the writers that create makes for the names
// of PersistentVolumes. It closes a writer when its volume was right to the last byte, and else discards it. A nil writer skips a volume.
func (r Reader) Volumes(from io.Reader, of Index, create func(name string) (*volume.Writer, error)) error {
	r.verified = &of
	_, err := r.verifyAll(from, func(entry string, mode fs.FileMode) (io.WriteCloser, error) {
		if name, ok := strings.CutPrefix(strings.TrimSuffix(entry, ".tar"), volumesFolder); ok {
			if w, err := create(name); err != nil || w != nil {
				return w, err
			}
		}
		return discard(entry, mode)
	})
	return err
}

// errExchanged means that a store served two snapshots under one name.
var errExchanged = errors.New("the snapshot is not the one that was verified before; the store has replaced it")
