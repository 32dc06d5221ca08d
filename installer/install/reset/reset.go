// Package reset reverts an install or a join: it undoes the install's changes of the host, unless somebody else has changed them
// since, and reports the rest.
package reset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/host"
	"github.com/sealift/sealift/installer/host/baseline"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/mounts"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/spec"
)

// ErrNothingInstalled means that a reset has nothing to revert.
var ErrNothingInstalled = errors.New("nothing to reset: sealift has not changed this host")

// ErrIncomplete says that something could not be undone. The files that a retry needs are kept.
var ErrIncomplete = errors.New("the reset is not complete")

// The timeouts of steps: several times what a slow disk needs.
const (
	shortTime = 5 * time.Minute
	longTime  = 6 * time.Hour
)

// Options select what is reverted. The zero value of a folder is its default.
type Options struct {
	node.Scope
	// KeepData leaves the folders in which volumes have their data.
	KeepData bool
	// Force resets a control plane without which the cluster cannot continue, ends pods instead of moving them, and gives up what
	// cannot be reverted.
	Force bool
}

// Reset is an install that is about to be reverted. Nothing is changed before Run.
type Reset struct {
	options Options
	*node.Session
	record *baseline.Record
	node   string
	member *cluster.Member
	left   []baseline.Left
}

// Prepare reads what was installed. Close must be called.
func Prepare(o Options) (_ *Reset, err error) {
	session, err := o.Begin(lifecycle.Resetting)
	if err != nil {
		return nil, err
	}
	facts, err := host.Discover()
	if err != nil {
		return nil, fmt.Errorf("inspect the host: %w", err)
	}
	r := &Reset{options: o, node: facts.Hostname, Session: session}
	if err = r.Lock(); err != nil {
		return nil, err
	}
	if r.record, err = node.OpenBaseline(o.Root, o.LogDir); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.record.Unwatch(hostPaths(o.Root)...)
	switch {
	case r.record.Before() != nil:
		return r, nil
	case len(r.Journal.Records()) > 0:
		err = fmt.Errorf("%s does not say what this host was like before the install, so the install cannot be undone; reinstall the host, or restore that folder from a copy", node.StateDir(o.Root))
	default:
		err = ErrNothingInstalled
	}
	return nil, errors.Join(err, r.Close())
}

// hostPaths are the folders for volumes that the installed Installer names. A record of an earlier sealift does not have them.
func hostPaths(root string) []string {
	text, err := node.ReadInstaller(root)
	if err != nil { // a worker has none
		return nil
	}
	installer, err := spec.Parse("installed Installer", bytes.NewReader(text))
	if err != nil {
		return nil
	}
	return installer.HostPaths()
}

