package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/recovery/volume"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/store"
)

func TestForgedSnapshotIsRefused(t *testing.T) {
	ca, stranger := fixture.CA(t), fixture.CA(t)
	to, keys := pair(t)
	r := Reader{Keys: keys, Trust: Trust{Clusters: []string{authority(t, ca).hash()}}}
	whole := handmadeBy(t, ca).pack(t, to)
	if index, err := r.Verify(bytes.NewReader(whole)); err != nil || !index.Signed() {
		t.Fatalf("the cluster's own: %+v, %v", index, err)
	}
	for name, row := range map[string]struct {
		forge func(h *handmade)
		says  string
	}{
		"unsigned":                         {func(h *handmade) { h.seal = nil }, "where " + headSealName + " is expected"},
		"of a format without signatures":   {func(h *handmade) { h.seal, h.Format = nil, volumeFormat }, "give --allow-unsigned"},
		"by another cluster":               {func(h *handmade) { *h = handmadeBy(t, stranger) }, "a control plane of the cluster with the CA " + authority(t, stranger).hash()},
		"by another cluster, in our name":  {func(h *handmade) { h.seal = authority(t, stranger).seals(t, "host-1") }, "and host-1 of " + authority(t, stranger).hash()},
		"by a worker's kubelet":            {func(h *handmade) { h.seal = byKubelet(t, ca) }, `"system:node:host-1" is not a control plane`},
		"by another control plane":         {func(h *handmade) { h.seal = authority(t, ca).seals(t, "host-2") }, "it names host-1"},
		"from before its certificate":      {func(h *handmade) { h.Time = h.Time.AddDate(0, 0, -3) }, "certificate has expired or is not yet valid"},
		"of a newer format":                {func(h *handmade) { h.Format++ }, "has format 4, and this sealift reads up to format 3"},
		"with files of the host":           {evil, `files that sealift does not save: ["/etc/cron.d/evil" "/root/.ssh/authorized_keys"]`},
		"with one file of the host":        {func(h *handmade) { h.add("etc/ld.so.preload", "x") }, `a file that sealift does not save: "/etc/ld.so.preload"`},
		"with a backup of kubeadm":         {func(h *handmade) { h.add("etc/kubernetes/tmp/x", "x") }, "a file that sealift does not save"},
		"with a file twice":                {func(h *handmade) { h.add("etc/kubernetes/pki/ca.key", "x") }, "a file that sealift does not save"},
		"with a path that leaves":          {func(h *handmade) { h.add("etc/kubernetes/../cron.d/x", "x") }, "a file that sealift does not save"},
		"with a setuid file":               {func(h *handmade) { h.add("etc/kubernetes/x", "x"); h.Files[1].Mode = 0o4755 }, "a file that sealift does not save"},
		"with a volume in the system":      {func(h *handmade) { h.Volumes[0].Path = "/root/.ssh" }, "a volume that sealift does not save"},
		"with control characters":          {func(h *handmade) { h.Kubernetes = "\x1b[2J" }, "a text that sealift does not save"},
		"with too many files":              {func(h *handmade) { h.Files = make([]File, maxFiles+1) }, "a file that sealift does not save"},
		"whose end is signed by a kubelet": {func(h *handmade) { h.last = byKubelet(t, ca) }, "is not a control plane"},
		"whose end is signed elsewhere": {func(h *handmade) {
			h.last = func(summary) (seal, error) { return h.seal(newSummary()) }
		}, "is of another text"},
	} {
		h := handmadeBy(t, ca)
		row.forge(&h)
		if index, err := r.Verify(bytes.NewReader(h.pack(t, to))); err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %+v, %v", name, index, err)
		}
	}
	for n := range whole {
		flipped := bytes.Clone(whole)
		flipped[n] ^= 1
		if _, err := r.Verify(bytes.NewReader(flipped)); err == nil {
			t.Errorf("with byte %d of %d flipped it is taken", n, len(whole))
		}
		if _, err := r.Verify(bytes.NewReader(whole[:n])); err == nil {
			t.Errorf("cut after %d bytes of %d it is taken", n, len(whole))
		}
	}
}

