package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/internal/regularfile"
)

// etcdPKI is where kubeadm keeps what etcd's clients need. It exists before a host becomes a member.
const etcdPKI = kubeadm.PKI + "/etcd"

// ownEtcd is where clients on this host reach its member.
func ownEtcd() string {
	manifest, _ := regularfile.ReadFile(kubeadm.EtcdManifest) // without it, no member runs
	return loopbackOf(manifest)
}

// loopbackOf finds the URL with a loopback address at which etcd listens. It is https://[::1]:2379 on nodes with an IPv6 address.
func loopbackOf(manifest []byte) string {
	pod, _ := kubeadm.ParsePod(manifest)
	for one := range strings.SplitSeq(pod.Args().Value("listen-client-urls"), ",") {
		if u, err := url.Parse(one); err == nil && net.ParseIP(u.Hostname()).IsLoopback() {
			return one
		}
	}
	return "https://127.0.0.1:2379"
}

// etcdTime bounds the wait for the members of a cluster, which vote about who leaves, and answerTime that for one of them.
const (
	etcdTime   = time.Minute
	answerTime = 3 * time.Second
	dialTime   = 10 * time.Second
	retryPause = time.Second
)

// etcd is that of a cluster, as a client of its members.
type etcd struct{ *clientv3.Client }

// withEtcd calls do with a client for members at the endpoints, which has the credentials of a control plane. It does nothing on a host
// without them: the etcd of its cluster, if there is one, runs elsewhere.
func withEtcd(ctx context.Context, do func(*etcd) error, endpoints ...string) error {
	config, err := etcdCredentials(etcdPKI)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the credentials for etcd: %w", err)
	}
	e, err := newEtcd(ctx, config, endpoints...)
	if err != nil {
		return err
	}
	defer e.Close()
	return do(e)
}

func newEtcd(ctx context.Context, config *tls.Config, endpoints ...string) (*etcd, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: config, Context: ctx, DialTimeout: dialTime, Logger: zap.NewNop()})
	return &etcd{client}, err
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
	if err := checkOwn(info.CertFile, time.Now()); err != nil {
		return nil, err
	}
	return info.ClientConfig()
}

// etcdMember is a member of etcd.
type etcdMember struct {
	id      uint64
	name    string   // of its node; "" until it has started
	peers   []string // where other members reach it
	clients []string
	votes   bool
	answers bool
}

func (m etcdMember) String() string {
	if m.name != "" {
		return m.name
	}
	return strings.Join(m.peers, ",")
}

// address is the address of the member's host.
func (m etcdMember) address() string {
	if len(m.peers) == 0 {
		return ""
	}
	u, err := url.Parse(m.peers[0])
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// members lists the members that the majority knows, and asks each whether it answers. The list of a single member may be old:
// that member may have been removed itself. It is used only to name the silent one, in a MajorityError.
func (e *etcd) members(ctx context.Context) ([]etcdMember, error) {
	members, err := e.list(ctx)
	if err != nil {
		known, knownErr := e.list(ctx, clientv3.WithSerializable())
		if silent := checkMajority(known); knownErr == nil && silent != nil {
			return nil, silent
		}
		return nil, fmt.Errorf("list the members of etcd: %w", err)
	}
	return members, nil
}

func (e *etcd) list(ctx context.Context, options ...clientv3.OpOption) ([]etcdMember, error) {
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(2*answerTime))
	defer cancel()
	list, err := e.MemberList(ctx, options...)
	if err != nil {
		return nil, err
	}
	members := make([]etcdMember, len(list.Members))
	var all sync.WaitGroup
	for i, m := range list.Members {
		members[i] = etcdMember{id: m.ID, name: m.Name, peers: m.PeerURLs, clients: m.ClientURLs, votes: !m.IsLearner}
		all.Go(func() { members[i].answers = e.answers(ctx, m.ClientURLs) })
	}
	all.Wait()
	return members, nil
}

func (e *etcd) answers(ctx context.Context, endpoints []string) bool {
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(answerTime))
	defer cancel()
	return slices.ContainsFunc(endpoints, func(endpoint string) bool {
		_, err := e.Status(ctx, endpoint)
		return err == nil
	})
}

