// Package readdress changes the address of a cluster's node: its certificates, its member of etcd, its static pods, its kubelet,
// and its objects in the cluster.
//
// It changes no interface: an administrator, or the new network, gives the host its address. It works without an API, because that
// is unreachable when the old address is gone. If the control plane does not work at an address, the change is rolled back.
package readdress

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/pki"
	hosts "github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/network"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/recovery/undo"
)

// DefaultTimeout is how long the node may take to work at its new address, or at the old one again.
const DefaultTimeout = 2 * time.Minute

// Options of a change of address. The zero value of a folder is its default.
type Options struct {
	node.Scope
	// Timeout bounds the time from the first change until the node works at one of the addresses. Zero is DefaultTimeout, or longer on a slow host.
	Timeout time.Duration
	// Before prepares for an address that the host is about to get.
	Before bool
}

// Readdress is about to give this node another address. Nothing is changed before Run.
type Readdress struct {
	Change
	Node         string `json:"node"`
	ControlPlane bool   `json:"controlPlane"`
	// Others are the addresses of the other control planes.
	Others []string `json:"otherControlPlanes"`
	// Edits are the files that change, and Certificates those that are issued again.
	Edits        []Edit   `json:"files"`
	Certificates []string `json:"certificates"`
	// Notes list what Prepare could not find out.
	Notes []string `json:"notes"`

	host    host
	options Options
	state   state
	*node.Session
	last    interrupted
	answers bool // the API, before
}

// ErrSame means that a node already has the address.
var ErrSame = errors.New("this node already has that address")

// Prepare checks the address, and plans the change. Close must be called.
func Prepare(ctx context.Context, o Options, address string) (_ *Readdress, err error) {
	session, err := o.Begin(lifecycle.Readdressing)
	if err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		o.Timeout = speed.Stretch(DefaultTimeout)
	}
	to, err := Parse(address)
	if err != nil {
		return nil, err
	}
	r := &Readdress{Change: Change{To: to}, Others: []string{}, Notes: []string{}, host: host{root: o.Root}, options: o, Session: session}
	if r.Node, err = hosts.Name(); err != nil {
		return nil, err
	}
	if r.state, err = r.host.read(); err != nil {
		return nil, err
	}
	if err = r.Lock(); err != nil {
		return nil, err
	}
	err = r.look(ctx, time.Now())
	if err == nil {
		err = r.mayBegin(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// begins is the operation for package exclusion. A host that has lost its address has to get the new one first, whatever is
// unfinished.
func (r *Readdress) begins() exclusion.Operation {
	if r.hasOld() {
		return exclusion.Readdress
	}
	return exclusion.FollowAddress
}

// mayBegin refuses a change that would harm an unfinished operation. A worker only knows its own host.
func (r *Readdress) mayBegin(ctx context.Context) error {
	var client kubernetes.Interface
	if r.ControlPlane && r.answers {
		admin, err := controlplane.AsAdministrator()
		if err != nil {
			return err
		}
		client = admin.Client
	}
	return exclusion.Host{Root: r.options.Root}.Check(ctx, client, r.begins())
}

// look resumes an interrupted change, or checks the address for a new one.
func (r *Readdress) look(ctx context.Context, now time.Time) error {
	r.ControlPlane, r.From = r.state.controlPlane, r.state.address
	r.last = interruption(r.Journal.Records())
	if r.last.To != r.To && r.From == r.last.To && !network.HasAddress(r.last.From.String()) {
		r.last = interrupted{} // the files have an address that did not work, and there is none to return to: this one replaces it
	}
	switch begun := r.last.inputs != ""; {
	case begun && (r.options.Before || r.last.To != r.To):
		return fmt.Errorf("this node is in the middle of a change to another address; finish it first: sealift node readdress %s", r.last.To)
	case begun:
		r.From = r.last.From
	case r.From == r.To:
		return ErrSame
	default:
		r.last.inputs = newInputs(r.Change, now)
	}
	f, err := r.facts(ctx)
	if err != nil {
		return err
	}
	if err := r.check(ctx, f); err != nil {
		return err
	}
	return r.find(now)
}

// check refuses an invalid address. If the host lost it in the middle of the change, only the way back is left.
func (r *Readdress) check(ctx context.Context, f facts) (err error) {
	if r.last.back {
		return nil
	}
	r.Link, err = f.check(r.From, r.To)
	if err == nil && !r.last.begun {
		err = f.checkSecond()
	}
	switch {
	case err == nil && f.before:
		err = f.refuseAnswering(ctx, r.To)
	case err == nil:
		err = refuseClaimed(r.Link, r.To)
	}
	if err != nil && r.last.begun && !r.finished(worksStep) {
		r.Notes = append(r.Notes, fmt.Sprintf("going back to %s: %v", r.From, err))
		r.last.back, r.last.why = true, err
		return nil
	}
	return err
}

// finished reports whether a step of this change was finished.
func (r *Readdress) finished(id string) bool {
	rec, ok := r.Journal.Last(id)
	return ok && rec.Inputs == r.last.inputs
}

// find finds what changes.
func (r *Readdress) find(now time.Time) (err error) {
	if r.Edits, err = r.host.edits(r.Change); err != nil {
		return err
	}
	issued, err := r.certificates(now)
	if err != nil {
		return err
	}
	r.Certificates = issued.Files()
	return nil
}

// certificates finds those that name the old address. They keep it while the host has it: a connection to another member of etcd
// may come from it, and that one looks for it in the certificate.
func (r *Readdress) certificates(now time.Time) (*pki.Readdressing, error) {
	return pki.NewReaddressing(r.host.Rootfs, r.From, r.To, r.hasOld(), now)
}

// refuseClaimed refuses an address that another host also has.
func refuseClaimed(link string, address netip.Addr) error {
	other, err := network.Claimed(link, address)
	if err != nil {
		return err
	}
	if other != nil {
		return fmt.Errorf("another host in the network of %s also has the address %s: that with the link address %s", link, address, other)
	}
	return nil
}

// askTime bounds a question to the API before the first change.
const askTime = 5 * time.Second

// facts collects what the address is checked against, and finds the other control planes.
func (r *Readdress) facts(ctx context.Context) (f facts, err error) {
	view, err := network.Read()
	if err != nil {
		return f, err
	}
	f = facts{nodes: map[netip.Addr]string{}, own: view.Addresses(), virtual: view.IsVirtual, second: r.state.second, before: r.options.Before, networks: r.state.networks}
	named, err := node.Networks(r.options.Root, r.Journal.Records())
	if err != nil {
		return f, err
	}
	more, err := networksOf(named...)
	if err != nil {
		return f, err
	}
	f.networks = append(f.networks, more...)
	for _, server := range r.state.servers {
		r.addOther(server)
	}
	if r.ControlPlane {
		r.askNodes(ctx, &f)
	}
	for _, server := range r.Others {
		if a, err := netip.ParseAddr(server); err == nil && f.nodes[a] == "" {
			f.nodes[a] = "with an API server"
		}
	}
	return f, nil
}

// askNodes asks the API for the other nodes, if it answers.
func (r *Readdress) askNodes(ctx context.Context, f *facts) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	client, err := cluster.Client(r.host.Path(kubeadm.AdminKubeconfig))
	if err != nil {
		return
	}
	all, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("the API does not answer, so the addresses of other nodes are not known: %v", err))
		return
	}
	r.answers = true
	for _, n := range all.Items {
		if n.Name == r.Node {
			continue
		}
		for _, a := range addressesOf(&n) {
			f.nodes[a] = n.Name
			if _, is := n.Labels[cluster.ControlPlaneLabel]; is {
				r.addOther(a.String())
			}
		}
	}
}

