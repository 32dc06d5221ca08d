package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/testgrid/machine"
	"github.com/sealift/sealift/testgrid/report"
)

// facts has the data of earlier parts of a test for later ones. They are beside the result, for a run that resumes the test.
type facts struct {
	Looks    [][]string     `json:"looks"`    // of each machine, before anything was installed
	Received []int64        `json:"received"` // bytes that each machine had received by then
	Inside   []netip.Prefix `json:"inside"`   // networks of the cluster
}

const factsName = "facts.json"

func (f facts) save(dir string) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, factsName), text)
}

func (f *facts) load(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, factsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the preparation did not pass, and is repeated
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, f)
}

// enterable lists machines as a report has them.
func enterable(machines []machine.Machine) (all []report.Machine) {
	for _, m := range machines {
		entry := report.Machine{Name: m.Name(), Address: m.Address()}
		if e, ok := m.(machine.Enterer); ok {
			entry.Enter = e.Enter()
		}
		all = append(all, entry)
	}
	return all
}

// reuseMachines reuses the machines that the earlier attempt has kept.
func (c *cell) reuseMachines(ctx context.Context, w machine.Request) ([]machine.Machine, error) {
	const next = "run without --resume to begin with bare machines"
	keeper, ok := c.runner.Hosts.Kind(c.system).(machine.Adopter)
	if !ok || len(c.earlier.Machines) != w.Count {
		return nil, fmt.Errorf("an earlier run kept %d machines, but the test needs %d that can be reused; %s", len(c.earlier.Machines), w.Count, next)
	}
	var kept []machine.Kept
	for _, m := range c.earlier.Machines {
		kept = append(kept, machine.Kept{Name: m.Name, Address: m.Address})
	}
	machines, err := keeper.Adopt(ctx, w, kept)
	if err != nil {
		return nil, fmt.Errorf("reuse the machines of an earlier run: %w; %s", err, next)
	}
	c.result.Resumed = true
	for _, s := range c.earlier.Steps {
		if s.Verdict != report.Passed {
			break
		}
		c.passed = append(c.passed, s)
	}
	return machines, c.facts.load(c.dir)
}

// resumable runs a part, unless it has passed on these machines with the same input, as all parts before it have.
func (c *cell) resumable(ctx context.Context, p part) error {
	input, err := p.digest()
	if err != nil {
		return err
	}
	at := len(c.result.Steps)
	if at < len(c.passed) && c.passed[at].Input == input {
		c.result.Steps = append(c.result.Steps, c.passed[at])
		return nil
	}
	if len(c.passed) > 0 {
		c.result.Warnings = append(c.result.Warnings, fmt.Sprintf("resumed with %q, on the machines of an earlier attempt", p.name))
	}
	c.passed = nil
	return c.step(ctx, p)
}
