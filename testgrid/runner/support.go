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
	"strings"

	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/testgrid/machine"
	"github.com/sealift/sealift/testgrid/report"
)

// maxAnalysis bounds the output of analyzers that is read, in bytes.
const maxAnalysis = 4 << 20

// collect takes a support bundle from each machine that has sealift.
func (c *cell) collect(ctx context.Context, log io.Writer) error {
	var errs []error
	for i, m := range c.machines {
		const made = carried + "/support.tar.gz"
		script := "command -v sealift || exit 0; mkdir -p " + carried + "; rm -f " + made + "; sealift support-bundle --out " + made
		if err := m.Run(ctx, machine.Command{Script: script, Stdout: log, Stderr: log}); err != nil {
			errs = append(errs, fmt.Errorf("node %d: %w", i+1, err))
		}
		if _, err := machine.Output(ctx, m, "test -s "+made); err != nil {
			continue
		}
		name := fmt.Sprintf("support-bundle-%d.tar.gz", i+1)
		f, err := os.Create(filepath.Join(c.dir, name))
		if err == nil {
			err = errors.Join(machine.Get(ctx, m, made, f), f.Close())
		}
		if err == nil {
			c.result.Files = append(c.result.Files, name)
			err = c.analyse(i+1, filepath.Join(c.dir, name))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// analyse takes what the add-ons' analyzers say of a node from its support bundle.
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