// TestContentIsSignedToItsEnd uses an attacker who can decrypt snapshots replace the content after the signed index.
func TestContentIsSignedToItsEnd(t *testing.T) {
	ca := fixture.CA(t)
	to, keys := pair(t)
	r := Reader{Keys: keys, Trust: Trust{Clusters: []string{authority(t, ca).hash()}}}
	h := handmadeBy(t, ca)
	var kept []seal
	honest := h.seal
	h.seal = func(s summary) (seal, error) {
		made, err := honest(s)
		kept = append(kept, made)
		return made, err
	}
	whole := h.pack(t, to)
	index, err := r.Verify(bytes.NewReader(whole))
	if err != nil || len(kept) != 2 {
		t.Fatalf("%v, %d signatures", err, len(kept))
	}
	count := 0
	h.seal = func(summary) (seal, error) { count++; return kept[(count-1)%2], nil }
	if _, err := r.Verify(bytes.NewReader(h.pack(t, to))); err != nil {
		t.Fatalf("the same again: %v", err)
	}
	for name, forge := range map[string]func(h *handmade){
		"etcd":                    func(h *handmade) { h.etcd = strings.Repeat("evil", 256) },
		"a volume":                func(h *handmade) { h.content["data"] = "exchanged!" },
		"the end":                 func(h *handmade) { h.last = func(summary) (seal, error) { return kept[0], nil } },
		"a file, as in the index": func(h *handmade) { h.content["etc/kubernetes/pki/ca.key"] = "forged" },
	} {
		forged := h
		forged.content = maps.Clone(h.content)
		forge(&forged)
		count = 0
		packed := forged.pack(t, to)
		if _, err := r.Verify(bytes.NewReader(packed)); err == nil {
			t.Errorf("%s: taken", name)
		}
		count = 0
		err := r.Volumes(bytes.NewReader(packed), index, func(string) (*volume.Writer, error) { return nil, nil })
		if err == nil || name == "a volume" && !errors.Is(err, errExchanged) {
			t.Errorf("%s, volumes alone: %v", name, err)
		}
	}
	another := handmadeBy(t, ca)
	another.Etcd.Revision++
	if err := r.Volumes(bytes.NewReader(another.pack(t, to)), index, nil); !errors.Is(err, errExchanged) {
		t.Errorf("another snapshot than the verified one: %v", err)
	}
}

