package renewal

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/internal/regularfile"
)

// approvePause is the time between two looks at what kubelets ask for. Until a kubelet that has just joined has its certificate,
// nobody can read the logs of its pods.
const approvePause = 3 * time.Second

// Approver approves the certificates with which kubelets serve. Kubernetes leaves that to others, because it does not know which
// addresses belong to a node.
type Approver struct {
	Log *slog.Logger

	told map[string]string // why a request was left alone, by its name
}

// Run approves until ctx ends. The kubeconfig is read again when it changes: its certificate is renewed.
func (a *Approver) Run(ctx context.Context, kubeconfig string) {
	var client kubernetes.Interface
	var read []byte
	away := false // the API, or what it answers; said once
	for {
		text, err := regularfile.ReadFile(kubeconfig)
		if err == nil && !bytes.Equal(text, read) {
			client, err = cluster.Client(kubeconfig)
			read = text
		}
		if err == nil {
			err = a.Approve(ctx, client)
		}
		if err != nil && ctx.Err() == nil && !away {
			a.Log.Warn("cannot approve certificates of kubelets for now", "error", err)
		}
		away = err != nil
		select {
		case <-ctx.Done():
			return
		case <-time.After(approvePause):
		}
	}
}

// tell logs why a request is left alone, once.
func (a *Approver) tell(request, why string) {
	if a.told == nil {
		a.told = map[string]string{}
	}
	if a.told[request] != why {
		a.told[request] = why
		a.Log.Warn(why, "request", request)
	}
}

// Approve looks at each request once. A request that is against the rule is left alone: a person may decide about it.
func (a *Approver) Approve(ctx context.Context, client kubernetes.Interface) error {
	requests := client.CertificatesV1().CertificateSigningRequests()
	list, err := requests.List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=" + certificatesv1.KubeletServingSignerName})
	if err != nil {
		return err
	}
	var open []certificatesv1.CertificateSigningRequest
	for _, r := range list.Items {
		if len(r.Status.Conditions) == 0 {
			open = append(open, r)
		}
	}
	if len(open) == 0 {
		a.told = nil
		return nil
	}
	owners, err := readOwners(ctx, client)
	if err != nil {
		return err
	}
	for _, r := range open {
		if err := owners.check(r.Spec); err != nil {
			a.tell(r.Name, "not approved: "+err.Error())
			continue
		}
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "SealiftNodeAddresses",
			Message: "asked for by a node, for its own name and addresses",
		})
		_, err := requests.UpdateApproval(ctx, r.Name, &r, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // another control plane was faster
			continue
		}
		if err != nil {
			return fmt.Errorf("approve %s: %w", r.Name, err)
		}
		a.Log.Info("approved the serving certificate of a kubelet", "request", r.Name, "node", strings.TrimPrefix(r.Spec.Username, nodeUser))
	}
	return nil
}

// owners are the addresses of a cluster. A node writes its own addresses into its status, so an address that also belongs to
// somebody else is refused.
type owners struct {
	nodes         map[string][]string
	controlPlanes []string // names of nodes
	services      []string
	endpoint      string // of the API; it may be the address of a control plane
}

func readOwners(ctx context.Context, client kubernetes.Interface) (owners, error) {
	o := owners{nodes: map[string][]string{}}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return o, err
	}
	for _, n := range nodes.Items {
		o.nodes[n.Name] = []string{}
		for _, address := range n.Status.Addresses {
			o.nodes[n.Name] = append(o.nodes[n.Name], address.Address)
		}
		if _, ok := n.Labels[cluster.ControlPlaneLabel]; ok {
			o.controlPlanes = append(o.controlPlanes, n.Name)
		}
	}
	services, err := client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return o, err
	}
	for _, s := range services.Items {
		o.services = append(o.services, s.Spec.ClusterIPs...)
		o.services = append(o.services, s.Spec.ExternalIPs...)
		for _, balancer := range s.Status.LoadBalancer.Ingress {
			o.services = append(o.services, balancer.IP)
		}
	}
	config, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "kubeadm-config", metav1.GetOptions{})
	if err != nil {
		return o, fmt.Errorf("kubeadm's configuration of the cluster: %w", err)
	}
	var of struct{ ControlPlaneEndpoint string }
	if err := yaml.Unmarshal([]byte(config.Data["ClusterConfiguration"]), &of); err != nil {
		return o, fmt.Errorf("kubeadm's configuration of the cluster: %w", err)
	}
	if host, _, err := net.SplitHostPort(of.ControlPlaneEndpoint); err == nil {
		o.endpoint = host
	}
	return o, nil
}

