package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcdPKI is where kubeadm keeps what etcd's clients need. It is there before a host becomes a member.
const etcdPKI = "/etc/kubernetes/pki/etcd"

// etcdTime bounds the wait for the members of a cluster, which vote about who leaves.
const etcdTime = time.Minute

// leaveEtcd takes the host's member out of the cluster's etcd, if it has one: a member that has voted and lost its disk would
// count for the majority and never vote again. kubeadm does so for nodes that it finds in the cluster, which a node in the
// middle of a join is not.
func (k Kubeadm) leaveEtcd(ctx context.Context) error {
	config, err := etcdCredentials(etcdPKI)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the credentials for etcd: %w", err)
	}
	own := net.JoinHostPort(k.Variables["PRIVATE_ADDRESS"], "2380")
	var endpoints []string
	for _, server := range k.APIServers {
		host, _, err := net.SplitHostPort(server)
		if err == nil && host != k.Variables["PRIVATE_ADDRESS"] {
			endpoints = append(endpoints, "https://"+net.JoinHostPort(host, "2379"))
		}
	}
	if len(endpoints) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, etcdTime)
	defer cancel()
	if err := removeMember(ctx, config, endpoints, "https://"+own); err != nil {
		return fmt.Errorf("take this host's member out of etcd at %s: %w", strings.Join(endpoints, ", "), err)
	}
	return nil
}

func etcdCredentials(dir string) (*tls.Config, error) {
	info := transport.TLSInfo{
		TrustedCAFile: filepath.Join(dir, "ca.crt"),
		CertFile:      filepath.Join(dir, "healthcheck-client.crt"), KeyFile: filepath.Join(dir, "healthcheck-client.key"),
	}
	for _, name := range []string{info.TrustedCAFile, info.CertFile, info.KeyFile} {
		if there, err := exists(name); err != nil || !there {
			return nil, errors.Join(err, fs.ErrNotExist)
		}
	}
	return info.ClientConfig()
}

// removeMember removes the member that others reach at the peer URL. No such member is no error.
func removeMember(ctx context.Context, config *tls.Config, endpoints []string, peer string) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: config, Context: ctx, DialTimeout: dialTime, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.MemberList(ctx)
	if err != nil {
		return err
	}
	for _, m := range list.Members {
		if slices.Contains(m.PeerURLs, peer) {
			if _, err := client.MemberRemove(ctx, m.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

const dialTime = 10 * time.Second
