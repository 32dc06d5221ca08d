// Package machine provides hosts for tests of the grid: several kinds behind one interface. A provider makes machines and resets
// them; each further ability of a machine is an optional interface.
//
// HOSTS.yaml says which kind serves which operating system. The package knows nothing about tests.
package machine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/sealift/sealift/internal/shellword"
)

// Machine is one host under test.
type Machine interface {
	// Name names the machine in reports.
	Name() string
	// Address is where the other machines of a test reach this one.
	Address() string
	// Run runs a script with bash, as root, and waits for it. If the script fails, the error is an *ExitError. If ctx ends, the
	// script is killed.
	Run(ctx context.Context, c Command) error
	// Remove removes the machine, or returns it to be reset for another test.
	Remove(ctx context.Context) error
}

// Command is a script to run on a machine. Nil streams are empty.
type Command struct {
	Script string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// ExitError reports that a script ended with a nonzero code.
type ExitError struct{ Code int }

func (e *ExitError) Error() string { return fmt.Sprintf("exit status %d", e.Code) }

// PowerCycler is a machine that can lose its power. PowerCycle returns when it has booted again.
type PowerCycler interface {
	PowerCycle(ctx context.Context) error
}

// NetworkCutter is a machine whose network cable can be pulled. restore plugs it in again.
type NetworkCutter interface {
	CutNetwork(ctx context.Context) (restore func(context.Context) error, err error)
}

// EgressCounter is a machine whose packets to other networks are dropped outside of it and counted.
type EgressCounter interface {
	Egress(ctx context.Context) ([]Connection, error)
}

// ClockOwner is a machine with its own clock. Containers share the clock of the machine that they run on.
type ClockOwner interface {
	OwnsClock() bool
}

// Keeper is a machine that can stay after a failed test.
type Keeper interface {
	Keep(ctx context.Context) error
}

// Kept is a machine that an earlier run has kept.
type Kept struct{ Name, Address string }

// Adopter is a kind that takes kept machines back. If it fails, it leaves them unchanged.
type Adopter interface {
	Adopt(ctx context.Context, w Request, kept []Kept) ([]Machine, error)
}

// Enterer is a machine that a person can enter. Enter returns the command line of a shell there, which reads its standard input.
type Enterer interface {
	Enter() []string
}

// Connection is a machine's traffic to one destination outside.
type Connection struct {
	Address  string `json:"address"`
	Protocol string `json:"protocol,omitempty"`
	Port     int    `json:"port,omitempty"`
	Packets  int64  `json:"packets"`
	Process  string `json:"process,omitempty"` // command line of the sender, if it was still there to be found
}

func (c Connection) String() string {
	text := c.Address
	if c.Port != 0 {
		text += fmt.Sprintf(" port %d", c.Port)
	}
	if c.Protocol != "" {
		text += " (" + c.Protocol + ")"
	}
	if c.Process != "" {
		text += " by " + c.Process
	}
	return text
}

// Request describes the machines that a test needs.
type Request struct {
	System string // of the entry in HOSTS.yaml
	Count  int
	CPU    int    // of each machine
	Memory int64  // of each machine, in bytes
	Airgap bool   // what leaves the machines must be counted
	Owner  string // for Clean; "" if this run is the only one
}

// Provider makes machines of one kind.
type Provider interface {
	// Make returns bare machines. It waits until there are enough of them. If it fails, it leaves none behind.
	Make(ctx context.Context, w Request) ([]Machine, error)
	// Clean removes leftovers of an earlier killed run. If owner is not "", it removes only machines with this owner.
	Clean(ctx context.Context, owner string) error
}

// Put writes a file on a machine, with the rights of mode, such as 0755. It is complete or absent.
func Put(ctx context.Context, m Machine, from io.Reader, path, mode string) error {
	var stderr strings.Builder
	quoted := shellword.Quote(path)
	script := fmt.Sprintf("set -e; mkdir -p \"$(dirname -- %[1]s)\"; cat >%[1]s.new; chmod %[2]s %[1]s.new; mv -- %[1]s.new %[1]s", quoted, shellword.Quote(mode))
	if err := m.Run(ctx, Command{Script: script, Stdin: from, Stderr: &stderr}); err != nil {
		return fmt.Errorf("put %s on %s: %w: %s", path, m.Name(), err, strings.TrimSpace(stderr.String()))
	}
	return nil
}

// Get copies a file of a machine.
func Get(ctx context.Context, m Machine, path string, to io.Writer) error {
	var stderr strings.Builder
	if err := m.Run(ctx, Command{Script: "cat -- " + shellword.Quote(path), Stdout: to, Stderr: &stderr}); err != nil {
		return fmt.Errorf("get %s from %s: %w: %s", path, m.Name(), err, strings.TrimSpace(stderr.String()))
	}
	return nil
}

// Output runs a script and returns its trimmed output. Errors contain its stderr.
func Output(ctx context.Context, m Machine, script string) (string, error) {
	var stdout, stderr bytes.Buffer
	err := m.Run(ctx, Command{Script: script, Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		err = fmt.Errorf("on %s: %w: %s", m.Name(), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), err
}
