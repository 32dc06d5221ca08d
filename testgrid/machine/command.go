package machine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"
)

// commandKind lets a program of the user make and remove machines, for unknown clouds and hypervisors.
//
//	PROGRAM clean [OWNER]       remove what earlier runs have left, or only machines with this owner
//	PROGRAM make                {"system":…,"count":…,"cpu":…,"memory":…,"airgap":…,"owner":…} in,
//	                            [{"name":…,"address":…,"can":["power-cycle","egress","clock"]},…] out
//	PROGRAM run NAME SCRIPT     run a script with bash as root, with the streams and the exit code of the program
//	PROGRAM remove NAME
//	PROGRAM power-cycle NAME    return when it has booted again
//	PROGRAM egress NAME         [{"address":…,"protocol":…,"port":…,"packets":…,"process":…},…] out
type commandKind struct{ program }

// The words of "can".
const (
	canPowerCycle = "power-cycle"
	canEgress     = "egress"
	canClock      = "clock"
)

func (k commandKind) Clean(ctx context.Context, owner string) error {
	if owner == "" {
		return k.run(ctx, nil, nil, nil, "clean")
	}
	return k.run(ctx, nil, nil, nil, "clean", owner)
}

// makeTime is how long a program may wait until there are enough machines.
const makeTime = 24 * time.Hour

func (k commandKind) Make(ctx context.Context, w Request) ([]Machine, error) {
	wish, err := json.Marshal(map[string]any{"system": w.System, "count": w.Count, "cpu": w.CPU, "memory": w.Memory, "airgap": w.Airgap, "owner": w.Owner})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, makeTime)
	defer cancel()
	var out bytes.Buffer
	if err := k.run(ctx, bytes.NewReader(wish), &out, nil, "make"); err != nil {
		return nil, fmt.Errorf("make machines: %w", err)
	}
	var made []*commandMachine
	if err := json.Unmarshal(out.Bytes(), &made); err != nil {
		return nil, fmt.Errorf("%s make did not print a JSON list of machines: %w", k.program[0], err)
	}
	var machines []Machine
	counted := true
	for _, m := range made {
		if m == nil || m.ID == "" || m.IP == "" {
			return nil, errors.Join(fmt.Errorf("%s make printed a machine without a name or an address", k.program[0]), removeAll(ctx, machines))
		}
		m.program = k.program
		machines = append(machines, m)
		counted = counted && slices.Contains(m.Can, canEgress)
	}
	if len(made) != w.Count {
		return nil, errors.Join(fmt.Errorf("%s make printed %d machines, not %d", k.program[0], len(made), w.Count), removeAll(ctx, machines))
	}
	if w.Airgap && !counted {
		return nil, errors.Join(fmt.Errorf("%w: %s does not count what leaves its machines", ErrUnable, k.program[0]), removeAll(ctx, machines))
	}
	return machines, nil
}

// Adopt asks each machine whether it is still there. They can do what their test needs, since it has begun on them.
func (k commandKind) Adopt(ctx context.Context, _ Request, kept []Kept) (machines []Machine, err error) {
	for _, m := range kept {
		one := &commandMachine{ID: m.Name, IP: m.Address, Can: []string{canPowerCycle, canEgress, canClock}, program: k.program}
		if _, err := Output(ctx, one, "true"); err != nil {
			return nil, err
		}
		machines = append(machines, one)
	}
	return machines, nil
}

// commandMachine is a machine that the program made.
type commandMachine struct {
	ID      string   `json:"name"`
	IP      string   `json:"address"`
	Can     []string `json:"can"`
	program program
}

func (m *commandMachine) Name() string    { return m.ID }
func (m *commandMachine) Address() string { return m.IP }
func (m *commandMachine) OwnsClock() bool { return slices.Contains(m.Can, canClock) }

func (m *commandMachine) Run(ctx context.Context, c Command) error {
	err := m.program.start(ctx, c, nil, "run", m.ID, c.Script)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return &ExitError{Code: exit.ExitCode()}
	}
	if err != nil {
		return fmt.Errorf("run a script on %s: %w", m.ID, err)
	}
	return nil
}

func (m *commandMachine) Remove(ctx context.Context) error {
	return m.program.run(ctx, nil, nil, nil, "remove", m.ID)
}

// Keep leaves the machine to the user, whose program made it. 'PROGRAM clean' removes it.
func (m *commandMachine) Keep(context.Context) error { return nil }

func (m *commandMachine) Enter() []string {
	return append(slices.Clip(m.program), "run", m.ID, "exec bash")
}

func (m *commandMachine) PowerCycle(ctx context.Context) error {
	if !slices.Contains(m.Can, canPowerCycle) {
		return fmt.Errorf("%w: %s has no %s for %s", ErrUnable, m.program[0], canPowerCycle, m.ID)
	}
	return m.program.run(ctx, nil, nil, nil, canPowerCycle, m.ID)
}

func (m *commandMachine) Egress(ctx context.Context) ([]Connection, error) {
	return m.program.connections(ctx, nil, canEgress, m.ID)
}
