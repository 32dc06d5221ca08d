package restore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
)

// Together is a cluster of etcd that several control planes make of one snapshot, each with its own data. Members of the previous
// cluster do not talk to them, because the token differs. So at most one of the two clusters has a majority at any time, whatever
// the order in which the members change.
type Together struct {
	// Token is a part of names of folders.
	Token   string
	Members []cluster.EtcdMember
}

// has reports whether a node is one of the members. nil has none.
func (t *Together) has(name string) bool {
	return t != nil && slices.ContainsFunc(t.Members, func(m cluster.EtcdMember) bool { return m.Name == name })
}

// initialCluster names all members with each of their URLs, in etcd's format.
func initialCluster(members []cluster.EtcdMember) string {
	var all []string
	for _, m := range members {
		for _, url := range m.Peers {
			all = append(all, m.Name+"="+url)
		}
	}
	return strings.Join(all, ",")
}

// etcd is the member as the others of its cluster know it.
func (m member) etcd() cluster.EtcdMember {
	return cluster.EtcdMember{Name: m.Name, Peers: m.peer().URLs}
}

// Members are the members of etcd in the snapshot, and the current ones, ordered by name.
func (r *Restore) Members() (was, now []cluster.EtcdMember) { return inOrder(r.was), inOrder(r.now) }

func inOrder(members []peer) (found []cluster.EtcdMember) {
	for _, m := range members {
		found = append(found, cluster.EtcdMember{Name: m.Name, Peers: m.URLs})
	}
	slices.SortFunc(found, func(a, b cluster.EtcdMember) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// Join has this host restore together with others. It is called before Arm and Run. The restore has the identity of the token: it
// makes etcd's data once, and is resumed at any time later.
func (r *Restore) Join(t Together) error {
	own := r.member.etcd()
	if !slices.ContainsFunc(t.Members, func(m cluster.EtcdMember) bool { return m.Name == own.Name && slices.Equal(m.Peers, own.Peers) }) {
		return fmt.Errorf("%s has %s at %s, which is not one of the members that go back: %s", kubeadm.EtcdManifest, own.Name, strings.Join(own.Peers, ","), initialCluster(t.Members))
	}
	r.others = slices.DeleteFunc(r.others, func(p peer) bool { return t.has(p.Name) })
	r.data.together, r.data.generation = &t, t.Token
	r.inputs = t.Token
	return nil
}

// PrepareData creates etcd's data, beside the existing data. Run does the rest.
func (r *Restore) PrepareData(ctx context.Context, observe func(lifecycle.Event)) error {
	_, err := lifecycle.Run(ctx, lifecycle.Restoring, r.Plan()[:1], r.Journal, r.Log.Narrate(observe))
	return err
}

// Abort removes the data that Arm has made on this host for a token.
func Abort(token string) error {
	var h host
	manifest, err := h.manifest(kubeadm.EtcdManifest, nil)
	if err != nil {
		return err
	}
	m, err := parseMember(manifest)
	if err != nil {
		return err
	}
	return files.RemoveAll(dataFolder{path: h.Path(m.Data), generation: token}.made())
}
