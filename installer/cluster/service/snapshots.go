package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/hostpath"
)

// Snapshots configures how a control plane saves snapshots automatically.
type Snapshots struct {
	Every time.Duration
	Keep  int // of each control plane, the newest
	Store string
	Key   string // public
	// Volumes also saves the local volumes of the host.
	Volumes bool
}

// The units of systemd that save snapshots, and a file with variables for them, such as the credentials of a store.
const (
	snapshotService   = "sealift-snapshots.service"
	snapshotTimer     = "sealift-snapshots.timer"
	SnapshotVariables = "/etc/default/sealift-snapshots"
)

const unitFolder = "/etc/systemd/system"

// snapshotTime is how long a snapshot may take. One that waits for a store forever would keep the timer from starting
// another.
const snapshotTime = 6 * time.Hour

// snapshotMemory is the most memory of the service, in MiB. It streams the snapshot.
const snapshotMemory = 1024

// mounts lets the service fail while the disk of a folder is not mounted: snapshots would fill the disk below.
func (s Snapshots) mounts() string {
	if !filepath.IsAbs(s.Store) {
		return ""
	}
	return "RequiresMountsFor=" + strings.ReplaceAll(strconv.Quote(s.Store), "%", "%%") + "\n"
}

// pruneTime is how long a prune may take, and how long a save is given to end.
const pruneTime = 10 * time.Minute

// Units returns the service that saves one snapshot and prunes, however the save ends, and the timer that starts it. The first snapshot is saved some
// minutes after the timer starts, which it also does at boot.
func (s Snapshots) Units(root string) []Unit {
	volumes := ""
	if s.Volumes {
		volumes = " --volumes"
	}
	run := fmt.Sprintf(`[Unit]
Description=Sealift: save a snapshot of this control plane
%s
[Service]
Type=oneshot
TimeoutStartSec=%ds
TimeoutStopSec=%ds
Environment=HOME=/root
Environment=PATH=%s
EnvironmentFile=-%s
ExecStart=%s snapshot save --root %s --store %s --key %s%s
ExecStopPost=%s snapshot prune --keep %d --store %s
MemoryMax=%dM
NoNewPrivileges=yes
`, s.mounts(), int64(snapshotTime.Seconds()), int64(pruneTime.Seconds()), hostpath.Folders, SnapshotVariables, node.Binary, unitWord(root), unitWord(s.Store), unitWord(s.Key), volumes, node.Binary, s.Keep, unitWord(s.Store), snapshotMemory)
	timer := fmt.Sprintf(`[Unit]
Description=Sealift: snapshots of this control plane

[Timer]
OnActiveSec=5min
OnUnitActiveSec=%ds
RandomizedDelaySec=60s

[Install]
WantedBy=timers.target
`, int64(s.Every.Seconds()))
	return []Unit{{snapshotService, run}, {snapshotTimer, timer}}
}

// Start installs the units and starts the timer, now and with every boot.
func (s Snapshots) Start(ctx context.Context, root string, output io.Writer) error {
	units := s.Units(root)
	if err := files.Write(filepath.Join(unitFolder, units[0].Name), []byte(units[0].Text)); err != nil {
		return err
	}
	return units[1].Start(ctx, output)
}

// StopSnapshots ends the timer and removes the units.
func StopSnapshots(ctx context.Context, output io.Writer) error {
	if _, err := os.Stat(filepath.Join(unitFolder, snapshotTimer)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := command.Run(ctx, output, "systemctl", "disable", "--now", snapshotTimer); err != nil {
		return err
	}
	for _, name := range []string{snapshotTimer, snapshotService} {
		if err := files.Remove(filepath.Join(unitFolder, name)); err != nil {
			return err
		}
	}
	return command.Run(ctx, output, "systemctl", "daemon-reload")
}
