// Package restore brings a control plane back that lost its data, from a snapshot, and one that lost the majority of etcd, with
// its own data.
//
// It exchanges etcd's data and writes the keys, files and local volumes that are gone. The data from before is kept. It knows nothing of
// add-ons.
package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/recovery/snapshot"
)

// Options of a restore. The zero value of a folder is its default.
type Options struct {
	node.Scope
	// Excluded returns an error while another operation is half done that a restore would harm. It is nil for a restore that is a part of
	// such an operation.
	Excluded func(context.Context) error
	// Besides exchanges other files while neither the kubelet nor the control plane runs; nil exchanges none. It may be called
	// again after an interruption. It prints each step to output.
	Besides func(ctx context.Context, output io.Writer) error
	// Volumes reads those of the snapshot; nil for a snapshot without.
	Volumes ReadVolumes
	// Together is the cluster of etcd that this host becomes a member of; nil if it becomes the only member.
	Together *Together
}

// Restore restores this control plane. Only Run changes anything.
type Restore struct {
	// Lost lists objects written after the snapshot, as far as they can be read. Nodes are those in the snapshot.
	Lost  Lost
	Nodes []string
	// Resumes means that a restore of this snapshot was interrupted, and continues.
	Resumes bool

	// Volumes are those of the snapshot.
	Volumes Volumes

	besides func(context.Context, io.Writer) error
	host    host
	root    string
	from    *snapshot.Content // nil if this host is the last control plane and keeps its own data
	*node.Session
	member  member
	missing []string // files that the host lacks
	enables bool     // the API server of the host does not read encrypted Secrets yet
	was     []peer   // the members of etcd in the snapshot
	now     []peer   // the current ones, as far as they can be read
	others  []peer   // the other control planes, which must be gone
	perhaps []peer   // members of etcd when this host joined: also queried if the current data does not name them
	data    dataFolder
	inputs  string // of the steps: the snapshot, and when the restore began
}

// ErrNotTheLast means that a host need not continue alone: etcd has no other members.
var ErrNotTheLast = errors.New("etcd has no other members; if its data is lost, restore a snapshot")

