package runner

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/testgrid/machine"
	"github.com/sealift/sealift/testgrid/report"
)

// maxAnalysis bounds the output of analyzers that is read, in bytes.
const maxAnalysis = 4 << 20

// collect collects a support bundle from each machine that has sealift.
func (c *cell) collect(ctx context.Context, log io.Writer) error {
	var errs []error
	for i := range c.machines {
		errs = append(errs, c.collectFrom(ctx, log, i+1, ""))
	}
	return errors.Join(errs...)
}

// collectOwn collects the support bundle that the test requests from the first machine. As in kURL, an analyzer that fails or
// warns fails the test.
func (c *cell) collectOwn(ctx context.Context, log io.Writer) error {
	const file = carried + "/supportbundle.yaml"
	before := len(c.result.Analysis)
	if err := machine.Put(ctx, c.machines[0], strings.NewReader(c.test.SupportBundle), file, "0600"); err != nil {
		return err
	}
	if err := c.collectFrom(ctx, log, 1, "--spec "+file); err != nil {
		return err
	}
	var errs []error
	for _, a := range c.result.Analysis[before:] {
		errs = append(errs, fmt.Errorf("%s: %s: %s", a.Status, a.Check, a.Message))
	}
	return errors.Join(errs...)
}

// collectFrom collects a support bundle from a machine.
func (c *cell) collectFrom(ctx context.Context, log io.Writer, node int, flags string) error {
	m := c.machines[node-1]
	const made = carried + "/support.tar.gz"
	script := "command -v sealift || exit 0; mkdir -p " + carried + "; rm -f " + made + "; sealift support-bundle --out " + made + " " + flags
	err := m.Run(ctx, machine.Command{Script: script, Stdout: log, Stderr: log})
	if err != nil {
		err = fmt.Errorf("node %d: %w", node, err)
	}
	if _, missing := machine.Output(ctx, m, "test -s "+made); missing != nil {
		return err
	}
	name := fmt.Sprintf("support-bundle-%d.tar.gz", node)
	for n := 2; slices.Contains(c.result.Files, name); n++ {
		name = fmt.Sprintf("support-bundle-%d-%d.tar.gz", node, n)
	}
	f, failed := os.Create(filepath.Join(c.dir, name))
	if failed == nil {
		failed = errors.Join(machine.Get(ctx, m, made, f), f.Close())
	}
	if failed == nil {
		c.result.Files = append(c.result.Files, name)
		failed = c.analyse(node, filepath.Join(c.dir, name))
	}
	return errors.Join(err, failed)
}

// analyse reads the results of the add-ons' analyzers for a node from its support bundle.
func (c *cell) analyse(node int, bundle string) error {
	f, err := os.Open(bundle)
	if err != nil {
		return err
	}
	defer f.Close()
	results, err := readAnalysis(f)
	if err != nil {
		return fmt.Errorf("read the analysis of node %d: %w", node, err)
	}
	for _, r := range results {
		if r.Status != preflight.Pass {
			c.result.Analysis = append(c.result.Analysis, report.Analysis{Node: node, Check: r.Check, Status: string(r.Status), Message: r.Message, Hint: r.Hint})
		}
	}
	return nil
}

// readAnalysis finds the file with the analysis directly below the folder of a support bundle. One without analyzers has none.
func readAnalysis(bundle io.Reader) (results []preflight.Result, err error) {
	zip, err := gzip.NewReader(bundle)
	if err != nil {
		return nil, err
	}
	archive := tar.NewReader(zip)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if name := path.Clean(header.Name); path.Base(name) != "analysis.json" || strings.Count(name, "/") != 1 {
			continue
		}
		return results, json.NewDecoder(io.LimitReader(archive, maxAnalysis)).Decode(&results)
	}
}
