package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/share"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/operation/revert"
	"github.com/sealift/sealift/installer/recovery/restore"
	"github.com/sealift/sealift/installer/recovery/undo"
	"github.com/sealift/sealift/internal/poll"
)

// How often a prepared control plane polls the leader, the timeout of one poll, and the pause before the agent retries the undo.
const (
	askPause   = time.Second
	askTime    = 5 * time.Second
	againPause = 15 * time.Second
	fetchTime  = 30 * time.Minute // for a snapshot of etcd
)

// connect reaches the control plane that asks. A control plane proves itself as one, a worker by the certificate of its kubelet.
func (a *Agent) connect(server string) (*share.Client, error) {
	certificate := share.KubeletCertificate(kubeadm.KubeletCertificate)
	controlPlane, err := a.isControlPlane()
	if err != nil {
		return nil, err
	}
	if controlPlane {
		ca, err := identity.ReadAuthority(a.PKI)
		if err != nil {
			return nil, err
		}
		certificate = ca.Client(a.Node)
	}
	return share.NewNodeClient(server, filepath.Join(a.PKI, "ca.crt"), certificate)
}

// arm gets this control plane ready to undo an upgrade together with the others: it fetches the snapshot of etcd, and makes etcd's data
// of it. From then on the agent asks the control plane that leads whether it is time: see follow.
func (a *Agent) arm(ctx context.Context, in intent.Intent, step func(string)) (log string, err error) {
	client, err := a.Connect(in.Server)
	if err != nil {
		return "", err
	}
	set, o, err := a.orderOf(ctx, client, in)
	if err != nil {
		return "", err
	}
	step("fetch the snapshot of etcd")
	if err := fetchEtcd(ctx, client, set, o.Snapshot); err != nil {
		return "", err
	}
	step("make etcd's data")
	r, err := revert.Open(ctx, revert.Options{Root: a.Root, Node: a.Node, Set: set, Order: &o})
	if err != nil {
		return "", err
	}
	log = r.Restore.LogFile()
	if err := errors.Join(r.Restore.Arm(ctx, func(lifecycle.Event) {}), r.Close()); err != nil {
		return log, err
	}
	return log, a.acceptOrder(set, o)
}

// orderOf fetches the order that an intent is about, and finds what this node goes back to.
func (a *Agent) orderOf(ctx context.Context, client *share.Client, in intent.Intent) (set undo.Set, o undo.JointUndo, err error) {
	text, err := client.Order(ctx)
	if err == nil {
		o, err = undo.ParseOrder(text)
	}
	switch {
	case err != nil:
	case o.Digest() != in.Index || o.ID != in.Upgrade || o.Upgrade != in.UpgradeID || o.Server != in.Server || o.Stage != undo.Prepared:
		err = fmt.Errorf("%s serves a different undo than the one requested", in.Server)
	case !o.Has(a.Node):
		err = fmt.Errorf("the order does not concern node %s", a.Node)
	}
	if err != nil {
		return set, o, err
	}
	if set, err = (undo.Store{Root: a.Root}).Newest(); err == nil && set.Upgrade != in.UpgradeID {
		err = undo.ErrNone
	}
	return set, o, err
}

// acceptOrder has the agent follow an order from now on. An earlier order is dropped.
func (a *Agent) acceptOrder(set undo.Set, o undo.JointUndo) error {
	a.orders.Lock()
	defer a.orders.Unlock()
	if before, ok, err := set.Order(); err == nil && ok && before.ID != o.ID {
		if err := restore.Abort(before.ID); err != nil {
			return err
		}
	}
	if err := set.WriteOrder(o); err != nil {
		return err
	}
	select {
	case a.ordered <- struct{}{}:
	default: // follow will look anyway
	}
	return nil
}

// fetchEtcd fetches the snapshot of etcd into a set.
func fetchEtcd(ctx context.Context, client *share.Client, set undo.Set, digest string) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	return files.Fill(set.Etcd(), 0o600, func(f *os.File) error {
		sum := sha256.New()
		if err := client.Etcd(ctx, io.MultiWriter(f, sum)); err != nil {
			return err
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != digest {
			return fmt.Errorf("the snapshot of etcd that was fetched has the sha256 %s, not %s", got, digest)
		}
		return nil
	})
}

