package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/hostpath"
)

// ProgramName is the file name of the console's program.
const ProgramName = "sealift-console"

// The unit of systemd, and the link by which people find the program.
const (
	unitName = "sealift-console.service"
	unitFile = "/etc/systemd/system/" + unitName
	linkFile = "/usr/local/bin/" + ProgramName
)

// memory is the most memory of the service with the commands that it runs, in MiB: two snapshots and some reads.
const memory = 2048

// unit returns the unit. The commands need root for the node's state and the cluster's credentials; they write to the console's state,
// the logs and the store of snapshots alone. It cannot set the clock, because it lacks CAP_SYS_TIME. ProtectClock= would also hide whether the
// clock is synchronized, which plans check.
func (h Home) unit(program string, s Settings) string {
	writes := []string{node.StateDir(h.Root), h.logs()}
	if filepath.IsAbs(s.SnapshotStore) {
		writes = append(writes, "-"+s.SnapshotStore)
	}
	for i, path := range writes {
		writes[i] = word(path)
	}
	return fmt.Sprintf(`[Unit]
Description=Sealift: the console of this control plane
After=network-online.target
Wants=network-online.target

[Service]
Environment=PATH=%s
ExecStart=%s serve --root %s
Restart=always
RestartSec=2
MemoryMax=%dM
TasksMax=512
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths=%s
PrivateTmp=yes
PrivateDevices=yes
ProtectHome=read-only
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_CHOWN CAP_NET_BIND_SERVICE CAP_KILL CAP_SYS_PTRACE
SystemCallArchitectures=native
UMask=0077

[Install]
WantedBy=multi-user.target
`, hostpath.Folders, word(program), word(h.Root), memory, strings.Join(writes, " "))
}

// word quotes text as one word of a setting of systemd, which fills in %h and $HOME otherwise.
func word(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(text) + `"`
}

// ErrNoNode means that a host has no install to which the console could belong.
var ErrNoNode = errors.New("the console runs on control planes that sealift installed; install this host first")

// recorded makes a change of the host while no other operation works on the node, and records it as a step of the install.
func (h Home) recorded(ctx context.Context, step string, do func() error) (err error) {
	journal, err := node.Lock(h.Root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	record, err := node.OpenBaseline(h.Root, h.logs())
	if err != nil {
		return err
	}
	if record.Before() == nil {
		return ErrNoNode
	}
	if err := record.Begin(ctx, strings.Join(journal.Open(), ", ")); err != nil {
		return err
	}
	return errors.Join(do(), record.Note(ctx, step))
}

// On keeps the settings, and starts the console now and with every boot. program is the file of sealift-console. output receives what
// systemctl prints.
func (h Home) On(ctx context.Context, s Settings, program string, output io.Writer) error {
	program, err := files.Own(program)
	if err != nil {
		return fmt.Errorf("%s would run as root: %w", ProgramName, err)
	}
	if s.Fleet.Program != "" {
		if s.Fleet.Program, err = files.Own(s.Fleet.Program); err != nil {
			return fmt.Errorf("the program of --fleet would run as root: %w", err)
		}
	}
	return h.recorded(ctx, "console/on", func() error {
		for _, folder := range []string{h.logs(), h.file("tokens"), h.file("sessions")} {
			if err := files.MkdirAll(folder, 0o700); err != nil {
				return err
			}
		}
		if filepath.IsAbs(s.SnapshotStore) && s.SnapshotKey != "" { // the service may not make it: it sees the rest of the disk read-only
			if err := files.MkdirAll(s.SnapshotStore, 0o700); err != nil {
				return err
			}
		}
		if err := h.write(s); err != nil {
			return err
		}
		if err := errors.Join(files.Write(unitFile, []byte(h.unit(program, s))), files.Write(workFile, []byte(h.workUnit(program)))); err != nil {
			return err
		}
		if _, err := os.Lstat(linkFile); errors.Is(err, fs.ErrNotExist) && program != linkFile {
			if err := files.Symlink(program, linkFile); err != nil {
				return err
			}
		}
		return systemctl(ctx, output, []string{"daemon-reload"}, []string{"enable", unitName}, []string{"restart", unitName})
	})
}

// CheckOff returns ErrWorking while a change runs that the console has started.
func (Home) CheckOff(ctx context.Context) error {
	works, err := isActive(ctx, slog.New(slog.DiscardHandler))
	if err == nil && works {
		err = ErrWorking
	}
	return err
}

// Off stops the console, and removes its units, its settings, its uploads, and all tokens and sessions. The audit stays.
func (h Home) Off(ctx context.Context, output io.Writer) error {
	if err := h.CheckOff(ctx); err != nil {
		return err
	}
	return h.recorded(ctx, "console/off", func() error {
		if _, err := os.Lstat(unitFile); err == nil {
			if err := systemctl(ctx, output, []string{"disable", "--now", unitName}); err != nil {
				return err
			}
		}
		if err := errors.Join(files.Remove(unitFile), files.Remove(workFile)); err != nil {
			return err
		}
		if target, err := os.Readlink(linkFile); err == nil && filepath.Base(target) == ProgramName {
			if err := files.Remove(linkFile); err != nil {
				return err
			}
		}
		return errors.Join(files.RemoveAll(node.ConsoleDir(h.Root)), systemctl(ctx, output, []string{"daemon-reload"}))
	})
}

func systemctl(ctx context.Context, output io.Writer, all ...[]string) error {
	for _, words := range all {
		if err := command.Run(ctx, output, "systemctl", words...); err != nil {
			return err
		}
	}
	return nil
}