// addressesOf are the addresses of a Node.
func addressesOf(n *corev1.Node) (found []netip.Addr) {
	for _, one := range n.Status.Addresses {
		if a, err := netip.ParseAddr(one.Address); err == nil && one.Type == corev1.NodeInternalIP {
			found = append(found, a)
		}
	}
	return found
}

// addOther notes another control plane. A worker needs no others: it takes no part in their work.
func (r *Readdress) addOther(address string) {
	if r.ControlPlane && address != r.From.String() && address != r.To.String() && !slices.Contains(r.Others, address) {
		r.Others = append(r.Others, address)
	}
}

// client asks the API with the rights of an administrator.
func (r *Readdress) client() (kubernetes.Interface, error) {
	return cluster.Client(r.host.Path(kubeadm.AdminKubeconfig))
}

// copies are the copies of the changed files.
func (r *Readdress) copies() undo.Store {
	return undo.Store{Root: r.options.Root, Rootfs: r.host.Rootfs, Folder: node.ReaddressDir(r.options.Root), Files: r.host.kept()}
}

// Resumes reports whether an earlier run was interrupted, and Back whether it was going back.
func (r *Readdress) Resumes() (resumes, back bool) { return r.last.begun, r.last.back }

// interrupted is a change that was neither finished nor rolled back.
type interrupted struct {
	Change
	inputs string // of its steps: the addresses, and when it began
	begun  bool
	back   bool // it was going back, or has to
	why    error
}

// generationTime is the format of the time at which a change began.
const generationTime = "20060102T150405.000Z"

func newInputs(c Change, now time.Time) string {
	return strings.Join([]string{c.From.String(), c.To.String(), now.UTC().Format(generationTime)}, " ")
}

func (i interrupted) generation() string { return i.inputs[strings.LastIndexByte(i.inputs, ' ')+1:] }

// Interrupted returns the new address of a change that was interrupted, or "".
func Interrupted(records []lifecycle.Record) string {
	if found := interruption(records); found.begun {
		return found.To.String()
	}
	return ""
}

// interruption finds a change that the journal has as begun, after its copies were kept: before that, nothing was changed.
func interruption(records []lifecycle.Record) (found interrupted) {
	for _, rec := range records {
		words := strings.Fields(strings.TrimSuffix(rec.Inputs, backSuffix))
		if rec.Operation != lifecycle.Readdressing || len(words) != 3 {
			continue
		}
		inputs := strings.Join(words, " ")
		from, fromErr := netip.ParseAddr(words[0])
		to, toErr := netip.ParseAddr(words[1])
		switch finished := rec.Outcome == lifecycle.Finished; {
		case fromErr != nil || toErr != nil:
		case finished && (rec.Step == LastStep || rec.Step == backStep):
			found = interrupted{}
		case finished && rec.Step == keepStep:
			found = interrupted{Change: Change{From: from, To: to}, inputs: inputs, begun: true}
		case found.inputs == inputs && strings.HasSuffix(rec.Inputs, backSuffix):
			found.back, found.why = true, errors.New("an earlier run was interrupted while rolling back")
		}
	}
	return found
}
