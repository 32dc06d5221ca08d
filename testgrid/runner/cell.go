package runner

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/sealift/sealift/internal/transfer"
	"github.com/sealift/sealift/testgrid/gridspec"
	"github.com/sealift/sealift/testgrid/machine"
	"github.com/sealift/sealift/testgrid/report"
	"github.com/sealift/sealift/testgrid/scenario"
)

// The times that the parts of a test may take. They are kURL's (kURL §7.1).
const (
	installTimeout = 60 * time.Minute
	scriptTimeout  = 60 * time.Minute
	upgradeTimeout = 6 * time.Hour
	stepTimeout    = 20 * time.Minute // for everything else
	removeTimeout  = 20 * time.Minute // for all machines of a test
	cleanTimeout   = 60 * time.Minute // for all that earlier runs have left on a system
)

// cell is one job while it runs.
type cell struct {
	runner   *runner
	test     gridspec.Test
	system   string
	bundle   *bundle // of the install
	newer    *bundle // of the upgrade, or nil
	dir      string  // of the logs
	result   report.Result
	began    time.Time
	machines []machine.Machine
	facts    facts
	earlier  *report.Result // whose machines this attempt continues with, or nil
	passed   []report.Step  // of the earlier attempt, those that need not run again
}

func newCell(r *runner, j job, b, newer *bundle, digest string) *cell {
	c := &cell{runner: r, test: j.test, system: j.system, bundle: b, newer: newer, dir: r.folder.Dir(j.test.ID, j.system, j.attempt), began: time.Now()}
	c.result = report.Result{Test: j.test.ID, Name: j.test.Name, System: j.system, Attempt: j.attempt, Digest: digest, Started: c.began.UTC()}
	c.result.Reproduce = fmt.Sprintf("sealift testgrid run %s --hosts HOSTS.yaml --store %s --out REPORT --test %s --system %s", j.file, transfer.Shown(r.Store), j.test.ID, j.system)
	if server := strings.TrimRight(r.Server, "/"); server != "" && !j.test.Airgap {
		c.result.Reproduce += " --server " + server
	}
	if b != nil {
		c.result.Bundle, c.result.Installer, c.result.Packages = b.digest, b.text, maps.Clone(b.packages)
	}
	if newer != nil {
		maps.Copy(c.result.Packages, newer.packages)
	}
	return c
}

// kurlHelpers is the file of functions that kURL's runner puts on its hosts.
const kurlHelpers = "/opt/kurl-testgrid/testhelpers.sh"

// helpers are the functions, without those for kURL's own application.
//
//go:embed testhelpers.sh
var helpers string

// kurlApplication is the suffix of functions that install an application which kURL's servers distribute.
const kurlApplication = "_kurl_integration_test_application"

// helpersFor returns the functions that scripts call, or "" if they call none.
func helpersFor(scripts string) string {
	if strings.Contains(scripts, kurlHelpers) {
		return helpers
	}
	return ""
}

func scripts(t gridspec.Test) string {
	return t.PreInstall + t.PostInstall + t.PreUpgrade + t.PostUpgrade
}

// unable returns why a test cannot run, or "".
func (j job) unable() string {
	t := j.test
	scripts := scripts(t)
	switch {
	case !t.Supports(j.system):
		return "the test refuses this system"
	case ofKurl(t.InstallEndpoint) || ofKurl(t.UpgradeEndpoint):
		return "needs the installer of kURL's own server"
	case t.Airgap && t.InstallEndpoint+t.UpgradeEndpoint != "":
		return "names a server of Installers, and has no network to reach it"
	case t.Install.Section("kurl").Options["installerVersion"] != nil && t.Install.Section("kurl").Options["installerVersion"] != "":
		return "needs an old release of kURL"
	case strings.Contains(scripts, kurlApplication):
		return "its scripts install kURL's test application, which only kURL's servers give out"
	}
	return ""
}

func (c *cell) skip(reason string) { c.result.Verdict, c.result.Reason = report.Skipped, reason }

func (c *cell) fail(err error) {
	if c.result.Verdict == report.Failed {
		return // the first reason counts
	}
	c.result.Verdict, c.result.Reason = report.Failed, err.Error()
}

func (c *cell) finish() report.Result {
	c.result.Took = report.Since(c.began, time.Now())
	return c.result
}

// run runs the test. The machines are gone afterwards, unless they are to be kept.
func (c *cell) run(ctx context.Context) {
	var err error
	if c.machines, err = c.take(ctx); err == nil {
		c.result.Machines = enterable(c.machines)
		c.began = time.Now() // tests may wait for machines for hours
		c.result.Started = c.began.UTC()
		err = c.steps(ctx)
	}
	switch {
	case errors.Is(err, machine.ErrUnable):
		c.skip(err.Error())
	case err != nil:
		c.fail(err)
	default:
		c.result.Verdict = report.Passed
	}
	if len(c.machines) > 0 {
		c.violations(ctx)
	}
	if c.result.Verdict == report.Failed && len(c.machines) > 0 {
		_ = c.step(ctx, part{name: "support bundle", most: stepTimeout, do: c.collect}) // its log has the reason
	}
	c.release(ctx)
}

