package snapshot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/sealift/sealift/installer/recovery/volume"
	"github.com/sealift/sealift/store"
)

// TestHostWithoutClusterAsksWhoSigned reads the newest snapshot of a store behind files that are not snapshots.
func TestHostWithoutClusterAsksWhoSigned(t *testing.T) {
	s := controlPlane(t)
	to, keys := pair(t)
	location := t.TempDir()
	place := At(location, store.Opener{})
	index, kept, err := place.Save(t.Context(), s, to...)
	if err != nil {
		t.Fatal(err)
	}
	newer := Name{kept.Cluster, kept.Node, kept.Time.Add(60e9)}.String()
	if err := os.WriteFile(filepath.Join(location, storeFolder, newer), []byte(strings.Repeat("x", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name   string
		trust  []string
		accept func(string, *UnknownClusterError) bool
		asked  int
		err    string
	}{
		{name: "trusted", trust: []string{index.Cluster}},
		{name: "nobody to ask", err: "no snapshot in "},
		{name: "accepted", accept: func(string, *UnknownClusterError) bool { return true }, asked: 1},
		{name: "not accepted", accept: func(string, *UnknownClusterError) bool { return false }, asked: 1, err: kept.File + ": host-1 signed it"},
		{name: "another cluster is trusted", trust: []string{"sha256:00"}, accept: func(string, *UnknownClusterError) bool { return true }, err: "no snapshot in "},
	} {
		t.Run(row.name, func(t *testing.T) {
			var asked int
			var notes []string
			f := &Finder{Place: place, Trust: Trust{Clusters: row.trust}, Keys: func([]byte) ([]age.Identity, error) { return keys, nil }, Note: func(line string) { notes = append(notes, line) }}
			if row.accept != nil {
				f.Accept = func(name string, signer *UnknownClusterError) bool {
					asked++
					if name != kept.File || signer.Cluster != index.Cluster {
						t.Errorf("asked about %s of %s", name, signer.Cluster)
					}
					return row.accept(name, signer)
				}
			}
			loaded, err := f.Load(t.Context(), "")
			if (err == nil) != (row.err == "") || err != nil && !strings.HasPrefix(err.Error(), row.err) || asked != row.asked || len(notes) == 0 || !strings.HasPrefix(notes[0], "passed over "+newer+" is not a snapshot") {
				t.Fatalf("%v, asked %d times, %q", err, asked, notes)
			}
			if err != nil {
				return
			}
			if found := loaded.Found(); found.File != kept.File || found.Cluster != index.Cluster {
				t.Errorf("found %+v", found)
			}
			if err := loaded.ReadVolumes(t.Context(), func(string) (*volume.Writer, error) { return nil, nil }); err != nil { //nolint:nilnil // skips them
				t.Error(err)
			}
			if err := loaded.Close(); err != nil {
				t.Error(err)
			}
			if list, err := f.List(t.Context()); err != nil || len(list) != 2 || list[0].Signed != index.Cluster || !strings.Contains(list[1].Why, "is not a snapshot") {
				t.Errorf("listed %+v, %v", list, err)
			}
		})
	}
}
