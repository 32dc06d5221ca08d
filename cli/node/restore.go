package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/change"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/recovery/restore"
	"github.com/sealift/sealift/installer/recovery/snapshot"
)

type restoreOptions struct {
	installOptions
	snapshotKeys
	survivor bool
	drill    bool
	volumes  bool
	address  string
}

func (a commands) restoreCommand() *cobra.Command {
	var o restoreOptions
	cmd := &cobra.Command{
		Use:   "restore [FILE|NAME]",
		Short: "Bring this control plane back from a snapshot",
		Long: `Bring a control plane back that lost etcd's data, or keys and files of kubeadm. The argument is a file, or the name of a snapshot
in the store. Without one, the command takes the newest of the store.

The command checks every byte of the snapshot first, and refuses one that this cluster did not sign. A host that knows no cluster,
such as a new one, has to be told: --ca-hash is the hash that join commands have; at a terminal, the command shows the hash and asks.
It stops the kubelet, the
API server and etcd, exchanges etcd's data, writes the files of kubeadm that this host lacks, and starts everything again.
etcd comes back as one member: other control planes must be gone, and are removed from the cluster. The old data is kept.

What was written after the snapshot is lost. The command names it where it can still be read.

With --survivor, this host is the last of several control planes whose etcd has lost its majority. It goes on alone with its own
data and needs no snapshot.

With --bundle or --from, this is a new host that takes the place of the control plane of the snapshot. It is installed with the
keys, the networks and the objects of the snapshot. Its address and its name may be others. If it has the address of the old
host, workers need no step.

Local volumes that the snapshot has are written, too, if this host lacks their folders or has them empty. Others stay as they are.
With --volumes, nothing else is restored, and the cluster goes on: scale what uses the volumes down to zero pods first.

With --drill, nothing of this host or of a cluster is changed: the command restores the snapshot into a folder of its own, starts
etcd and the API server of the snapshot's versions there, compares every object with the snapshot, reports how long that took, and
removes it again. It needs the images of the cluster: those of this host, or those of --bundle. The exit code is 1 if anything
differs.

If a restore is interrupted, run the same command again to finish it.`,
		Example: `  sealift restore --plan --identity snapshots.key
  sealift restore /media/usb/cluster-1.snapshot --passphrase-file /root/passphrase
  sealift restore --store s3://backups/cluster-1 --identity snapshots.key --yes
  sealift restore --survivor
  sealift restore --volumes --plan --identity snapshots.key
  sealift restore /media/usb/cluster-1.snapshot --drill --identity snapshots.key --bundle /media/usb/cluster.tar.gz
  sealift restore /media/usb/cluster-1.snapshot --identity snapshots.key --ca-hash sha256:0123… --bundle /media/usb/cluster.tar.gz`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.take(a.TrustedWords()); err != nil {
				return err
			}
			return a.restore(cmd, strings.Join(args, ""), o)
		},
	}
	flags := cmd.Flags()
	addPreflightFlags(cmd, &o.checks)
	o.bundleOptions.add(cmd, "what would be done and what would be lost")
	flags.StringVar(&o.address, "address", "", "address of this new host, with --bundle; default as for an install")
	flags.BoolVar(&o.survivor, "survivor", false, "go on with this host's own data, as the last of several control planes")
	flags.BoolVar(&o.drill, "drill", false, "try the snapshot beside everything that this host has, compare, and remove all of it")
	flags.BoolVar(&o.volumes, "volumes", false, "write only the volumes of the snapshot that this host lacks")
	o.snapshotKeys.addFlags(cmd)
	return cmd
}

// check reports whether the flags and the name of the snapshot go together.
func (o *restoreOptions) check(name string) error {
	switch {
	case o.volumes && (o.survivor || o.drill || o.source.name() != ""):
		return app.UsageError("--volumes writes nothing but volumes, and takes neither --survivor nor --drill nor --bundle nor --from")
	case o.drill && (o.survivor || o.Plan || o.address != ""):
		return app.UsageError("--drill changes nothing, and takes neither --survivor nor --plan nor --address")
	case o.survivor && name != "":
		return app.UsageError("--survivor keeps this host's own data and takes no snapshot; leave out %s", name)
	case !o.survivor && o.source.name() == "" && o.address != "":
		return app.UsageError("--address is that of a new host: give its --bundle, too")
	}
	return nil
}

