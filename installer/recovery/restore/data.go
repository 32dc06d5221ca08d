package restore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/sealift/sealift/installer/cluster"
)

// openTime bounds the wait for a database that another process may have open.
const openTime = time.Second

// data is etcd's data of a cluster.
type data struct {
	revision int64
	keys     map[string]int64 // of Kubernetes' objects, with the revision of the last change of each
	cluster  string           // the UID of the namespace kube-system, which distinguishes consecutive clusters on the same host
	members  []peer
	digests  map[string][sha256.Size]byte // of the objects' values; nil if nobody needs them
}

// peer is a member of etcd, and so a control plane.
type peer struct {
	Name string   `json:"name"`
	URLs []string `json:"peerURLs"`
}

// hosts are the addresses of a member, each once.
func (p peer) hosts() (found []string) {
	for _, text := range p.URLs {
		if u, err := url.Parse(text); err == nil && u.Hostname() != "" && !slices.Contains(found, u.Hostname()) {
			found = append(found, u.Hostname())
		}
	}
	return found
}

// The buckets of etcd's database, and the length of a key in the first: two numbers with an underscore between.
const (
	keyBucket     = "key"
	memberBucket  = "members"
	revisionBytes = 8 + 1 + 8
)

const objectPrefix = "/registry/"

// readData reads a database of etcd that no etcd has open: a snapshot, or the file of a stopped member. A damaged one is an error.
func readData(path string) (data, error) { return data{}.read(path) }

// read is readData. It also records the digests of values, if d.digests is not nil.
func (d data) read(path string) (_ data, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // the database is mapped into memory, and may be too short
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s is damaged: %v", path, r)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: openTime})
	if err != nil {
		return data{}, fmt.Errorf("read %s: %w", path, err)
	}
	defer db.Close()
	d.keys = map[string]int64{}
	err = db.View(func(tx *bbolt.Tx) error {
		keys, members := tx.Bucket([]byte(keyBucket)), tx.Bucket([]byte(memberBucket))
		if keys == nil || members == nil {
			return errors.New("it is not an etcd database")
		}
		return errors.Join(keys.ForEach(d.addChange), members.ForEach(d.addMember))
	})
	if err != nil {
		return data{}, fmt.Errorf("read %s: %w", path, err)
	}
	return d, nil
}

// addChange notes one change. The bucket has them in the order of their revisions. The key of a deletion is longer.
func (d *data) addChange(revision, value []byte) error {
	if len(revision) < revisionBytes {
		return errors.New("its changes are not those of etcd")
	}
	d.revision = int64(binary.BigEndian.Uint64(revision))
	var kv mvccpb.KeyValue
	if err := proto.Unmarshal(value, &kv); err != nil {
		return fmt.Errorf("revision %d: %w", d.revision, err)
	}
	key := string(kv.GetKey())
	switch {
	case !strings.HasPrefix(key, objectPrefix):
	case len(revision) > revisionBytes:
		delete(d.keys, key)
		delete(d.digests, key)
	default:
		d.keys[key] = d.revision
		if d.digests != nil {
			d.digests[key] = sha256.Sum256(kv.GetValue())
		}
		d.noteCluster(key, kv.GetValue())
	}
	return nil
}

func (d *data) noteCluster(key string, value []byte) {
	if key == cluster.SystemNamespace {
		d.cluster = cluster.UIDOf(value)
	}
}

// nodes are the names of the cluster's nodes, sorted.
func (d data) nodes() (names []string) {
	for key := range d.keys {
		if name, ok := strings.CutPrefix(key, objectPrefix+"minions/"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (d *data) addMember(_, value []byte) error {
	var p peer
	if err := json.Unmarshal(value, &p); err != nil {
		return fmt.Errorf("its members: %w", err)
	}
	d.members = append(d.members, p)
	return nil
}

// askData asks the etcd that runs on this host, without a vote.
func askData(ctx context.Context, from cluster.EtcdAddress) (data, error) {
	found, err := cluster.ReadEtcd(ctx, from, objectPrefix, cluster.SystemNamespace)
	if err != nil {
		return data{}, err
	}
	d := data{revision: found.Revision, keys: found.Keys}
	d.noteCluster(cluster.SystemNamespace, found.Value)
	for _, m := range found.Members {
		d.members = append(d.members, peer{m.Name, m.Peers})
	}
	return d, nil
}

// Lost lists the objects that a restore loses: those written after the snapshot.
type Lost struct {
	// Unknown is why the rest is unknown; "" if it can.
	Unknown string   `json:"unknown,omitempty"`
	Created []string `json:"created"` // objects that the snapshot does not have
	Changed []string `json:"changed"` // objects whose old content is restored
	Deleted []string `json:"deleted"` // restored objects
}

// passing are objects that Kubernetes itself writes all the time.
var passing = []string{"events/", "leases/", "masterleases/"}

// compare lists objects that exist now but not in the snapshot.
func compare(was, now data) Lost {
	lost := Lost{Created: []string{}, Changed: []string{}, Deleted: []string{}}
	if was.cluster != now.cluster {
		lost.Unknown = "etcd began without data after the loss, so what was written until then cannot be read"
		return lost
	}
	note := func(list *[]string, key string) {
		name := strings.TrimPrefix(key, objectPrefix)
		if !slices.ContainsFunc(passing, func(p string) bool { return strings.HasPrefix(name, p) }) {
			*list = append(*list, name)
		}
	}
	for key, revision := range now.keys {
		before, there := was.keys[key]
		switch {
		case !there:
			note(&lost.Created, key)
		case before != revision:
			note(&lost.Changed, key)
		}
	}
	for key := range was.keys {
		if _, there := now.keys[key]; !there {
			note(&lost.Deleted, key)
		}
	}
	for _, list := range [][]string{lost.Created, lost.Changed, lost.Deleted} {
		slices.Sort(list)
	}
	return lost
}

// exists reports whether there is something under a name.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
