package endpoint

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/pki"
	"github.com/sealift/sealift/installer/cluster/service"
	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/internal/poll"
)

// The stages of a change, in their order.
const (
	// Both: the API servers have certificates for the old load balancer and the new one, and each node reaches the new one.
	Both = "beside"
	// Switch: each node uses the new one.
	Switch = "switch"
	// NewOnly: the certificates have only the new one.
	NewOnly = "alone"
)

// workTime is how long a node may take to work through the new load balancer, and again through the old one.
const workTime = 90 * time.Second

// How long an API server may take to read its certificate: it looks once a minute.
const certificateTime = 4 * time.Minute

// reachTime is how long a node tries the new load balancer before anything changes on it.
const reachTime = 30 * time.Second

// connections are how many are tried: a load balancer with a member that does not work shows that in some of them.
const connections = 5

// The name that every API server of kubeadm has in its certificate, and the time for one connection.
const (
	anyServer = "kubernetes"
	dialTime  = 10 * time.Second
	pause     = time.Second
)

// Node brings this host to the stages of a change.
type Node struct {
	Root   string
	Name   string // of the node
	Output io.Writer
	Step   func(string) // called with what begins; nil for nobody
	// Agent means that the agent of this host asks: it restarts on its own.
	Agent bool

	// finish is done when the node works through the new load balancer, before its change counts as done; nil is nothing.
	finish func(context.Context) error
	rootfs string
	listen string // of the API server of this host; "" asks its manifest
	// restart restarts what reads the files; nil is systemd and the kubelet.
	restart func(ctx context.Context, files []string, generation string) error
}

func (n Node) host() host { return host{files.Host{Rootfs: n.rootfs}, n.Root} }

func (n Node) step(text string) {
	if n.Step != nil {
		n.Step(text)
	}
}

// Bring brings this host to the stage of a change, and returns when it works with it. It may be interrupted and run again.
func (n Node) Bring(ctx context.Context, m intent.Move) error {
	switch m.Stage {
	case Both:
		if err := n.certify(ctx, cluster.HostOf(m.To), ""); err != nil {
			return err
		}
		n.step("reach the API through " + m.To)
		bounded, cancel := context.WithTimeout(ctx, speed.Patience(reachTime))
		defer cancel()
		return n.until(bounded, "the API through "+m.To, func(ctx context.Context) error { return n.reach(ctx, m.To, anyServer) })
	case Switch:
		return n.move(ctx, m)
	case NewOnly:
		edits, err := n.host().edits(m)
		if err == nil && len(edits) > 0 {
			err = fmt.Errorf("%s still names %s; run 'sealift node load-balancer %s --here' on this node", strings.Join(slices.Sorted(maps.Keys(edits)), ", "), m.From, m.To)
		}
		if err != nil || cluster.HostOf(m.From) == cluster.HostOf(m.To) {
			return err
		}
		return n.certify(ctx, "", cluster.HostOf(m.From))
	}
	return fmt.Errorf("this sealift does not know the stage %q of a change of the load balancer", m.Stage)
}