// steps returns the error of the first step that fails.
func (c *cell) steps(ctx context.Context) error {
	for _, p := range c.parts() {
		if err := c.resumable(ctx, p); err != nil {
			return err
		}
	}
	c.checkTimes()
	return nil
}

// carried is the folder on a machine for delivered files.
const carried = "/root/sealift-testgrid"

// take waits for bare machines, or reuses those that an earlier attempt has kept.
func (c *cell) take(ctx context.Context) ([]machine.Machine, error) {
	wish := machine.Request{System: c.system, Count: c.test.Nodes(), CPU: c.test.CPU, Memory: c.test.Memory, Airgap: c.test.Airgap, Owner: c.runner.owner()}
	if c.earlier != nil {
		return c.reuseMachines(ctx, wish)
	}
	machines, err := c.runner.Hosts.Make(ctx, wish)
	if err != nil {
		return nil, fmt.Errorf("acquire bare machines: %w", err)
	}
	return machines, nil
}

// prepare describes the machines, and puts the bundle on the first one if the test installs from it.
func (c *cell) prepare(ctx context.Context, log io.Writer) error {
	for i, m := range c.machines {
		fmt.Fprintf(log, "node %d is %s at %s\n", i+1, m.Name(), m.Address())
	}
	if err := c.able(); err != nil {
		return err
	}
	if c.bundle.server == "" {
		if err := c.carry(ctx, c.bundle, carried, "install.sh"); err != nil {
			return err
		}
	}
	if text := helpersFor(scripts(c.test)); text != "" {
		if err := machine.Put(ctx, c.machines[0], strings.NewReader(text), kurlHelpers, "0644"); err != nil {
			return err
		}
	}
	for _, clock := range c.test.Clocks {
		if err := setClock(ctx, c.machines[clock.Node-1], clock.Offset); err != nil {
			return err
		}
	}
	for _, m := range c.machines {
		looks, err := machine.Output(ctx, m, scenario.StateScript)
		if err != nil {
			return err
		}
		received, err := receivedBytes(ctx, m)
		if err != nil {
			return err
		}
		c.facts.Looks, c.facts.Received = append(c.facts.Looks, strings.Split(looks, "\n")), append(c.facts.Received, received)
	}
	return c.facts.save(c.dir)
}

// carry puts a bundle and one of its scripts on the first machine.
func (c *cell) carry(ctx context.Context, b *bundle, to, script string) error {
	f, err := os.Open(b.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := machine.Put(ctx, c.machines[0], f, to+"/cluster.tar.gz", "0644"); err != nil {
		return err
	}
	_, err = machine.Output(ctx, c.machines[0], "cd "+to+" && tar xzf cluster.tar.gz --occurrence=1 "+script)
	return err
}

// able finds out before the install what the machines do not support.
func (c *cell) able() error {
	m := c.machines[0]
	_, cuts := m.(machine.NetworkCutter)
	_, cycles := m.(machine.PowerCycler)
	clock, owns := m.(machine.ClockOwner)
	switch {
	case len(c.test.CutNetwork) > 0 && !cuts:
		return fmt.Errorf("%w: the network of %s cannot be cut", machine.ErrUnable, m.Name())
	case len(c.test.PowerCuts) > 0 && !cycles:
		return fmt.Errorf("%w: %s cannot be power-cycled", machine.ErrUnable, m.Name())
	case len(c.test.Clocks) > 0 && (!owns || !clock.OwnsClock()):
		return fmt.Errorf("%w: %s does not have its own clock", machine.ErrUnable, m.Name())
	}
	return nil
}

// setClock moves the clock of a machine that owns it.
func setClock(ctx context.Context, m machine.Machine, by time.Duration) error {
	_, err := machine.Output(ctx, m, fmt.Sprintf("timedatectl set-ntp false 2>/dev/null || true; date -s @$(($(date +%%s) + %d))", int(by.Seconds())))
	return err
}

// release removes the machines, or keeps those of a failed test.
func (c *cell) release(ctx context.Context) {
	var errs []error
	var kept []report.Machine
	removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	for _, m := range c.machines {
		keeper, can := m.(machine.Keeper)
		if c.runner.KeepFailed && c.result.Verdict == report.Failed && can && ctx.Err() == nil {
			err := keeper.Keep(ctx)
			if err == nil {
				kept = append(kept, enterable([]machine.Machine{m})...)
				continue
			}
			errs = append(errs, err)
		}
		errs = append(errs, m.Remove(removing))
	}
	c.result.Machines = kept
	if err := errors.Join(errs...); err != nil {
		c.fail(fmt.Errorf("remove the machines: %w", err))
	}
}
