package snapshot

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/testing/kubeadm"
	"github.com/sealift/sealift/internal/testing/objects"
	"github.com/sealift/sealift/store"
)

func TestStoreKeepsNewestOfEachControlPlane(t *testing.T) {
	s := controlPlane(t)
	to, keys := pair(t)
	for _, location := range []string{filepath.Join(t.TempDir(), "store"), objects.Start(t).URL("prefix")} {
		place := At(location, store.Opener{})
		if all, err := place.List(t.Context()); err != nil || len(all) > 0 {
			t.Errorf("%s: an empty store has %v, %v", location, all, err)
		}
		_, kept, err := place.Save(t.Context(), s, to...)
		if err != nil {
			t.Fatal(err)
		}
		if last, err := readLast(s.path(node.LastSnapshotFile(node.DefaultRoot))); err != nil || last == nil || last.Store != location || last.Kept != kept {
			t.Errorf("%s: the node remembers %+v, %v, and saved %+v", location, last, err, kept)
		}
		if place.folder != "" {
			if info, err := os.Stat(filepath.Join(place.folder, kept.File)); err != nil || info.Mode().Perm() != 0o600 || info.Size() != kept.Size {
				t.Errorf("%+v: %v, %v", kept, info, err)
			}
		}
		put := func(name string) string {
			values, err := store.Opener{Write: true}.Open(location)
			if err == nil {
				_, err = values.Put(t.Context(), storeFolder+"/"+name, store.Bytes([]byte("x")))
			}
			if err != nil {
				t.Fatal(err)
			}
			return name
		}
		other := func(cluster, node string, age time.Duration) string {
			return put(Name{cluster, node, kept.Time.Add(-age)}.String())
		}
		old := []string{other(kept.Cluster, kept.Node, 3*time.Hour), other(kept.Cluster, kept.Node, 2*time.Hour), other(kept.Cluster, kept.Node, time.Hour)}
		lost := other(kept.Cluster, "a.b-c", 9*time.Hour) // of a control plane that saves no more
		foreign := other("00000000", kept.Node, 10*time.Hour)
		notes := put("notes.txt")
		listed := func(what string, want ...string) {
			t.Helper()
			all, err := place.List(t.Context())
			if err != nil || !slices.Equal(placed(all), want) {
				t.Errorf("%s, %s: %v, want %v, %v", location, what, placed(all), want, err)
			}
		}
		listed("before", foreign, lost, old[0], old[1], old[2], kept.File)
		if _, err := place.Prune(t.Context(), 0); err == nil {
			t.Error("all may be removed")
		}
		removed, err := place.Prune(t.Context(), 2)
		if want := old[:2]; err != nil || !slices.Equal(slices.Sorted(slices.Values(placed(removed))), want) {
			t.Errorf("%s: removed %v, want %v, %v", location, placed(removed), want, err)
		}
		listed("after", foreign, lost, old[2], kept.File)
		values, err := store.Open(location)
		if err == nil {
			_, err = values.Get(t.Context(), storeFolder+"/"+notes)
		}
		if err != nil {
			t.Errorf("what is not a snapshot: %v", err)
		}
		reader := s.reader(t, keys)
		newest, refused, err := place.Newest(t.Context(), func(from io.Reader, k Kept) error {
			reader.Name = k.Name
			_, err := reader.Verify(from)
			return err
		})
		if err != nil || newest.File != kept.File || len(refused) > 0 {
			t.Fatalf("the newest is %+v, refused are %v, %v", newest, refused, err)
		}
		if _, _, err := place.Open(t.Context(), "none"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	}
}

// TestSnapshotsWithWrongClockPruneNoOthers saves while the host's clock is 14 months ahead, and prunes when it is right again.
func TestSnapshotsWithWrongClockPruneNoOthers(t *testing.T) {
	location := t.TempDir()
	values, err := store.Opener{Write: true}.Open(location)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	put := func(at time.Time) string {
		name := Name{"00000000", "a", at}.String()
		if _, err := values.Put(t.Context(), storeFolder+"/"+name, store.Bytes([]byte("x"))); err != nil {
			t.Fatal(err)
		}
		return name
	}
	place := At(location, store.Opener{})
	all := func(io.Reader, Kept) error { return nil }
	if _, _, err := place.Newest(t.Context(), all); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "  ") {
		t.Errorf("an empty store: %v", err)
	}
	old := put(now.Add(-2 * time.Hour))
	recent := []string{put(now.Add(-time.Hour)), put(now)}
	var wrong []string
	for day := range 3 {
		wrong = append(wrong, put(now.AddDate(0, 14, day)))
	}
	removed, err := place.Prune(t.Context(), 2)
	if err != nil || !slices.Equal(placed(removed), []string{old}) {
		t.Errorf("removed %v, want %s, %v", placed(removed), old, err)
	}
	if all, err := place.List(t.Context()); err != nil || !slices.Equal(placed(all), append(recent, wrong...)) {
		t.Errorf("left are %v, %v", placed(all), err)
	}
	if _, _, err := place.Newest(t.Context(), all); err == nil || !strings.Contains(err.Error(), wrong[2]) || !strings.Contains(err.Error(), "set the clock") {
		t.Errorf("the newest: %v", err)
	}
	r, _, err := place.Open(t.Context(), recent[1])
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
}