// What a node is called as a user.
const (
	nodeUser  = "system:node:"
	nodeGroup = "system:nodes"
)

// usages are those of a serving certificate. The key of an elliptic curve does without the second.
var usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageServerAuth}

// check is the rule: a node of the cluster asks for a serving certificate for its own name and its own addresses.
func (o owners) check(r certificatesv1.CertificateSigningRequestSpec) error {
	name, ok := strings.CutPrefix(r.Username, nodeUser)
	if !ok || !slices.Contains(r.Groups, nodeGroup) {
		return fmt.Errorf("%s is no node", r.Username)
	}
	own, there := o.nodes[name]
	if !there {
		return fmt.Errorf("the cluster has no node %s", name)
	}
	if r.SignerName != certificatesv1.KubeletServingSignerName || !slices.Contains(r.Usages, certificatesv1.UsageServerAuth) ||
		slices.ContainsFunc(r.Usages, func(u certificatesv1.KeyUsage) bool { return !slices.Contains(usages, u) }) {
		return fmt.Errorf("it is for %v, and not for serving alone", r.Usages)
	}
	asked, err := parseRequest(r.Request)
	if err != nil {
		return err
	}
	if asked.Subject.CommonName != r.Username || !slices.Equal(asked.Subject.Organization, []string{nodeGroup}) {
		return fmt.Errorf("its subject is %s, and %s asks", asked.Subject, r.Username)
	}
	if len(asked.EmailAddresses)+len(asked.URIs) > 0 || len(asked.DNSNames)+len(asked.IPAddresses) == 0 {
		return errors.New("it has to be for names or addresses of the node, and nothing else")
	}
	for _, dns := range asked.DNSNames {
		if dns != name {
			return fmt.Errorf("it is for the name %s, and not for %s alone", dns, name)
		}
		if err := o.checkName(dns); err != nil {
			return err
		}
	}
	for _, ip := range asked.IPAddresses {
		if err := o.checkAddress(name, own, ip); err != nil {
			return err
		}
	}
	return nil
}

// checkName refuses the names of the API and of Services to workers. Anyone with a join token can choose the name of a worker.
func (o owners) checkName(name string) error {
	labels := strings.Split(name, ".")
	switch {
	case slices.Contains(o.controlPlanes, name):
		return nil
	case name == o.endpoint:
		return fmt.Errorf("%s is the name of the API, and no control plane's", name)
	case name == "kubernetes" || name == "kubernetes.default" || len(labels) > 2 && labels[2] == "svc":
		return fmt.Errorf("%s is the name of a Service, and no control plane's", name)
	}
	return nil
}

func (o owners) checkAddress(name string, own []string, ip net.IP) error {
	if !ip.IsGlobalUnicast() || !hasAddress(own, ip) {
		return fmt.Errorf("node %s does not have the address %s", name, ip)
	}
	if hasAddress(o.services, ip) {
		return fmt.Errorf("%s is the address of a Service", ip)
	}
	if hasAddress([]string{o.endpoint}, ip) && !slices.Contains(o.controlPlanes, name) {
		return fmt.Errorf("%s is the address of the API, and node %s is no control plane", ip, name)
	}
	for other, addresses := range o.nodes {
		if other != name && hasAddress(addresses, ip) {
			return fmt.Errorf("%s is the address of node %s, too", ip, other)
		}
	}
	return nil
}

func hasAddress(all []string, ip net.IP) bool {
	return slices.ContainsFunc(all, func(one string) bool { return ip.Equal(net.ParseIP(one)) })
}

func parseRequest(text []byte) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("it has no certificate request, or more than one")
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	return r, r.CheckSignature()
}