func TestSnapshotMustMatchItsName(t *testing.T) {
	ca := fixture.CA(t)
	to, keys := pair(t)
	h := handmadeBy(t, ca)
	whole := h.pack(t, to)
	r := Reader{Keys: keys, Trust: Trust{Clusters: []string{h.Cluster}}}
	own := h.name()
	for name, row := range map[string]struct {
		is Name
		ok bool
	}{
		"its own":         {own, true},
		"none":            {Name{}, true},
		"later":           {Name{own.Cluster, own.Node, own.Time.Add(time.Second)}, false},
		"another host":    {Name{own.Cluster, "host-2", own.Time}, false},
		"another cluster": {Name{"00000000", own.Node, own.Time}, false},
	} {
		r.Name = row.is
		for what, read := range map[string]func(io.Reader) (Index, error){"index": r.Index, "all": r.Verify} {
			if _, err := read(bytes.NewReader(whole)); row.ok != (err == nil) || !row.ok && !errors.Is(err, ErrUntrusted) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}

// TestSnapshotIsTrustedByHashOfItsCA uses a cluster that rotates its CA.
func TestSnapshotIsTrustedByHashOfItsCA(t *testing.T) {
	old, renewed := fixture.CA(t), fixture.CA(t)
	to, keys := pair(t)
	was, is := authority(t, old).hash(), authority(t, renewed).hash()
	before := handmadeBy(t, old).pack(t, to)
	for name, row := range map[string]struct {
		trusted []string
		ok      bool
	}{
		"before the rotation":            {[]string{was}, true},
		"during the rotation":            {[]string{is, was}, true},
		"after the rotation":             {[]string{is}, false},
		"on a host that knows no CA":     {nil, false},
		"with the hash of the CA before": {[]string{was}, true},
	} {
		_, err := Reader{Keys: keys, Trust: Trust{Clusters: row.trusted}}.Verify(bytes.NewReader(before))
		var unknown *UnknownClusterError
		if row.ok != (err == nil) || !row.ok && (!errors.As(err, &unknown) || unknown.Cluster != was || !errors.Is(err, ErrUntrusted)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUnsignedSnapshotsNeedPermission(t *testing.T) {
	ca := fixture.CA(t)
	to, keys := pair(t)
	for _, format := range []int{firstFormat, volumeFormat} {
		h := handmadeBy(t, ca)
		h.Format, h.seal = format, nil
		if format == firstFormat {
			h.Volumes = nil
		}
		old := h.pack(t, to)
		for name, row := range map[string]struct {
			trust Trust
			ok    bool
		}{
			"without leave":             {Trust{Clusters: []string{h.Cluster}}, false},
			"with leave":                {Trust{Clusters: []string{h.Cluster}, Unsigned: true}, true},
			"on a bare host":            {Trust{Unsigned: true}, true},
			"for another cluster's":     {Trust{Clusters: []string{"sha256:" + strings.Repeat("0", 64)}, Unsigned: true}, false},
			"without leave, on a bare ": {Trust{}, false},
		} {
			index, err := Reader{Keys: keys, Trust: row.trust}.Verify(bytes.NewReader(old))
			if row.ok != (err == nil) || !row.ok && !errors.Is(err, ErrUntrusted) || index.Signed() {
				t.Errorf("format %d, %s: %v", format, name, err)
			}
		}
		evil(&h)
		if _, err := (Reader{Keys: keys, Trust: Trust{Unsigned: true}}).Verify(bytes.NewReader(h.pack(t, to))); err == nil || !strings.Contains(err.Error(), "/etc/cron.d/evil") {
			t.Errorf("format %d, forged: %v", format, err)
		}
	}
}

// TestNewestVerifiedSnapshotIsChosen uses a store with other writers.
func TestNewestVerifiedSnapshotIsChosen(t *testing.T) {
	ca := fixture.CA(t)
	to, keys := pair(t)
	location := t.TempDir()
	values, err := store.Opener{Write: true}.Open(location)
	if err != nil {
		t.Fatal(err)
	}
	h := handmadeBy(t, ca)
	put := func(name Name, content []byte) {
		t.Helper()
		if _, err := values.Put(t.Context(), storeFolder+"/"+name.String(), store.Bytes(content)); err != nil {
			t.Fatal(err)
		}
	}
	own, at := h.name(), func(n int) Name { return Name{h.name().Cluster, "host-1", h.Time.Add(time.Duration(n) * time.Second)} }
	put(own, h.pack(t, to))
	forged := handmadeBy(t, ca)
	evil(&forged)
	put(at(1), forged.pack(t, to))
	put(at(2), h.pack(t, to)) // the good one, dated again
	put(at(3), []byte("no snapshot"))
	put(at(4), h.pack(t, to)[:100])
	put(at(3600), h.pack(t, to)) // nothing in the future stops the choice unless the cluster signed it
	newest := func() (Kept, []Refused, error) {
		return At(location, store.Opener{}).Newest(t.Context(), func(from io.Reader, k Kept) error {
			_, err := Reader{Keys: keys, Trust: Trust{Clusters: []string{h.Cluster}}, Name: k.Name}.Index(from)
			return err
		})
	}
	if found, refused, err := newest(); err != nil || found.Name.String() != own.String() || len(refused) != 5 {
		t.Errorf("the newest is %s, refused are %v, %v", found.File, refused, err)
	}
	if _, err := values.(store.Expirer).Expire(t.Context(), storeFolder, time.Now().AddDate(1, 0, 0), func(name string) bool { return name == own.String() }); err != nil {
		t.Fatal(err)
	}
	if found, refused, err := newest(); err == nil || len(refused) != 5 || !strings.Contains(err.Error(), filepath.Base(location)) {
		t.Errorf("the newest is %s, refused are %v, %v", found.File, refused, err)
	}
}

// TestContentIsStreamed loads 48 MiB of files, and as much of a volume.
func TestContentIsStreamed(t *testing.T) {
	ca := fixture.CA(t)
	to, keys := pair(t)
	h := handmadeBy(t, ca)
	for n := range 48 {
		h.add(fmt.Sprintf("etc/kubernetes/large-%d", n), strings.Repeat(fmt.Sprintf("%08d", n), maxFile/8))
	}
	packed := h.pack(t, to)
	cluster := h.Cluster
	h = handmade{}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c, err := Reader{Keys: keys, Trust: Trust{Clusters: []string{cluster}}}.Load(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("it took %d MiB", took>>20)
	}
	if text, ok := c.File("etc/kubernetes/large-47"); !ok || string(text) != strings.Repeat("00000047", maxFile/8) {
		t.Errorf("the last file has %d bytes", len(text))
	}
	if _, ok := c.File("etc/kubernetes/none"); ok {
		t.Error("it has a file that nobody saved")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
