package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/internal/shellword"
	"github.com/sealift/sealift/testgrid/gridspec"
	"github.com/sealift/sealift/testgrid/machine"
	"github.com/sealift/sealift/testgrid/scenario"
)

// environment lets scripts of tests use kubectl as kURL's do.
const environment = "export KUBECONFIG=/etc/kubernetes/admin.conf PATH=/usr/local/bin:$PATH; cd /root; "

// script runs a script of the test on the first node.
func (c *cell) script(text string) func(context.Context, io.Writer) error {
	return func(ctx context.Context, log io.Writer) error {
		return c.machines[0].Run(ctx, machine.Command{Script: environment + "exec bash -euxo pipefail -c " + shellword.Quote(text), Stdout: log, Stderr: log})
	}
}

// install installs the bundle on the first node, or the server's packages.
func (c *cell) install(ctx context.Context, log io.Writer) error {
	command := "cd " + carried + " && exec bash -s airgap " + c.arguments() + " <install.sh"
	if c.bundle.server != "" {
		url, err := c.register(ctx, c.bundle)
		if err != nil {
			return err
		}
		command = piped(url, c.arguments())
	}
	if err := c.interrupt(ctx, log, 1, command, ofInstall); err != nil {
		return err
	}
	return c.findNetworks(ctx)
}

// join adds a node with the command that the first one prints.
func (c *cell) join(ctx context.Context, log io.Writer, node int) error {
	j := c.test.Joins[node-2]
	create := "sealift token create"
	if j.Role == gridspec.ControlPlane {
		create += " --control-plane"
	}
	if c.bundle.server != "" {
		url, err := c.register(ctx, c.bundle)
		if err != nil {
			return err
		}
		create += " --from " + shellword.Quote(url)
	}
	command, err := machine.Output(ctx, c.machines[0], environment+create)
	if err != nil {
		return fmt.Errorf("make a command for node %d: %w", node, err)
	}
	return c.interrupt(ctx, log, node, command+" "+words(j.Flags), ofInstall)
}

// upgrade upgrades all nodes with one command on the first one.
func (c *cell) upgrade(ctx context.Context, log io.Writer) error {
	if c.newer.server != "" {
		url, err := c.register(ctx, c.newer)
		if err != nil {
			return err
		}
		return c.interrupt(ctx, log, 1, piped(url+"/upgrade.sh", "yes "+c.arguments()), ofUpgrade)
	}
	const newer = carried + "/upgrade"
	if err := c.carry(ctx, c.newer, newer, "upgrade.sh"); err != nil {
		return err
	}
	return c.interrupt(ctx, log, 1, "cd "+newer+" && exec bash -s airgap yes "+c.arguments()+" <upgrade.sh", ofUpgrade)
}

// reset takes everything back, from the last node to the first, and compares each machine with how it was.
func (c *cell) reset(ctx context.Context, log io.Writer) error {
	for node := len(c.machines); node > 0; node-- {
		m := c.machines[node-1]
		const program = "/var/tmp/sealift-testgrid" // outlives the reset
		if _, err := machine.Output(ctx, m, "cp /usr/local/bin/sealift "+program); err != nil {
			return err
		}
		if err := c.interrupt(ctx, log, node, "exec "+program+" reset --yes", ofReset); err != nil {
			return err
		}
		if node > 1 { // the cluster forgets the node
			name, err := machine.Output(ctx, m, "hostname")
			if err == nil {
				_, err = machine.Output(ctx, c.machines[0], environment+"sealift node remove --yes "+shellword.Quote(name))
			}
			if err != nil {
				return err
			}
		}
		looks, err := machine.Output(ctx, m, scenario.StateScript)
		if err != nil {
			return err
		}
		explained := append(scenario.Kept(), " transient", "running systemd-timedated.service", program, carried)
		differences := scenario.Differences(c.facts.Looks[node-1], strings.Split(looks, "\n"), explained...)
		var own []string
		for _, line := range differences {
			if !strings.Contains(line, carried) {
				own = append(own, line)
			}
		}
		if len(own) > 0 {
			return fmt.Errorf("%s differs from its state before the install:\n%s", m.Name(), strings.Join(own, "\n"))
		}
	}
	return nil
}