// TestSnapshotJustSavedStays sets the clock back by ten minutes between two snapshots, and keeps one of them.
func TestSnapshotJustSavedStays(t *testing.T) {
	location := t.TempDir()
	values, err := store.Opener{Write: true}.Open(location)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	var all []string
	for _, at := range []time.Time{now.Add(-time.Hour), now, now.Add(10 * time.Minute)} {
		all = append(all, Name{"00000000", "a", at}.String())
		if _, err := values.Put(t.Context(), storeFolder+"/"+all[len(all)-1], store.Bytes([]byte("x"))); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := At(location, store.Opener{}).Prune(t.Context(), 1)
	if err != nil || !slices.Equal(placed(removed), all[:1]) {
		t.Errorf("removed %v, want the earlier one, %v", placed(removed), err)
	}
}

// TestEmptyEtcdPrunesNoSnapshot loses the namespaces of a cluster, as if etcd had begun without data.
func TestEmptyEtcdPrunesNoSnapshot(t *testing.T) {
	s := controlPlane(t)
	to, _ := pair(t)
	etcd := kubeadm.EtcdClient(t, s.Etcd.Endpoint, s.Etcd.PKI)
	place := At(t.TempDir(), store.Opener{})
	is := func(value string) {
		t.Helper()
		if _, err := etcd.Put(t.Context(), cluster.SystemNamespace, value); err != nil {
			t.Fatal(err)
		}
	}
	saves := func() error {
		_, _, err := place.Save(t.Context(), s, to...)
		return err
	}
	const first, second = "uid 01234567-89ab-cdef-0123-456789abcdef", "uid 11111111-89ab-cdef-0123-456789abcdef"
	for _, value := range []string{first, first + " and a label", "k8s:enc:secretbox:v1:key:"} {
		is(value)
		if err := saves(); err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
	lost := func(what string) {
		t.Helper()
		before, err := place.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := saves(); err == nil || !strings.Contains(err.Error(), "begun without data") || !strings.Contains(err.Error(), node.SnapshotsFile(node.DefaultRoot)) {
			t.Errorf("%s: %v", what, err)
		}
		if all, err := place.List(t.Context()); err != nil || !slices.Equal(all, before) {
			t.Errorf("%s: the store has %v, %v", what, placed(all), err)
		}
		if _, err := s.Save(t.Context(), filepath.Join(t.TempDir(), "snapshot"), to...); err != nil {
			t.Errorf("%s: as a file: %v", what, err)
		}
	}
	if _, err := etcd.Delete(t.Context(), cluster.SystemNamespace); err != nil {
		t.Fatal(err)
	}
	lost("nothing has been made again")
	is(second)
	lost("the API server has made its namespaces again")
	if err := os.Remove(s.path(node.SnapshotsFile(node.DefaultRoot))); err != nil {
		t.Fatal(err)
	}
	if err := saves(); err != nil {
		t.Errorf("a cluster that shall be kept: %v", err)
	}
	is(first)
	lost("the record is that of the cluster that was kept")
}

func TestMemberWithoutLeaderIsRefused(t *testing.T) {
	for _, led := range []bool{true, false} {
		err := (&opened{etcd: &cluster.EtcdSnapshot{Led: led}}).led()
		if (err == nil) != led {
			t.Errorf("led %t: %v", led, err)
		}
	}
}

func placed(all []Kept) (names []string) {
	for _, k := range all {
		names = append(names, k.File)
	}
	return names
}
