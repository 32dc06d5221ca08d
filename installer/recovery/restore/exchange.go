package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/child"
	"github.com/sealift/sealift/internal/diskspace"
	"github.com/sealift/sealift/internal/plaintext"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/tail"
)

// revisionBump is added to etcd's revision. No watcher can have seen a newer one, so all of them read everything again.
const revisionBump = "1000000000"

// The names in etcd's data folder. etcd uses only memberFolder. The others are beside it, because the data folder may be a mount.
const (
	memberFolder = "member"
	madePrefix   = "restored-" // with data that is ready but not in place yet
	oldPrefix    = "replaced-" // with the data from before the restore
	markName     = ".restored-by-sealift"
)

// dataFolder is etcd's data folder during one restore.
type dataFolder struct {
	path       string
	generation string    // of the restore
	together   *Together // nil if it is the only member
}

func (d dataFolder) made() string { return filepath.Join(d.path, madePrefix+d.generation) }

// old is the folder with the data from before the restore.
func (d dataFolder) old() string { return filepath.Join(d.path, oldPrefix+d.generation) }

func (d dataFolder) member() string { return filepath.Join(d.path, memberFolder) }

// inPlace reports whether etcd's data was created by this restore.
func (d dataFolder) inPlace() bool {
	mark, err := regularfile.ReadFile(filepath.Join(d.member(), markName))
	return err == nil && string(mark) == d.generation
}

// ready reports whether this restore has created data, in place or not.
func (d dataFolder) ready() bool {
	return d.inPlace() || exists(filepath.Join(d.made(), memberFolder, markName))
}

// database is etcd's own file.
func (d dataFolder) database() string { return filepath.Join(d.member(), "snap/db") }

// etcdutl is etcd's own tool, and the member that it makes data for.
type etcdutl struct {
	program string
	member  member
	output  io.Writer
}

// writeSpace is etcdutl's space in addition to the database, plus that of a running etcd on the same disk, in bytes.
const writeSpace = 512 << 20

// hasRoom refuses to begin on a disk that would be full of the data: an etcd that runs there would stop.
func (d dataFolder) hasRoom(database *os.File) error {
	info, err := database.Stat()
	if err != nil {
		return err
	}
	space, err := diskspace.Of(d.path)
	if err != nil {
		return err
	}
	if needs := uint64(info.Size()) + writeSpace; space.Bytes < needs {
		return fmt.Errorf("%s has %s left, and the new data of etcd needs %s; free some, such as data of earlier restores in %s*: %w",
			d.path, plaintext.Bytes(space.Bytes), plaintext.Bytes(needs), filepath.Join(d.path, oldPrefix), unix.ENOSPC)
	}
	return nil
}

// make makes data of a member of a database. Unless that is a snapshot, it has no digest at its end. A make that was
// interrupted begins again.
func (d dataFolder) make(ctx context.Context, by etcdutl, database *os.File, isSnapshot bool) (err error) {
	if err := files.RemoveAll(d.made()); err != nil {
		return err
	}
	if err := d.hasRoom(database); err != nil {
		return err
	}
	if err := files.MkdirAll(d.path, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, files.RemoveAll(d.made()))
		}
	}()
	args := []string{"snapshot", "restore", "/proc/self/fd/3", "--data-dir", d.made(), "--name", by.member.Name,
		"--initial-advertise-peer-urls", by.member.Peers, "--bump-revision", revisionBump, "--mark-compacted"}
	if t := d.together; t != nil {
		args = append(args, "--initial-cluster", initialCluster(t.Members), "--initial-cluster-token", t.Token)
	} else {
		args = append(args, "--initial-cluster", initialCluster([]cluster.EtcdMember{by.member.etcd()}))
	}
	if !isSnapshot {
		args = append(args, "--skip-hash-check")
	}
	var said tail.Buffer
	cmd := exec.CommandContext(ctx, by.program, args...)
	cmd.ExtraFiles = []*os.File{database}
	cmd.Stdout, cmd.Stderr = by.output, io.MultiWriter(by.output, &said)
	if err := child.Run(cmd); err != nil {
		return fmt.Errorf("etcdutl cannot make data for etcd in %s: %w\n%s", d.path, err, said.String())
	}
	mark := filepath.Join(d.made(), memberFolder, markName)
	if err := files.WriteMode(mark, 0o600, []byte(d.generation)); err != nil {
		return err
	}
	return files.SyncAll(d.path)
}

// exchange moves the restored data into place and keeps the old data beside it. It may be repeated. etcd must not run during it.
func (d dataFolder) exchange() error {
	if !d.inPlace() {
		if !d.ready() {
			return fmt.Errorf("%s, the new data for etcd, is gone; nothing was moved; run the same command again", d.made())
		}
		if exists(d.member()) {
			if err := files.MkdirAll(d.old(), 0o700); err != nil {
				return err
			}
			if err := files.Rename(d.member(), d.free()); err != nil {
				return err
			}
		}
		if err := files.Rename(filepath.Join(d.made(), memberFolder), d.member()); err != nil {
			return err
		}
	}
	if err := files.RemoveAll(d.made()); err != nil {
		return err
	}
	return files.SyncAll(d.path)
}

// free is a name for the old data. An exchange that lost power halfway has moved the first one, and etcd then began without
// data.
func (d dataFolder) free() string {
	name := filepath.Join(d.old(), memberFolder)
	for n := 2; exists(name); n++ {
		name = filepath.Join(d.old(), fmt.Sprintf("%s-%d", memberFolder, n))
	}
	return name
}
