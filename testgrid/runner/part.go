package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/testgrid/gridspec"
	"github.com/sealift/sealift/testgrid/machine"
	"github.com/sealift/sealift/testgrid/report"
)

// part is one part of a test, which becomes a step of the report.
type part struct {
	name  string
	most  time.Duration // it may take
	input any           // everything that decides its result, as JSON
	do    func(context.Context, io.Writer) error
}

// parts lists what the test does, in this order, until one of them fails.
func (c *cell) parts() []part {
	t := c.test
	all := []part{{"preparation", stepTimeout, []any{c.bundle.digest, c.bundle.server, t.Clocks, t.Nodes(), t.Airgap, helpersFor(scripts(t))}, c.prepare}}
	script := func(name, text string) {
		if text != "" {
			all = append(all, part{name, scriptTimeout, text, c.script(text)})
		}
	}
	script("pre-install script", t.PreInstall)
	all = append(all, part{"install", installTimeout, []any{c.bundle.digest, c.bundle.server, t.Flags, c.faults(1, ofInstall)}, c.install})
	for i, j := range t.Joins {
		node := i + 2
		all = append(all, part{fmt.Sprintf("join of node %d", node), installTimeout, []any{j, c.faults(node, ofInstall)},
			func(ctx context.Context, log io.Writer) error { return c.join(ctx, log, node) }})
	}
	script("post-install script", t.PostInstall)
	if t.Upgrade != nil {
		script("pre-upgrade script", t.PreUpgrade)
		all = append(all, part{"upgrade", upgradeTimeout, []any{c.newer.digest, c.newer.server, t.Flags, c.faults(1, ofUpgrade)}, c.upgrade})
		script("post-upgrade script", t.PostUpgrade)
	}
	for _, e := range t.Expect {
		if e.Took == nil {
			all = append(all, part{"expect " + e.String(), e.Within + stepTimeout, e,
				func(ctx context.Context, log io.Writer) error { return c.expect(ctx, log, e) }})
		}
	}
	if t.SupportBundle != "" {
		all = append(all, part{"support bundle of the test", stepTimeout, t.SupportBundle, c.collectOwn})
	}
	if t.Reset {
		all = append(all, part{"reset", stepTimeout, []any{t.Kills, t.PowerCuts, t.CutNetwork}, c.reset})
	}
	return all
}

// faults lists what befalls a node during one command.
func (c *cell) faults(node int, ofCommand func(gridspec.Fault) bool) (all [][]gridspec.Fault) {
	for _, kind := range [][]gridspec.Fault{c.test.Kills, c.test.PowerCuts, c.test.CutNetwork} {
		var mine []gridspec.Fault
		for _, f := range kind {
			if f.Node == node && ofCommand(f) {
				mine = append(mine, f)
			}
		}
		all = append(all, mine)
	}
	return all
}

// digest covers everything that decides the part.
func (p part) digest() (string, error) {
	text, err := json.Marshal([]any{p.name, p.input})
	if err != nil {
		return "", err
	}
	return sha256hex.Of(text), nil
}

var notInFile = regexp.MustCompile(`[^A-Za-z0-9]+`)

// step runs one part of the test with a separate log.
func (c *cell) step(ctx context.Context, p part) error {
	input, err := p.digest()
	if err != nil {
		return err
	}
	begin := time.Now()
	at := len(c.result.Steps)
	s := report.Step{Name: p.name, Verdict: report.Running, Input: input, Begin: report.Since(c.began, begin),
		Log: fmt.Sprintf("%02d-%s.log", at+1, strings.Trim(notInFile.ReplaceAllString(p.name, "-"), "-"))}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(c.dir, s.Log))
	if err != nil {
		return err
	}
	c.result.Steps = append(c.result.Steps, s)
	err = c.note()
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, p.most)
		err = p.do(limited, log)
		if errors.Is(limited.Err(), context.DeadlineExceeded) {
			err = errors.Join(fmt.Errorf("it took longer than %s", p.most), err)
		}
		cancel()
	}
	err = errors.Join(err, log.Close())
	s.Verdict, s.Took = report.Passed, report.Since(begin, time.Now())
	if err != nil {
		s.Verdict, s.Error = report.Failed, err.Error()
		if errors.Is(err, machine.ErrUnable) {
			s.Verdict = report.Skipped
		}
		err = fmt.Errorf("%s: %w", p.name, err)
	}
	c.result.Steps[at] = s
	return err
}

// note reports the progress of the test.
func (c *cell) note() error {
	now := c.result
	now.Took = report.Since(c.began, time.Now())
	return c.runner.folder.Note(now)
}