func (a commands) restore(cmd *cobra.Command, name string, o restoreOptions) (err error) {
	if err := o.check(name); err != nil {
		return err
	}
	if o.survivor {
		return a.restoreFrom(cmd.Context(), nil, o)
	}
	finder, err := a.finder(o.snapshotKeys)
	if err != nil {
		return err
	}
	from, err := finder.Load(cmd.Context(), name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	switch {
	case o.drill:
		return a.drill(cmd.Context(), from, o)
	case o.volumes:
		return a.restoreVolumes(cmd.Context(), from, o)
	case o.source.name() != "":
		return a.restoreOnNewHost(cmd.Context(), from, o)
	}
	return a.restoreFrom(cmd.Context(), from, o)
}

// restoreOnNewHost installs this host with what a snapshot has.
func (a commands) restoreOnNewHost(ctx context.Context, from *snapshot.Loaded, o restoreOptions) (err error) {
	if err := o.source.check("restore"); err != nil {
		return err
	}
	options, err := o.options(ctx, a)
	if err != nil {
		return err
	}
	host, err := restore.ForNewHost(o.root, from.Content, from.ReadVolumes)
	if err != nil {
		return err
	}
	if err := host.Check(ctx); err != nil {
		return change.Unchanged(err)
	}
	options.Seed = &install.Seed{ID: host.ID, Kubernetes: from.Kubernetes, Networks: host.Networks, Address: o.address,
		Encrypted: host.Encrypted(), Plant: host.Plant, Settle: host.Settle}
	if v := host.Volumes; len(v.Lacking) > 0 {
		options.Seed.Volumes = &install.SeedVolumes{Title: v.Title(), Timeout: restore.VolumeTime, Write: v.Write}
	}
	in, err := prepare(ctx, options, o.Plan)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if o.Plan && o.Format != "json" {
		a.printWrites(host.Files(), host.Volumes)
	}
	return a.carryOut(ctx, in, o.installOptions)
}

// restoreHere returns the options of a restore of this host.
func (a commands) restoreHere(root string) restore.Options {
	return restore.Options{Scope: node.Scope{Root: root, Output: a.ProgramOutput()}, Excluded: func(ctx context.Context) error {
		return exclusion.Host{Root: root}.Check(ctx, nil, exclusion.Restore)
	}}
}

// restoreFrom restores a snapshot, or this host's own data if there is none.
func (a commands) restoreFrom(ctx context.Context, from *snapshot.Loaded, o restoreOptions) (err error) {
	options := a.restoreHere(o.root)
	var content *snapshot.Content
	if from != nil {
		content, options.Volumes = from.Content, from.ReadVolumes
	}
	r, err := restore.Prepare(ctx, options, content)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return change.Do(ctx, a.App, o.Flags, change.Work{
		To: "restore", Question: restoreQuestion(r, from), Check: r.Check, LogFile: r.LogFile,
		Plan: func() (change.Result, error) {
			preview := r.Preview()
			return change.Result{Document: preview, Text: func() error { return a.printRestorePlan(preview, from) }}, nil
		},
		Run: func(ctx context.Context, p *change.Progress) (change.Result, error) {
			if err := r.Run(ctx, steps(p)); err != nil {
				return change.Result{}, err
			}
			return a.restored(ctx, r, from, p.Took(100*time.Millisecond)), nil
		},
	})
}

// restored is what 'restore -o json' prints.
type restored struct {
	*snapshot.Found
	restore.Result
	// Join is the command with which a control plane joins, if others were removed.
	Join string `json:"controlPlaneCommand,omitempty"`
	// Refused is why no control plane can join yet: the snapshot was made in the middle of a change of the cluster.
	Refused string `json:"controlPlaneRefused,omitempty"`
}

// restored returns the result of a restore.
func (a commands) restored(ctx context.Context, r *restore.Restore, from *snapshot.Loaded, took time.Duration) change.Result {
	done := restored{Result: r.Result()}
	if from != nil {
		found := from.Found()
		done.Found = &found
	}
	var failed error
	if len(done.Removed) > 0 {
		done.Join, failed = controlPlaneCommand(ctx, r.Root)
	}
	if _, ok := errors.AsType[*exclusion.Error](failed); ok {
		done.Refused, failed = failed.Error(), nil
	}
	return change.Result{Document: done, Failed: failed, Text: func() error {
		fmt.Fprintf(a.Out, "restored in %s, log %s\n", took, r.LogFile())
		fmt.Fprintf(a.Out, "etcd's old data is in %s; remove it when nobody needs it\n", done.OldData)
		fmt.Fprintln(a.Out, lossOf(done.Lost, from))
		switch {
		case done.Refused != "":
			fmt.Fprintf(a.Out, "\nno control plane can join yet: %s\n", done.Refused)
		case done.Join != "":
			fmt.Fprintf(a.Out, "\nto add a control plane, run as root on the host, within 2 hours:\n  %s\n", done.Join)
		}
		return nil
	}}
}

func (a commands) printRestorePlan(p restore.Preview, from *snapshot.Loaded) error {
	if err := a.printSteps(p.Steps); err != nil {
		return err
	}
	fmt.Fprintln(a.Out)
	a.printWrites(p.Writes, p.Volumes)
	fmt.Fprintln(a.Out, lossOf(p.Lost, from))
	return nil
}

// printWrites names what comes out of the snapshot besides etcd's data.
func (a commands) printWrites(files []string, volumes restore.Volumes) {
	for _, name := range files {
		fmt.Fprintln(a.Out, "writes "+name)
	}
	a.printVolumes(volumes)
}

// restoreQuestion says what is lost, and asks.
func restoreQuestion(r *restore.Restore, from *snapshot.Loaded) string {
	question := "Let this control plane go on alone?"
	if from != nil {
		question = fmt.Sprintf("Restore this control plane as it was at %s?", from.Time.Format(time.RFC3339))
	}
	if others := r.Others(); len(others) > 0 {
		question += fmt.Sprintf(" (%s are removed from the cluster, and have to join again)", strings.Join(others, ", "))
	}
	return lossOf(r.Lost, from) + "\n" + question
}

// lossOf says what a restore loses.
func lossOf(lost restore.Lost, from *snapshot.Loaded) string {
	if from == nil {
		return "lost: only what other control planes wrote in their last moments and did not send to this host"
	}
	lines := []string{fmt.Sprintf("lost: what was written after %s, revision %d of etcd", from.Time.Format(time.RFC3339), from.Content.Index.Etcd.Revision)}
	return strings.Join(append(lines, lostObjects(lost)...), "\n")
}

// namedObjects limits the printed objects of each kind of loss; -o json has all of them.
const namedObjects = 20

// lostObjects names the objects that are lost, one on each line.
func lostObjects(lost restore.Lost) (lines []string) {
	if lost.Unknown != "" {
		return []string{"  " + lost.Unknown}
	}
	for _, l := range []struct {
		what string
		all  []string
	}{{"is removed", lost.Created}, {"goes back", lost.Changed}, {"comes back", lost.Deleted}} {
		for i, name := range l.all {
			if i == namedObjects {
				lines = append(lines, fmt.Sprintf("  %s: %d more; --plan -o json names them", l.what, len(l.all)-i))
				break
			}
			lines = append(lines, fmt.Sprintf("  %s: %s", l.what, name))
		}
	}
	return lines
}

// controlPlaneCommand makes the command with which hosts take the places of lost control planes.
func controlPlaneCommand(ctx context.Context, root string) (string, error) {
	admin, err := controlplane.AsAdministrator()
	if err != nil {
		return "", err
	}
	return exclusion.JoinCommand(ctx, admin, controlplane.Invitation{For: certificateLife, Description: "made by a restore", ControlPlane: true, Root: root})
}

// restoreVolumes writes the volumes of a snapshot that this host lacks.
func (a commands) restoreVolumes(ctx context.Context, from *snapshot.Loaded, o restoreOptions) error {
	v, err := restore.FindVolumes(from.Content.Index, from.ReadVolumes)
	if err != nil {
		return err
	}
	if o.Format != "json" {
		if len(from.Content.Index.Volumes) == 0 {
			fmt.Fprintln(a.Out, "the snapshot has no volumes")
		}
		a.printVolumes(v)
	}
	result := change.Result{Document: v, Text: func() error { return nil }} // it is printed before
	if len(v.Lacking) == 0 {
		return change.Print(a.App, o.Flags, result)
	}
	return change.Do(ctx, a.App, o.Flags, change.Work{
		To: "restore", Question: "Write these volumes? No pod may use them meanwhile.",
		Plan: func() (change.Result, error) { return result, nil },
		Run: func(ctx context.Context, p *change.Progress) (change.Result, error) {
			if err := v.Alone(ctx, o.root, p); err != nil {
				return change.Result{}, err
			}
			return result, nil
		},
		Next: change.Nothing, // Alone says it
	})
}

// printVolumes names the volumes that are written, and those that stay.
func (a commands) printVolumes(v restore.Volumes) {
	for _, one := range v.Lacking {
		fmt.Fprintf(a.Out, "writes volume %s %s in %s: %s\n", one.Name, one.Claim, one.Path, app.FormatBytes(one.Size))
	}
	for _, one := range v.Present {
		fmt.Fprintf(a.Out, "volume %s %s stays as it is: %s has content\n", one.Name, one.Claim, one.Path)
	}
}
