package cluster

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// EtcdContent is what one member of etcd has. It needs no majority, and so may lack what the others decided last.
type EtcdContent struct {
	Revision int64
	Keys     map[string]int64 // with the revision of the last change of each
	Value    []byte           // of the key that was asked for, if it is there
	Members  []EtcdMember
}

// EtcdMember is a member of etcd as another one knows it.
type EtcdMember struct {
	Name  string
	Peers []string // URLs
}

// ReadEtcd reads the keys that begin with a prefix, and the value of one key.
func ReadEtcd(ctx context.Context, from EtcdAddress, prefix, key string) (EtcdContent, error) {
	e, endpoint, err := from.open(ctx)
	if err != nil {
		return EtcdContent{}, err
	}
	defer e.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*answerTime)
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