// memberOf finds the member of a node, by address if it never got a name.
func memberOf(members []etcdMember, node, address string) (etcdMember, bool) {
	i := slices.IndexFunc(members, func(m etcdMember) bool {
		return m.name == node || m.name == "" && address != "" && m.address() == address
	})
	if i < 0 {
		return etcdMember{}, false
	}
	return members[i], true
}

// without lists all members but one.
func without(members []etcdMember, gone etcdMember) []etcdMember {
	return slices.DeleteFunc(slices.Clone(members), func(m etcdMember) bool { return m.id == gone.id })
}

// MajorityError reports that the answering members of etcd are no majority, without which it decides nothing.
type MajorityError struct {
	Members int
	Silent  []string // who do not answer
}

func (e *MajorityError) Error() string {
	return fmt.Sprintf("of %d members of etcd no majority answers; silent: %s", e.Members, strings.Join(e.Silent, ", "))
}

func checkMajority(members []etcdMember) error {
	var voters int
	var silent []string
	for _, m := range members {
		if !m.votes {
			continue
		}
		voters++
		if !m.answers {
			silent = append(silent, m.String())
		}
	}
	if voters-len(silent) > voters/2 {
		return nil
	}
	return &MajorityError{voters, silent}
}

// leave removes the member of a node, if any, and retries until ctx ends: new members count as unhealthy for some seconds, and a
// leaving leader leaves the others without one for a moment. The last member stays.
func (e *etcd) leave(ctx context.Context, node, address string) error {
	return poll.Until(ctx, retryPause, nil, poll.Success(func(ctx context.Context) error { return e.tryLeave(ctx, node, address) }))
}

func (e *etcd) tryLeave(ctx context.Context, node, address string) error {
	members, err := e.members(ctx)
	if err != nil {
		return err
	}
	gone, there := memberOf(members, node, address)
	others := without(members, gone)
	if !there || len(others) == 0 {
		return nil
	}
	if err := checkMajority(others); err != nil {
		return fmt.Errorf("without %s: %w", gone, err)
	}
	var endpoints []string
	for _, m := range others { // a leaving one may not live to report it
		if m.answers {
			endpoints = append(endpoints, m.clients...)
		}
	}
	e.SetEndpoints(endpoints...)
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(etcdTime/3))
	defer cancel()
	if _, err := e.MemberRemove(ctx, gone.id); err != nil {
		return fmt.Errorf("remove %s from etcd: %w", gone, err)
	}
	return nil
}

// leaveEtcd removes the member of a half-joined host from the cluster's etcd, if it has one: a member that has voted and lost
// its disk would count for the majority and never vote again. kubeadm does so for nodes that it finds in the cluster, which such
// a node is not.
func (k Kubeadm) leaveEtcd(ctx context.Context, node string) error {
	var endpoints []string
	for _, server := range k.APIServers {
		host, _, err := net.SplitHostPort(server)
		if err == nil && host != k.Variables["PRIVATE_ADDRESS"] {
			endpoints = append(endpoints, etcdEndpoint(host))
		}
	}
	if len(endpoints) == 0 {
		return nil
	}
	return leaveEtcd(ctx, node, k.Variables["PRIVATE_ADDRESS"], endpoints...)
}

func etcdEndpoint(host string) string { return "https://" + net.JoinHostPort(host, "2379") }

// leaveEtcd removes the member of a node, through members at the endpoints. Without credentials there is none.
func leaveEtcd(ctx context.Context, node, address string, endpoints ...string) error {
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(etcdTime))
	defer cancel()
	return withEtcd(ctx, func(e *etcd) error { return e.leave(ctx, node, address) }, endpoints...)
}

// EtcdHealth asks every member of this host's etcd. A cluster with its etcd elsewhere has none.
func EtcdHealth(ctx context.Context) (silent []string, all int, err error) {
	members, err := ownMembers(ctx)
	for _, m := range members {
		if !m.answers {
			silent = append(silent, m.String())
		}
	}
	return silent, len(members), err
}