// watchOrders follows orders, until this control plane has gone back or ctx ends. It needs no API: at that time, etcd is down.
func (a *Agent) watchOrders(ctx context.Context) error {
	var told poll.Told
	var leads connection
	for ctx.Err() == nil {
		pause := askPause
		set, o, ok, err := undo.Store{Root: a.Root}.Ordered()
		ok = ok && o.Leader != a.Node // the command leads there
		if err == nil && !ok {
			told = poll.Told{}
			select {
			case <-ctx.Done():
			case <-a.ordered:
			}
			continue
		}
		if err == nil && o.Stage == undo.Prepared {
			o, err = a.isTime(ctx, &leads, set, o)
		}
		if err == nil && o.Stage != undo.Prepared {
			if err = a.goBack(ctx, set, o); err == nil {
				return ErrReplaced
			}
			pause = againPause
		}
		if err != nil && told.IsNew(ctx, err) { // while there is an order, a poll without an error forgets none
			a.Log.Error("the undo of an upgrade with the other control planes", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// connection is the one to the leading control plane. It is kept, since that one bounds the connections of a host.
type connection struct {
	server string
	client *share.Client
}

func (c *connection) to(server string, connect func(string) (*share.Client, error)) (_ *share.Client, err error) {
	if c.server != server {
		if c.client, err = connect(server); err != nil {
			return nil, err
		}
		c.server = server
	}
	return c.client, nil
}

// isTime asks the leading control plane. It returns the order with its current stage, and drops an order that no longer exists.
func (a *Agent) isTime(ctx context.Context, leads *connection, set undo.Set, o undo.JointUndo) (undo.JointUndo, error) {
	bounded, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	client, err := leads.to(o.Server, a.Connect)
	if err != nil {
		return o, err
	}
	var now undo.JointUndo
	text, err := client.Order(bounded)
	if err == nil {
		now, err = undo.ParseOrder(text)
	}
	dropped := errors.Is(err, fs.ErrNotExist) || err == nil && now.Digest() != o.Digest()
	if !dropped && (err != nil || now.Stage == undo.Prepared) {
		return o, err
	}
	a.orders.Lock()
	defer a.orders.Unlock()
	if is, ok, err := set.Order(); err != nil || !ok || is.ID != o.ID {
		return o, err // there is another one by now
	}
	if dropped {
		a.Log.Info("the undo was given up before it began", "leader", o.Leader)
		return o, errors.Join(restore.Abort(o.ID), set.DropOrder())
	}
	o = o.In(undo.Committed)
	return o, set.WriteOrder(o)
}

// goBack undoes the upgrade of this control plane, and reports it when the API answers again. It may be repeated.
func (a *Agent) goBack(ctx context.Context, set undo.Set, o undo.JointUndo) error {
	report := intent.Report{Upgrade: o.ID, Operation: intent.Undo, Attempt: 1, State: intent.Working, Began: time.Now().UTC()}
	a.Log.Info("goes back", "upgrade", o.Upgrade, "undo", o.ID)
	err := a.Revert(ctx, set, o)
	report.Seconds = time.Since(report.Began).Seconds()
	// the Node has the previous intent again, which is answered
	answer := func() map[string]string {
		return map[string]string{intent.Annotation: "", intent.ReportAnnotation: report.Encode()}
	}
	if err != nil {
		report.State, report.Error = intent.Failed, err.Error()
		if told := a.annotate(ctx, answer()); told != nil {
			a.Log.Warn("cannot tell that this node has not gone back", "error", told)
		}
		return err
	}
	// The others wait for the answer. It is done before Sealift's state is restored: the earlier program may not know it.
	report.State = intent.Done
	if err := a.insist(ctx, answer()); err != nil {
		return err
	}
	if err := a.PutBack(set); err != nil {
		return err
	}
	return set.Remove()
}

// putBackState restores Sealift's own state of this node, and its program. It holds the lock of the node.
func (a *Agent) putBackState(set undo.Set) error {
	journal, err := node.Lock(a.Root)
	if err != nil {
		return err
	}
	_, err = undo.Store{Root: a.Root}.PutBack(set, true)
	return errors.Join(err, journal.Close())
}

// revertNode undoes the upgrade of this host's control plane, except for Sealift's own state.
func (a *Agent) revertNode(ctx context.Context, set undo.Set, o undo.JointUndo) (err error) {
	r, err := revert.Open(ctx, revert.Options{Root: a.Root, Node: a.Node, Set: set, Order: &o})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if o.Stage != undo.Restored {
		if err := r.Restore.Run(ctx, func(lifecycle.Event) {}); err != nil {
			return err
		}
		return set.WriteOrder(o.In(undo.Restored))
	}
	return nil
}
