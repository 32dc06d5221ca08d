package cluster

import (
	"context"
	"fmt"
	"regexp"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sealift/sealift/installer/host/speed"
)

// EtcdContent is the data of one member of etcd. Reading it needs no majority, so the last decisions of the others may be
// missing.
type EtcdContent struct {
	Revision int64
	Keys     map[string]int64 // with the revision of the last change of each
	Value    []byte           // of the requested key, if it exists
	Members  []EtcdMember
}

// EtcdMember is a member of etcd as another one knows it.
type EtcdMember struct {
	Name  string   `json:"name"`
	Peers []string `json:"peers"` // URLs
}

// EtcdMembers lists the members of the etcd of this control plane, as their majority knows them. The list is empty if etcd runs
// elsewhere.
func EtcdMembers(ctx context.Context) (all []EtcdMember, err error) {
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(2*answerTime))
	defer cancel()
	err = withEtcd(ctx, func(e *etcd) error {
		list, err := e.MemberList(ctx)
		if err != nil {
			return fmt.Errorf("list the members of etcd: %w", err)
		}
		for _, m := range list.Members {
			all = append(all, EtcdMember{m.Name, m.PeerURLs})
		}
		return nil
	}, ownEtcd())
	return all, err
}

// SystemNamespace is etcd's key of the namespace kube-system. Its UID distinguishes consecutive clusters on the same host.
const SystemNamespace = "/registry/namespaces/kube-system"

var uid = regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// UIDOf finds the UID in the value of an object in etcd; "" if the value is encrypted.
func UIDOf(value []byte) string { return string(uid.Find(value)) }

// valuesPage is how many values are requested at once.
const valuesPage = 500

// EtcdValues calls see with each key of etcd that begins with a prefix, and with its value as it is on the disk.
func EtcdValues(ctx context.Context, from EtcdAddress, prefix string, see func(key, value []byte) error) error {
	e, endpoint, err := from.open(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	if err := EachValue(ctx, e.Client, prefix, see); err != nil {
		return fmt.Errorf("read etcd at %s: %w", endpoint, err)
	}
	return nil
}

// EachValue is EtcdValues with a client of etcd.
func EachValue(ctx context.Context, client clientv3.KV, prefix string, see func(key, value []byte) error) error {
	for next := prefix; ; {
		page, err := client.Get(ctx, next, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithLimit(valuesPage))
		if err != nil {
			return err
		}
		for _, kv := range page.Kvs {
			if err := see(kv.Key, kv.Value); err != nil {
				return err
			}
			next = string(kv.Key) + "\x00"
		}
		if !page.More {
			return nil
		}
	}
}

// ReadEtcd reads the keys that begin with a prefix, and the value of one key.
func ReadEtcd(ctx context.Context, from EtcdAddress, prefix, key string) (EtcdContent, error) {
	e, endpoint, err := from.open(ctx)
	if err != nil {
		return EtcdContent{}, err
	}
	defer e.Close()
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(2*answerTime))
	defer cancel()
	content := EtcdContent{Keys: map[string]int64{}}
	all, err := e.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithSerializable())
	if err != nil {
		return EtcdContent{}, fmt.Errorf("read etcd at %s: %w", endpoint, err)
	}
	content.Revision = all.Header.Revision
	for _, kv := range all.Kvs {
		content.Keys[string(kv.Key)] = kv.ModRevision
	}
	one, err := e.Get(ctx, key, clientv3.WithSerializable())
	if err != nil {
		return EtcdContent{}, fmt.Errorf("read etcd at %s: %w", endpoint, err)
	}
	for _, kv := range one.Kvs {
		content.Value = kv.Value
	}
	list, err := e.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return EtcdContent{}, fmt.Errorf("read the members of etcd at %s: %w", endpoint, err)
	}
	for _, m := range list.Members {
		content.Members = append(content.Members, EtcdMember{m.Name, m.PeerURLs})
	}
	return content, nil
}
