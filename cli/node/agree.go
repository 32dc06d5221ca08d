package node

import (
	"errors"
	"fmt"
	"io"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/kube/lease"
)

// agree asks a person before something is changed, unless --yes was given. to names what the command does.
func (a commands) agree(yes bool, to, question string) error {
	switch {
	case yes:
		return nil
	case !a.CanAsk():
		return app.UsageError("nobody can be asked here: give --yes to %s, or --plan to see what that would do", to)
	case !a.Confirm(question):
		return errors.New("not confirmed; nothing was changed")
	}
	return nil
}

// eventsOfMany returns where the events of work on several control planes are printed, and what prints that another one is at work.
func (a commands) eventsOfMany(format string) (events io.Writer, waiting func(holder string)) {
	events = a.Out
	if format == "json" {
		events = a.Err
	}
	return events, func(holder string) {
		fmt.Fprintf(events, "waiting for the control plane that is at work: %s\n", lease.HostOf(holder))
	}
}
