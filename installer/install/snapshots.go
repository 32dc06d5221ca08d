package install

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/cluster/service"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/spec"
)

// Defaults for an Installer with snapshots that sets no interval or count.
const (
	defaultEvery = 24 * time.Hour
	defaultKeep  = 7
)

// snapshotStep installs the timer on a control plane.
const snapshotStep = "node/snapshots"

// readSnapshots reads the Installer's snapshots. wanted is false if it has none.
func readSnapshots(o spec.Options) (s service.Snapshots, wanted bool, err error) {
	if len(o) == 0 {
		return s, false, nil
	}
	s = service.Snapshots{Every: defaultEvery, Keep: defaultKeep, Store: snapshot.DefaultStore, Key: word(o, "key")}
	if !strings.HasPrefix(s.Key, "age1") {
		return s, true, fmt.Errorf("the Installer's snapshots.key is %q; name a public key such as age1…, which 'sealift snapshot key' prints", s.Key)
	}
	if _, err := snapshot.Recipients(s.Key); err != nil {
		return s, true, fmt.Errorf("the Installer's snapshots.key: %w", err)
	}
	if every := word(o, "every"); every != "" {
		if s.Every, err = time.ParseDuration(every); err != nil || s.Every < time.Minute {
			return s, true, fmt.Errorf("the Installer's snapshots.every is %q; name a time of at least one minute, such as 24h", every)
		}
	}
	if keep := word(o, "keep"); keep != "" {
		if s.Keep, err = strconv.Atoi(keep); err != nil || s.Keep < 1 {
			return s, true, fmt.Errorf("the Installer's snapshots.keep is %q; it must be at least 1", keep)
		}
	}
	s.Volumes = isTrue(o, "volumes")
	if location := word(o, "store"); location != "" {
		if !filepath.IsAbs(location) && !strings.HasPrefix(location, "s3://") {
			return s, true, fmt.Errorf("the Installer's snapshots.store is %q; name a folder such as %s, or s3://bucket/prefix", location, snapshot.DefaultStore)
		}
		s.Store = location
	}
	return s, true, nil
}

// SnapshotInterval is how often the Installer has control planes save snapshots; 0 if it does not.
func SnapshotInterval(s *spec.Installer) (time.Duration, error) {
	read, _, err := readSnapshots(s.Section("snapshots").Options)
	return read.Every, err
}

func (c *contents) checkSnapshots() error {
	_, _, err := readSnapshots(c.spec.Section("snapshots").Options)
	return err
}

// snapshots adds the step by which a control plane saves snapshots, or stops to do so.
func (p *planner) snapshots(phase lifecycle.Phase) {
	s, wanted, err := readSnapshots(p.spec.Section("snapshots").Options)
	switch {
	case err != nil: // checkSnapshots reported it
	case wanted:
		p.add(lifecycle.Step{ID: snapshotStep, Phase: phase, Title: fmt.Sprintf("save a snapshot every %v", s.Every), Timeout: shortTime,
			Inputs: lifecycle.Digest(s.Units(p.options.Root))}, func(i *Install, ctx context.Context) (lifecycle.State, error) {
			return nil, s.Start(ctx, i.options.Root, i.Log)
		})
	case p.past.Began(snapshotStep):
		p.add(lifecycle.Step{ID: snapshotStep, Phase: phase, Title: "save no snapshots any more", Timeout: shortTime, Inputs: lifecycle.Digest()},
			func(i *Install, ctx context.Context) (lifecycle.State, error) {
				return nil, service.StopSnapshots(ctx, i.Log)
			})
	}
}
