package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/sealift/sealift/console/audit"
	"github.com/sealift/sealift/console/background"
	consolecommand "github.com/sealift/sealift/console/command"
	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/hostpath"
)

// The unit that runs a change of the whole cluster. The console starts it, and nothing else does.
const (
	workName = "sealift-console-work.service"
	workFile = "/etc/systemd/system/" + workName
)

// workUnit returns the unit. It has the rights of root, as 'sealift upgrade' of a person has, and the usual mask of files: the
// console itself has fewer.
func (h Home) workUnit(program string) string {
	return fmt.Sprintf(`[Unit]
Description=Sealift: a change of the cluster that was started in the console

[Service]
Type=exec
Environment=PATH=%s
ExecStart=%s work --root %s --log-dir %s
TimeoutStopSec=5min
`, hostpath.Folders, word(program), word(h.Root), word(h.logs()))
}

// runner starts changes in their unit.
func (h Home) runner(log *slog.Logger) *background.Runner {
	return &background.Runner{
		Dir: h.backgroundDir(),
		Start: func(ctx context.Context) error {
			if err := command.Run(ctx, io.Discard, "systemctl", "start", workName); err != nil {
				return fmt.Errorf("%w; if the unit is missing, root on this node runs: sealift-console on", err)
			}
			return nil
		},
		Active: func(ctx context.Context) (bool, error) { return isActive(ctx, log) },
	}
}

// isActive reports whether the unit of changes runs. Without systemd, as on a host that is being repaired, none does.
func isActive(ctx context.Context, log *slog.Logger) (bool, error) {
	state, err := command.UnitState(ctx, workName)
	if err != nil && ctx.Err() != nil {
		return false, ctx.Err()
	}
	if err != nil {
		log.Warn("systemd does not say whether a change runs", "unit", workName, "error", err)
		return false, nil
	}
	return state != "" && state != "inactive" && state != "failed", nil
}

// ErrWorking means that a change of the cluster runs, which the console has started.
var ErrWorking = errors.New("an upgrade or undo that was started in the console is running; wait until it ends, or stop it with 'systemctl stop " + workName + "'")

// Work runs the change that the console has requested. The unit of systemd calls it. program is the sealift that it runs.
func (h Home) Work(ctx context.Context, program string) error {
	program, err := files.Own(program)
	if err != nil {
		return err
	}
	return background.Worker{
		Dir: h.backgroundDir(), Now: time.Now,
		Run: func(ctx context.Context, words []string, out, errOut io.Writer) error {
			return consolecommand.Run(ctx, program, words, out, errOut)
		},
		Ended: func(s background.State) error {
			result := s.Failure
			if result == "" {
				result = "done"
			}
			return h.Audit().Write(audit.Entry{Time: s.Ended, Who: s.Who, What: "action " + s.Action, Result: result, Detail: s.Command})
		},
	}.Work(ctx)
}
