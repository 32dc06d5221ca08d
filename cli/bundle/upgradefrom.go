package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"

	"github.com/sealift/sealift/assemble"
	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/catalog/packages"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/spec"
	"github.com/sealift/sealift/spec/record"
)

// cluster is a cluster that a bundle is to upgrade.
type cluster struct {
	kubernetes string         // the version that it runs; "" for no cluster
	record     *record.Record // nil if no more than the version is known
}

var startsAsVersion = regexp.MustCompile(`^[0-9]+\.[0-9]`)

// readCluster reads --upgrade-from: a version of Kubernetes, or the file of a record.
func readCluster(text string) (c cluster, err error) {
	if text == "" || startsAsVersion.MatchString(text) {
		return cluster{kubernetes: text}, nil
	}
	r, err := record.Load(text)
	if errors.Is(err, fs.ErrNotExist) {
		return c, app.UsageError("--upgrade-from %s: %q is neither a version of Kubernetes such as 1.34.4 nor a file", text, text)
	}
	if err != nil {
		return c, fmt.Errorf("--upgrade-from: %w", err)
	}
	return cluster{r.Kubernetes, &r}, nil
}

// steps are the minor versions of Kubernetes between the cluster's and an Installer's, as patterns.
func (c cluster) steps(installer *spec.Installer) (steps []spec.AddOn, err error) {
	if c.kubernetes == "" {
		return nil, nil
	}
	to := installer.AddOn("kubernetes")
	var major, minor [2]int
	for n, version := range []string{c.kubernetes, to.Version} {
		if _, err := fmt.Sscanf(version+".", "%d.%d.", &major[n], &minor[n]); err != nil {
			return nil, app.UsageError("--upgrade-from %s: %q is not a version of Kubernetes such as 1.34.4", c.kubernetes, version)
		}
	}
	if major[0] != major[1] || minor[0] > minor[1] {
		return nil, app.UsageError("--upgrade-from %s: the Installer has Kubernetes %s, which is no newer", c.kubernetes, to.Version)
	}
	for between := minor[0] + 1; between < minor[1]; between++ {
		steps = append(steps, spec.AddOn{Name: to.Name, Version: fmt.Sprintf("%d.%d.x", major[0], between), Pos: to.Pos})
	}
	return steps, nil
}

// has adds the files that the cluster has, as far as the store has the same builds of its packages.
func (a commands) has(ctx context.Context, e *earlier, c cluster, from packages.Source, platforms []string) error {
	if c.record == nil {
		return nil
	}
	var same []bundle.InstalledPackage
	for _, p := range c.record.Packages {
		object, archive, found, err := assemble.OpenBuild(ctx, assemble.Build{Name: p.Name, Version: p.Version, Index: p.Index}, from, platforms)
		if err != nil {
			return err
		}
		if !found {
			fmt.Fprintf(a.Err, "the store lacks %s %s as the cluster has it: the bundle leaves out none of its files\n", p.Name, p.Version)
			continue
		}
		e.open, e.archives = append(e.open, object), append(e.archives, archive)
		same = append(same, bundle.InstalledPackage{Archive: archive, Lean: p.Lean})
	}
	if len(same) > 0 {
		e.since = bundle.SinceInstalled(c.record.Bundle, same)
	}
	return nil
}