// ofInstall, ofReset and ofUpgrade distinguish the faults of the commands.
func ofInstall(f gridspec.Fault) bool { return !f.Upgrade && !ofReset(f) }
func ofReset(f gridspec.Fault) bool   { return !f.Upgrade && strings.HasPrefix(f.Step, "reset/") }
func ofUpgrade(f gridspec.Fault) bool { return f.Upgrade }

// kurlPatch is where a pre-install script may write a patch, which kURL's runner passes to the installer.
const kurlPatch = "/opt/kurl-testgrid/patchfile.yaml"

// arguments are those of the install and of the upgrade, for a shell on the first node.
func (c *cell) arguments() string {
	return words(c.test.Flags) + " $(test ! -e " + kurlPatch + " || echo installer-spec-file=" + kurlPatch + ")"
}

// words makes arguments of a test's flags. A flag has no spaces in it, as for kURL.
func words(flags string) string {
	var quoted []string
	for flag := range strings.FieldsSeq(flags) {
		quoted = append(quoted, shellword.Quote(flag))
	}
	return strings.Join(quoted, " ")
}

// interrupt runs a command on a node until it succeeds: once for each fault that the test has for its steps, and once undisturbed.
func (c *cell) interrupt(ctx context.Context, log io.Writer, node int, command string, ofCommand func(gridspec.Fault) bool) error {
	m := c.machines[node-1]
	for _, f := range c.test.Kills {
		if f.Node != node || !ofCommand(f) {
			continue
		}
		fmt.Fprintf(log, "== SIG%s %s after step %s begins\n", f.Signal, f.After, f.Step)
		err := m.Run(ctx, machine.Command{Script: scenario.Interruption{Command: command, Step: f.Step, Record: "started", After: f.After, Signal: f.Signal}.Script(), Stdout: log, Stderr: log})
		var exit *machine.ExitError
		switch {
		case errors.As(err, &exit) && exit.Code == scenario.NotRecorded:
			return fmt.Errorf("step %s never started, so nothing was killed", f.Step)
		case errors.As(err, &exit) && exit.Code == scenario.DidNotEnd:
			return fmt.Errorf("SIG%s in step %s did not terminate the command", f.Signal, f.Step)
		case err == nil:
			return fmt.Errorf("the command succeeded before SIG%s was due, %s after the start of step %s, so nothing was killed; give a shorter time", f.Signal, f.After, f.Step)
		case err != nil && !errors.As(err, &exit):
			return err
		}
	}
	for _, f := range c.test.PowerCuts {
		if f.Node != node || !ofCommand(f) {
			continue
		}
		if err := c.during(ctx, log, m, command, f, func(ctx context.Context) error {
			fmt.Fprintf(log, "== %s loses its power in step %s\n", m.Name(), f.Step)
			return m.(machine.PowerCycler).PowerCycle(ctx)
		}); err != nil {
			return err
		}
	}
	for _, f := range c.test.CutNetwork {
		if f.Node != node || !ofCommand(f) {
			continue
		}
		if err := c.during(ctx, log, m, command, f, func(ctx context.Context) error {
			fmt.Fprintf(log, "== %s has no network for %s in step %s\n", m.Name(), f.Lasts, f.Step)
			restore, err := m.(machine.NetworkCutter).CutNetwork(ctx)
			if err != nil {
				return err
			}
			return errors.Join(poll.Pause(ctx, f.Lasts), restore(context.WithoutCancel(ctx)))
		}); err != nil {
			return err
		}
	}
	return m.Run(ctx, machine.Command{Script: command, Stdout: log, Stderr: log})
}

// during runs a command, and does something when one of its steps has begun. How the command ends does not matter.
func (c *cell) during(ctx context.Context, log io.Writer, m machine.Machine, command string, f gridspec.Fault, do func(context.Context) error) error {
	ended := make(chan struct{})
	working, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		<-ended
	}()
	go func() {
		defer close(ended)
		err := m.Run(working, machine.Command{Script: command, Stdout: log, Stderr: log})
		fmt.Fprintf(log, "== the command ended: %v\n", err)
	}()
	err := m.Run(ctx, machine.Command{Script: scenario.Await(f.Step, "started", stepTimeout)})
	if err != nil {
		return fmt.Errorf("wait for the start of step %s: %w", f.Step, err)
	}
	if err := errors.Join(poll.Pause(ctx, f.After), do(ctx)); err != nil {
		return err
	}
	if f.Lasts > 0 { // a cut network may let the command succeed
		select {
		case <-ended:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}