// certify gives the API server of this host a certificate with one name added and one removed, and waits until it is presented. The
// server keeps running: it rereads the file on its own.
func (n Node) certify(ctx context.Context, add, drop string) error {
	server, err := n.host().server()
	if err != nil || server == "" {
		return err
	}
	if n.listen != "" {
		server = n.listen
	}
	n.step("the certificate of the API server")
	issued, err := pki.NewServerNames(n.rootfs, add, drop, time.Now())
	if err == nil {
		err = issued.Issue(time.Now())
	}
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, speed.Patience(certificateTime))
	defer cancel()
	return n.until(bounded, "the API server at "+server, func(ctx context.Context) error {
		for name, wanted := range map[string]bool{add: true, drop: false} {
			if name == "" {
				continue
			}
			shown, err := n.handshake(ctx, server, anyServer)
			if err == nil && (shown.VerifyHostname(name) == nil) != wanted {
				err = fmt.Errorf("it still shows its certificate for %v and %v", shown.DNSNames, shown.IPAddresses)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// move lets this node use the new load balancer, or takes that back.
func (n Node) move(ctx context.Context, m intent.Move) error {
	h := n.host()
	edits, err := h.edits(m)
	if err != nil {
		return err
	}
	marked, err := h.marked()
	if err != nil {
		return err
	}
	if len(edits) == 0 && marked == nil {
		return n.reach(ctx, m.To, "")
	}
	if err := h.mark(m); err != nil {
		return err
	}
	tried := n.use(ctx, edits, m)
	if tried == nil && n.finish != nil {
		tried = n.finish(ctx)
	}
	if tried == nil {
		return h.unmark()
	}
	if ctx.Err() != nil { // a person who interrupts resumes later
		return tried
	}
	back := intent.Move{From: m.To, To: m.From, Stage: Switch}
	if err := n.reach(ctx, m.From, anyServer); err != nil {
		return fmt.Errorf("%w\nthis node keeps the settings for %s: nothing answers at %s any more: %w", tried, m.To, m.From, err)
	}
	n.step("take back " + m.To)
	if edits, err = h.edits(back); err == nil {
		err = n.use(ctx, edits, back)
	}
	if err == nil {
		err = h.unmark()
	}
	if err != nil {
		return fmt.Errorf("%w\nthe way back to %s failed, too: %w", tried, m.From, err)
	}
	return fmt.Errorf("%w\nthat was taken back: this node uses %s again", tried, m.From)
}

// use writes files, restarts what reads them, and waits until the node works through the new endpoint.
func (n Node) use(ctx context.Context, edits map[string]string, m intent.Move) error {
	n.step("use " + m.To)
	if err := n.host().write(edits); err != nil {
		return err
	}
	written, err := n.host().edits(intent.Move{From: m.To, To: m.From}) // also by a run that was interrupted
	if err != nil {
		return err
	}
	restart := n.restart
	if restart == nil {
		restart = n.restartUsers
	}
	generation := lifecycle.Digest(m.To, time.Now().UTC().Format(time.RFC3339Nano))[:16]
	if err := restart(ctx, slices.Sorted(maps.Keys(written)), generation); err != nil {
		return err
	}
	restarted := time.Now() // until then, the previous kubelet may have reported once more
	bounded, cancel := context.WithTimeout(ctx, speed.Patience(workTime))
	defer cancel()
	return n.until(bounded, "the API through "+m.To, func(ctx context.Context) error {
		if err := n.reach(ctx, m.To, ""); err != nil {
			return err
		}
		return n.reports(ctx, m.To, restarted)
	})
}

func (n Node) restartUsers(ctx context.Context, files []string, generation string) error {
	n.step("restart the kubelet")
	if err := command.Run(ctx, n.Output, "systemctl", "restart", "kubelet"); err != nil {
		return err
	}
	services := []string{service.Sharer(n.Root).Name}
	if !n.Agent {
		services = append(services, service.Agent(n.Root).Name)
	}
	if err := command.TryRestart(ctx, n.Output, services...); err != nil {
		return err
	}
	return pki.RestartUsers(ctx, n.rootfs, files, generation)
}

// until repeats a request until ctx ends.
func (n Node) until(ctx context.Context, what string, ask func(context.Context) error) error {
	if err := poll.Until(ctx, pause, poll.Print(n.Output, what), poll.Success(ask)); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// config has the credentials of the kubelet, for an endpoint.
func (n Node) config(endpoint, serverName string) (*rest.Config, error) {
	config, err := cluster.Config(n.host().Path(kubeadm.KubeletKubeconfig))
	if err != nil {
		return nil, err
	}
	config.Host, config.Timeout, config.ServerName = "https://"+endpoint, dialTime, serverName
	return config, nil
}

// reach checks that an API server of this cluster answers at an endpoint: it presents a certificate of the cluster's CA for the name,
// and knows this node. With an empty name, that is the host of the endpoint.
func (n Node) reach(ctx context.Context, endpoint, name string) error {
	if name == "" {
		name = cluster.HostOf(endpoint)
	}
	for range connections {
		if _, err := n.handshake(ctx, endpoint, name); err != nil {
			return fmt.Errorf("%s does not lead to an API server of this cluster: %w", endpoint, err)
		}
	}
	config, err := n.config(endpoint, name)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{}); err != nil {
		return fmt.Errorf("the API through %s: %w", endpoint, err)
	}
	return nil
}

// handshake makes a new connection, and returns the presented certificate.
func (n Node) handshake(ctx context.Context, endpoint, name string) (*x509.Certificate, error) {
	config, err := n.config(endpoint, name)
	if err != nil {
		return nil, err
	}
	security, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", endpoint)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, security)
	defer conn.Close()
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return conn.ConnectionState().PeerCertificates[0], nil
}

// reports checks that the kubelet of this node has renewed its lease since a time.
func (n Node) reports(ctx context.Context, endpoint string, since time.Time) error {
	config, err := n.config(endpoint, cluster.HostOf(endpoint))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	beat, err := client.CoordinationV1().Leases("kube-node-lease").Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if beat.Spec.RenewTime == nil || !beat.Spec.RenewTime.After(since) {
		return errors.New("the kubelet of this node has not reported since its restart; see 'journalctl --unit kubelet'")
	}
	return nil
}