// Prepare checks that the snapshot fits this host, and plans a restore. Without a snapshot, this host is the last of several
// control planes and continues with its own data. Close must be called.
func Prepare(ctx context.Context, o Options, from *snapshot.Content) (_ *Restore, err error) {
	session, err := o.Begin(lifecycle.Restoring)
	if err != nil {
		return nil, err
	}
	r := &Restore{Volumes: Volumes{read: o.Volumes}, besides: o.Besides, root: o.Root, from: from, Session: session}
	if o.Excluded != nil {
		if err := o.Excluded(ctx); err != nil {
			return nil, err
		}
	}
	if err := r.fit(); err != nil {
		return nil, err
	}
	if err = r.Lock(); err != nil {
		return nil, err
	}
	r.begin(time.Now())
	if o.Together != nil {
		if err := r.Join(*o.Together); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	if err := r.look(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// fit refuses a snapshot of another cluster, and one with the files of another host.
func (r *Restore) fit() (err error) {
	manifest, err := r.host.manifest(kubeadm.EtcdManifest, r.from)
	if err != nil {
		return err
	}
	if r.member, err = parseMember(manifest); err != nil || r.from == nil {
		return err
	}
	own, file, err := r.host.clusterOf()
	if err != nil {
		return err
	}
	if own != "" && own != r.from.Cluster {
		return fmt.Errorf("the snapshot is of another cluster: its CA is %s, and the one in %s on this host is %s", r.from.Cluster, file, own)
	}
	if r.missing, err = r.host.missing(r.from.Files); err != nil {
		return err
	}
	if r.missing, err = r.host.addKeys(r.missing, r.from); err != nil {
		return err
	}
	if err := r.host.checkPlaces(r.missing, r.root); err != nil {
		return err
	}
	if r.enables, err = r.host.lacksKeysFlag(r.from); err != nil {
		return err
	}
	if r.Volumes, err = r.host.volumes(r.from.Index, r.Volumes.read); err != nil {
		return err
	}
	if lost := slices.DeleteFunc(slices.Clone(r.missing), hasKeys(r.from)); len(lost) > 0 && r.member.Name != r.from.Node {
		return fmt.Errorf("this host, %s, lacks /%s, but the snapshot has the files of %s; use a snapshot that was saved on this host", r.member.Name, lost[0], r.from.Node)
	}
	if slices.Contains(r.missing, strings.TrimPrefix(kubeadm.EtcdManifest, "/")) {
		return hasAddress(r.member.peer())
	}
	return nil
}

// hasAddress requires this host to have the address in the manifest of its etcd.
func hasAddress(p peer) error {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && slices.Contains(p.hosts(), n.IP.String()) {
			return nil
		}
	}
	return fmt.Errorf("the snapshot is of a host with the address %s, which this host does not have; give this host that address", strings.Join(p.hosts(), ", "))
}

// begin resumes an interrupted restore of the same snapshot, or begins one.
func (r *Restore) begin(now time.Time) {
	identity := r.identity()
	r.data = dataFolder{path: r.host.Path(r.member.Data)}
	generation, made := interrupted(r.Journal.Records(), identity, now)
	r.Resumes = generation != ""
	r.data.generation = generation
	if generation == "" || made && !r.data.ready() {
		r.data.generation = now.UTC().Format(generationTime)
	}
	r.inputs = identity + separator + r.data.generation
}

// identity identifies the snapshot.
func (r *Restore) identity() string {
	if r.from == nil {
		return "survivor"
	}
	return lifecycle.Digest(r.from.Index)
}

// Wrote reports whether a run of a restore of this snapshot wrote a record of the journal, however long ago.
func (r *Restore) Wrote(rec lifecycle.Record) bool {
	is, _, ok := strings.Cut(rec.Inputs, separator)
	return rec.Operation == lifecycle.Restoring && ok && is == r.identity()
}

// What the inputs of the steps are made of.
const (
	generationTime = "20060102T150405Z"
	separator      = " "
)

// interrupted returns when an unfinished restore of a snapshot began, or "", and whether it has created etcd's data.
func interrupted(records []lifecycle.Record, identity string, now time.Time) (generation string, made bool) {
	for _, rec := range records {
		is, began, ok := strings.Cut(rec.Inputs, separator)
		switch {
		case rec.Operation != lifecycle.Restoring || !ok:
		case is != identity || rec.Step == LastStep && rec.Outcome == lifecycle.Finished:
			generation, made = "", false
		default:
			made = made && generation == began || rec.Step == dataStep && rec.Outcome == lifecycle.Finished
			generation = began
		}
	}
	at, err := time.Parse(generationTime, generation)
	if err != nil || at.After(now) || now.Sub(at) > Resumes {
		return "", false
	}
	return generation, made
}

// look reads the snapshot's database and the one of this host, and finds the other control planes.
func (r *Restore) look(ctx context.Context) error {
	r.Lost = Lost{Created: []string{}, Changed: []string{}, Deleted: []string{}}
	now, err := r.present(ctx)
	if r.from == nil {
		if r.addOthers(now); err == nil && len(r.others) == 0 {
			return ErrNotTheLast
		}
		return err
	}
	was, damaged := readData(fmt.Sprintf("/proc/self/fd/%d", r.from.Etcd.Fd()))
	if damaged != nil {
		return fmt.Errorf("the snapshot: %w", damaged)
	}
	if err != nil {
		r.Lost.Unknown = fmt.Sprintf("what etcd has now cannot be read: %v", err)
	} else {
		r.Lost = compare(was, now)
	}
	r.Nodes, r.was, r.now = was.nodes(), was.members, now.members
	r.addOthers(was)
	r.addOthers(now)
	if r.Lost.Unknown != "" {
		r.perhaps = slices.DeleteFunc(r.member.known(), func(p peer) bool { return p.Name == r.member.Name || r.data.together.has(p.Name) })
	}
	return nil
}

// addOthers notes the members of etcd besides this host.
func (r *Restore) addOthers(d data) {
	for _, m := range d.members {
		if m.Name != "" && m.Name != r.member.Name && !r.data.together.has(m.Name) && !slices.ContainsFunc(r.others, func(p peer) bool { return p.Name == m.Name }) {
			r.others = append(r.others, m)
		}
	}
}

// present reads etcd's data: from the running one, or else from its file. After an exchange it is the old file.
func (r *Restore) present(ctx context.Context) (data, error) {
	if r.data.inPlace() {
		return readData(strings.Replace(r.data.database(), r.data.member(), r.data.old()+"/"+memberFolder, 1))
	}
	found, err := askData(ctx, cluster.EtcdAddress{PKI: r.host.Path(kubeadm.PKI + "/etcd")})
	if err == nil {
		return found, nil
	}
	if _, missing := os.Stat(r.data.database()); errors.Is(missing, fs.ErrNotExist) {
		return data{}, errors.New("its data is gone")
	}
	return readData(r.data.database())
}

// answerTime is how long another control plane may take to answer.
const answerTime = 3 * time.Second

// Check refuses a restore while another control plane lives: it would continue with the data that this one discards.
func (r *Restore) Check(ctx context.Context) error {
	dialer := net.Dialer{Timeout: answerTime}
	for _, p := range slices.Concat(r.others, r.perhaps) {
		for _, host := range p.hosts() {
			for _, port := range []string{"2379", "2380"} {
				c, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
				if err != nil {
					continue
				}
				_ = c.Close()
				return fmt.Errorf("etcd of %s answers at %s: if the cluster works there, run 'sealift reset --yes --force' on this host and join it again; "+
					"if not, run that on %s first, and then restore here", p.Name, c.RemoteAddr(), p.Name)
			}
		}
	}
	return ctx.Err()
}

// Others are the names of the other control planes, which are removed.
func (r *Restore) Others() (names []string) { return namesOf(r.others, r.member.Name) }

// OldData is the folder in which etcd's data from before is kept.
func (r *Restore) OldData() string { return r.data.old() }

// Files are the files that are written, because the host lacks them.
func (r *Restore) Files() (names []string) {
	for _, name := range r.missing {
		names = append(names, "/"+name)
	}
	return names
}
