package status

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/internal/diskspace"
	"github.com/sealift/sealift/internal/fips"
	"github.com/sealift/sealift/internal/testing/fixture"
)

func TestPromisedAndSavedSnapshotsAreReported(t *testing.T) {
	t.Parallel()
	fixture.Unapproved(t, fips.Snapshots)
	_, key, err := snapshot.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	const head = "apiVersion: sealift.dev/v1\nkind: Installer\nmetadata: {name: x}\nspec:\n  kubernetes: {version: 1.0.0}\n"
	saved := `{"store":"/backups","file":"snapshot-1","cluster":"01234567","node":"a","time":"2026-11-27T10:00:00Z","size":5}`
	for name, row := range map[string]struct {
		installer, last, drill string
		every                  float64
		saved, drilled         bool
		problem                string
	}{
		"a worker":           {},
		"no promise":         {installer: head},
		"a promise":          {installer: head + "  snapshots: {key: " + key + ", every: 6h}\n", every: 21600},
		"one by hand":        {installer: head, last: saved, saved: true},
		"kept":               {installer: head + "  snapshots: {key: " + key + "}\n", last: saved, drill: `{"time":"2026-11-01T00:00:00Z","passed":true}`, every: 86400, saved: true, drilled: true},
		"a damaged record":   {last: "{", problem: "last-snapshot.json is damaged"},
		"a damaged drill":    {drill: "{", problem: "last-drill.json is damaged"},
		"a broken Installer": {installer: "nonsense", problem: "Installer of the cluster"},
	} {
		root := t.TempDir()
		for file, text := range map[string]string{node.InstallerFile(root): row.installer, node.LastSnapshotFile(root): row.last, node.LastDrillFile(root): row.drill} {
			if text == "" {
				continue
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		var s Status
		s.readRecovery(root)
		got := Snapshots{}
		if s.Snapshots != nil {
			got = *s.Snapshots
		}
		if got.Every != row.every || (got.Last != nil) != row.saved || (s.Drill != nil) != row.drilled || !strings.Contains(got.Problem, row.problem) || (got.Problem == "") != (row.problem == "") {
			t.Errorf("%s: %+v, %+v", name, got, s.Drill)
		}
		if row.saved && (got.Last.Store != "/backups" || got.Last.Time.IsZero() || got.Last.File != "snapshot-1") {
			t.Errorf("%s: %+v", name, got.Last)
		}
	}
}

func TestSpaceForNextUpgradeAddsUpOnOneDisk(t *testing.T) {
	t.Parallel()
	if got, err := spaceFor(node.Content{}, "/"); got != nil || err != nil {
		t.Errorf("without a forecast: %v, %v", got, err)
	}
	same, err := diskspace.Of(node.ContainerdDir)
	if err != nil {
		t.Fatal(err)
	}
	for root, files := range map[string]uint64{"/var/lib": 7, "/dev/shm": 7} {
		of, err := diskspace.Of(root)
		if err != nil {
			t.Fatal(err)
		}
		images, all := uint64(1<<60), files
		if of.Device == same.Device {
			images, all = images+files, images+files
		}
		got, err := spaceFor(node.Content{Files: files, Images: 1 << 60}, root)
		if err != nil || len(got) != 2 || got[0].Path != node.ContainerdDir || got[0].Needed != images || got[1].Path != root || got[1].Needed != all {
			t.Errorf("%s: %+v, %v", root, got, err)
		}
		if !got[0].Short() || got[0].Free == 0 || got[1].Short() != (of.Device == same.Device) {
			t.Errorf("%s: %+v", root, got)
		}
	}
}