// Sweep removes the state of an install that was killed before it changed the host: the case of ErrNothingInstalled. A folder
// that no install marked as its own is not touched.
func Sweep(o Options) (err error) {
	session, err := o.Begin(lifecycle.Resetting)
	if err != nil {
		return err
	}
	if _, err := node.ReadMark(o.Root); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if err := session.Lock(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	if _, err := node.SweepRoot(o.Root); err != nil {
		return err
	}
	_, err = node.SweepState(o.Root, session.Journal.Remove)
	return err
}

// Plan returns the steps of the reset. A step runs even if an earlier one has failed.
func (r *Reset) Plan() lifecycle.Plan {
	inputs := lifecycle.Digest(time.Now())
	var plan lifecycle.Plan
	for _, s := range []struct {
		id, title string
		timeout   time.Duration
		run       func(context.Context) error
	}{
		{node.ResetStep, "move pods to other nodes", shortTime, r.leave},
		{"reset/etcd", "leave the cluster's etcd", shortTime, r.leaveEtcd},
		{kubeadmStep, "undo what kubeadm did", 2 * shortTime, r.kubeadm},
		{"reset/services", "stop services", shortTime, r.services},
		{"reset/containers", "end containers", shortTime, r.containers},
		{"reset/network", "remove pod networks", shortTime, r.network},
		{"reset/packages", "remove host packages", longTime, r.packages},
		{"reset/folders", "remove the cluster's folders", longTime, r.folders},
		{"reset/files", "restore files", shortTime, r.files},
		{"reset/system", "restore settings of the kernel, swap and services", shortTime, r.system},
	} {
		plan = append(plan, lifecycle.Step{ID: s.id, Phase: lifecycle.Reset, Title: s.title, Timeout: s.timeout, Inputs: inputs, Run: r.tolerant(s.title, s.run)})
	}
	return plan
}

// tolerant records a failed step as something that is left, and continues, because later steps are still worth doing. Only an
// interruption ends the reset.
func (r *Reset) tolerant(title string, run func(context.Context) error) func(context.Context) (lifecycle.State, error) {
	return func(ctx context.Context) (lifecycle.State, error) {
		err := run(ctx)
		if errors.Is(context.Cause(ctx), context.Canceled) {
			return nil, context.Canceled
		}
		if err != nil {
			fmt.Fprintln(r.Log, err)
			r.left = append(r.left, baseline.Left{What: title, Why: "failed: " + err.Error(), Failed: true})
		}
		return nil, nil
	}
}

func (r *Reset) leaves(what, why string, args ...any) {
	r.left = append(r.left, baseline.Left{What: what, Why: fmt.Sprintf(why, args...)})
}

// Run reverts the install. It returns what differs from the state before, with reasons. The error is ErrIncomplete if some of it
// has failed: the record of the host then stays, so that the next reset resumes.
func (r *Reset) Run(ctx context.Context, observe func(lifecycle.Event)) ([]baseline.Left, error) {
	// A full disk must not keep anyone from freeing it: what only installs need goes before the first record.
	mark, err := node.ReadMark(r.options.Root)
	if err != nil {
		return nil, err
	}
	for _, folder := range []string{"addons", "host-packages", "kustomize"} {
		if slices.Contains(mark.Before, folder) {
			continue
		}
		if _, err := mounts.Empty(filepath.Join(r.options.Root, folder), false); err != nil { // mounts there are reported at the end
			return nil, err
		}
	}
	if err := r.record.Begin(ctx, strings.Join(r.Journal.Open(), ", ")); err != nil {
		return nil, err
	}
	if _, err := lifecycle.Run(ctx, lifecycle.Resetting, r.Plan(), r.Journal, r.Log.Narrate(observe)); err != nil {
		return nil, err
	}
	now, err := r.record.Look(ctx)
	if err != nil {
		return r.left, fmt.Errorf("compare the host with its state before the install: %w", err)
	}
	err = r.finish(now)
	return r.left, err
}

// finish reports what is left, and removes the record of the install, unless that is needed again.
func (r *Reset) finish(now baseline.State) error {
	r.explain(r.record.Differences(now))
	if !r.options.Force && slices.ContainsFunc(r.left, func(l baseline.Left) bool { return l.Failed }) {
		return ErrIncomplete
	}
	return r.removeRoot()
}

// removeRoot removes the sealift that an install left, and what remembers the install last: until then a reset that was
// interrupted can be run again.
func (r *Reset) removeRoot() error {
	left, err := node.SweepRoot(r.options.Root)
	r.left = append(r.left, left...)
	if err != nil {
		return err
	}
	if _, there := r.record.Before().Files[node.Binary]; !there {
		if err := files.Remove(node.Binary); err != nil {
			return err
		}
	}
	left, err = node.SweepState(r.options.Root, r.Journal.Remove)
	r.left = append(r.left, left...)
	return err
}

// explain adds differences that no step has explained. Transient things are not worth a line.
func (r *Reset) explain(different []baseline.Left) {
	var explained []string
	for _, l := range r.left {
		explained = append(explained, l.What)
	}
	for _, d := range different {
		kind, name, _ := strings.Cut(d.What, " ")
		switch {
		case d.What == node.Binary, slices.Contains(explained, d.What), kind == "service", kind == "route" && d.Why == "was there before":
		case kind == "mount" && strings.HasPrefix(name, "/run/"):
		case kind == "kernel":
			r.leaves(d.What, "is still loaded and harmless; it is gone after the next restart")
		default:
			r.left = append(r.left, d)
		}
	}
	if slices.ContainsFunc(r.Journal.Records(), func(rec lifecycle.Record) bool { return rec.Operation == lifecycle.Adopting }) {
		r.leaves("what kURL installed", "packages, the container runtime with its images, and settings were on this host before 'sealift adopt', and are kept; kURL's 'tasks.sh reset' removes them")
	}
	if _, err := os.Stat(r.options.LogDir); err == nil {
		r.leaves(r.options.LogDir, "logs are kept; remove them when nobody needs them any more")
	}
}

// Check refuses to reset a control plane without which the others could decide nothing any longer, unless that is forced.
func (r *Reset) Check(ctx context.Context) error {
	if r.options.Force {
		return nil
	}
	err := cluster.CheckLeave(ctx, r.node)
	if _, ok := errors.AsType[*cluster.MajorityError](err); ok {
		return fmt.Errorf("without this control plane the cluster would stop: %w; start their hosts, or remove lost ones with 'sealift node remove NAME'; --force resets this one nevertheless", err)
	}
	return err
}

// kubeadmStep takes the credentials of the node away, and then the node from the cluster's list.
const kubeadmStep = "reset/kubeadm"

// wasMember reports whether this host was a node, or an earlier reset may have been interrupted after it took the credentials away.
func (r *Reset) wasMember() bool {
	_, made := r.Journal.Last(node.InitStep)
	_, joined := r.Journal.Last(node.JoinStep)
	return made || joined || r.Journal.Began(kubeadmStep)
}

// leave moves pods away. It is useless on the only node, where nothing could go.
func (r *Reset) leave(ctx context.Context) error {
	var err error
	if r.member, err = cluster.Membership(ctx, r.node, r.Log); err != nil {
		fmt.Fprintln(r.Log, err)
		r.member = nil
		r.leaves("node "+r.node, "the cluster did not answer; if it has other control planes, run on one: sealift node remove %s", r.node)
		return nil
	}
	if r.member == nil && r.wasMember() {
		r.leaves("node "+r.node, "this host has no credentials of the cluster any more; if the cluster has other nodes, and still lists this one, run on a control plane: sealift node remove %s", r.node)
	}
	if r.member == nil || r.member.Alone() || r.options.Force {
		return nil
	}
	if err := r.member.Drain(ctx); err != nil {
		r.leaves("pods of this node", "%v", err)
	}
	return nil
}

func (r *Reset) leaveEtcd(ctx context.Context) error {
	if r.member == nil {
		return nil
	}
	if err := r.member.LeaveEtcd(ctx); err != nil {
		fmt.Fprintln(r.Log, err)
		r.leaves("etcd member "+r.node, "is still one of the cluster's: %v; on another control plane run: sealift node remove %s", err, r.node)
	}
	return nil
}

func (r *Reset) kubeadm(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, speed.Patience(shortTime))
	defer cancel()
	if err := cluster.Reset(bounded, r.Log); err != nil { // the next steps do the rest
		fmt.Fprintln(r.Log, err)
	}
	if r.member == nil || r.member.Alone() {
		return nil
	}
	if err := r.member.Forget(ctx); err != nil {
		fmt.Fprintln(r.Log, err)
		r.leaves("node "+r.node, "is still in the cluster's list, from which it may not take itself; on a control plane run: sealift node remove %s", r.node)
		return nil
	}
	return r.member.AwaitUnlisted(ctx)
}
