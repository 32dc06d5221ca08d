package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/install"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/recovery/restore"
	"github.com/sealift/sealift/installer/recovery/snapshot"
	"github.com/sealift/sealift/installer/recovery/volume"
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
			if err := o.take(cmd, a.TrustedWords()); err != nil {
				return err
			}
			return a.restore(cmd, args, o)
		},
	}
	flags := cmd.Flags()
	addPreflightFlags(cmd, &o.checks)
	o.bundleOptions.add(cmd)
	flags.BoolVar(&o.plan, "plan", false, "show what would be done and what would be lost, and change nothing")
	flags.StringVar(&o.address, "address", "", "address of this new host, with --bundle; default as for an install")
	flags.BoolVar(&o.survivor, "survivor", false, "go on with this host's own data, as the last of several control planes")
	flags.BoolVar(&o.drill, "drill", false, "try the snapshot beside everything that this host has, compare, and remove all of it")
	flags.BoolVar(&o.volumes, "volumes", false, "write only the volumes of the snapshot that this host lacks")
	o.addFlags(cmd)
	return cmd
}

func (a commands) restore(cmd *cobra.Command, args []string, o restoreOptions) (err error) {
	if o.volumes && (o.survivor || o.drill || o.source.name() != "") {
		return app.UsageError("--volumes writes nothing but volumes, and takes neither --survivor nor --drill nor --bundle nor --from")
	}
	if o.drill && (o.survivor || o.plan || o.address != "") {
		return app.UsageError("--drill changes nothing, and takes neither --survivor nor --plan nor --address")
	}
	if o.survivor {
		if len(args) > 0 {
			return app.UsageError("--survivor keeps this host's own data and takes no snapshot; leave out %s", args[0])
		}
		return a.restoreFrom(cmd.Context(), nil, nil, nil, o)
	}
	if o.source.name() == "" && o.address != "" {
		return app.UsageError("--address is that of a new host: give its --bundle, too")
	}
	opener, err := a.snapshotOpener(cmd, o.snapshotKeys)
	if err != nil {
		return err
	}
	var content *snapshot.Content
	from, err := opener.readSnapshot(cmd.Context(), args, func(r snapshot.Reader, from io.Reader) (index snapshot.Index, err error) {
		if content, err = r.Load(from); err == nil {
			index = content.Index
		}
		return index, err
	})
	if err != nil {
		return err
	}
	again := func(ctx context.Context, create func(string) (*volume.Writer, error)) error {
		_, err := opener.readNamed(ctx, from.File, func(r snapshot.Reader, from io.Reader) (snapshot.Index, error) {
			return content.Index, r.Volumes(from, content.Index, create)
		})
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	if o.drill {
		return a.drill(cmd.Context(), content, from, o)
	}
	if o.volumes {
		return a.restoreVolumes(cmd.Context(), from, again, o)
	}
	if o.source.name() != "" {
		return a.restoreOnNewHost(cmd.Context(), content, again, o)
	}
	return a.restoreFrom(cmd.Context(), content, &from, again, o)
}

// restoreOnNewHost installs this host with what a snapshot has.
func (a commands) restoreOnNewHost(ctx context.Context, content *snapshot.Content, volumes restore.ReadVolumes, o restoreOptions) (err error) {
	o.installOptions.format = o.snapshotKeys.format
	if err := o.source.check("restore"); err != nil {
		return err
	}
	options, err := o.options(ctx, a)
	if err != nil {
		return err
	}
	host, err := restore.ForNewHost(o.root, content, volumes)
	if err != nil {
		return err
	}
	if err := host.Check(ctx); err != nil {
		return fmt.Errorf("%w\nnothing was changed", err)
	}
	options.Seed = &install.Seed{ID: host.ID, Kubernetes: content.Kubernetes, Pods: host.Pods, Services: host.Services, Address: o.address,
		Encrypted: host.Encrypted(), Plant: host.Plant, Settle: host.Settle}
	if v := host.Volumes; len(v.Lacking) > 0 {
		options.Seed.Volumes = &install.SeedVolumes{Title: v.Title(), Timeout: restore.VolumeTime, Write: v.Write}
	}
	in, err := prepare(options, o.plan)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if o.plan && o.installOptions.format != "json" {
		a.printWrites(host.Files(), host.Volumes)
	}
	return a.carryOut(ctx, in, o.installOptions)
}

// restoreFrom restores a snapshot, or this host's own data if there is none.
func (a commands) restoreFrom(ctx context.Context, content *snapshot.Content, from *saved, volumes restore.ReadVolumes, o restoreOptions) (err error) {
	options := restore.Options{Scope: node.Scope{Root: o.root}, Volumes: volumes, Excluded: func(ctx context.Context) error {
		return exclusion.Host{Root: o.root}.Check(ctx, nil, exclusion.Restore)
	}}
	if o.verbose {
		options.Output = a.Err
	}
	r, err := restore.Prepare(ctx, options, content)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if o.plan {
		return a.printRestorePlan(r, from, o.snapshotKeys.format)
	}
	if err := r.Check(ctx); err != nil {
		return fmt.Errorf("%w\nnothing was changed", err)
	}
	if err := a.confirmRestore(r, from, o.yes); err != nil {
		return err
	}
	defer a.tellOfInterruption(ctx)()
	began := time.Now()
	events := a.Out
	if o.snapshotKeys.format == "json" {
		events = a.Err
	}
	if err := r.Run(ctx, func(e lifecycle.Event) { printEvent(events, e) }); err != nil {
		return fmt.Errorf("%w\nlog: %s\nrun the same command again to go on", err, r.LogFile())
	}
	if o.snapshotKeys.format == "json" {
		return a.PrintJSON(restored{from, r.Lost, r.OldData(), r.Others(), r.Files(), r.Volumes.Lacking})
	}
	fmt.Fprintf(a.Out, "restored in %s, log %s\n", time.Since(began).Round(100*time.Millisecond), r.LogFile())
	fmt.Fprintf(a.Out, "etcd's old data is in %s; remove it when nobody needs it\n", r.OldData())
	a.printLost(r, from)
	if len(r.Others()) == 0 {
		return nil
	}
	return a.printControlPlaneCommand(ctx)
}

// restored is what 'restore -o json' prints.
type restored struct {
	*saved
	Lost    restore.Lost      `json:"lost"`
	OldData string            `json:"oldData"`
	Removed []string          `json:"removed"`                  // other control planes
	Written []string          `json:"written"`                  // files that the host lacked
	Volumes []snapshot.Volume `json:"writtenVolumes,omitempty"` // that the host lacked
}

func (a commands) printRestorePlan(r *restore.Restore, from *saved, format string) error {
	if format == "json" {
		return a.PrintJSON(map[string]any{"steps": r.Plan(), "lost": r.Lost, "removes": r.Others(), "writes": r.Files(), "volumes": r.Volumes})
	}
	if err := a.printSteps(r.Plan()); err != nil {
		return err
	}
	fmt.Fprintln(a.Out)
	a.printWrites(r.Files(), r.Volumes)
	a.printLost(r, from)
	return nil
}

// printWrites names what comes out of the snapshot besides etcd's data.
func (a commands) printWrites(files []string, volumes restore.Volumes) {
	for _, name := range files {
		fmt.Fprintln(a.Out, "writes "+name)
	}
	a.printVolumes(volumes)
}

func (a commands) confirmRestore(r *restore.Restore, from *saved, yes bool) error {
	if yes {
		return nil
	}
	if !a.CanAsk() {
		return app.UsageError("nobody can be asked here: give --yes to restore, or --plan to see what that would do")
	}
	a.printLost(r, from)
	question := "Let this control plane go on alone?"
	if from != nil {
		question = fmt.Sprintf("Restore this control plane as it was at %s?", from.Time.Format(time.RFC3339))
	}
	if others := r.Others(); len(others) > 0 {
		question += fmt.Sprintf(" (%s are removed from the cluster, and have to join again)", strings.Join(others, ", "))
	}
	if !a.Confirm(question) {
		return errors.New("not confirmed; nothing was changed")
	}
	return nil
}

// namedObjects is how many objects of a kind of loss are named; -o json names all.
const namedObjects = 20

func (a commands) printLost(r *restore.Restore, from *saved) {
	if from == nil {
		fmt.Fprintln(a.Out, "lost: only what other control planes wrote in their last moments and did not send to this host")
		return
	}
	fmt.Fprintf(a.Out, "lost: what was written after %s, revision %d of etcd\n", from.Time.Format(time.RFC3339), from.Etcd.Revision)
	a.printLostObjects(r.Lost)
}

func (a commands) printLostObjects(lost restore.Lost) {
	if lost.Unknown != "" {
		fmt.Fprintln(a.Out, "  "+lost.Unknown)
		return
	}
	for _, l := range []struct {
		what string
		all  []string
	}{{"is removed", lost.Created}, {"goes back", lost.Changed}, {"comes back", lost.Deleted}} {
		for i, name := range l.all {
			if i == namedObjects {
				fmt.Fprintf(a.Out, "  %s: %d more; --plan -o json names them\n", l.what, len(l.all)-i)
				break
			}
			fmt.Fprintf(a.Out, "  %s: %s\n", l.what, name)
		}
	}
}

// printControlPlaneCommand tells how hosts take the places of lost control planes.
func (a commands) printControlPlaneCommand(ctx context.Context) error {
	admin, err := controlplane.AsAdministrator()
	if err != nil {
		return err
	}
	command, err := exclusion.JoinCommand(ctx, admin, controlplane.Invitation{For: certificateLife, Description: "made by a restore", ControlPlane: true})
	var excluded *exclusion.Error
	if errors.As(err, &excluded) { // the snapshot is from the middle of it
		fmt.Fprintf(a.Out, "\nno control plane can join yet: %v\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "\nto add a control plane, run as root on the host, within 2 hours:\n  %s\n", command)
	return nil
}

// restoreVolumes writes the volumes of a snapshot that this host lacks.
func (a commands) restoreVolumes(ctx context.Context, from saved, read restore.ReadVolumes, o restoreOptions) error {
	v, err := restore.FindVolumes(from.Index, read)
	if err != nil {
		return forRoot(err)
	}
	asJSON := o.snapshotKeys.format == "json"
	if asJSON && (o.plan || len(v.Lacking) == 0) {
		return a.PrintJSON(v)
	}
	if !asJSON && len(from.Volumes) == 0 {
		fmt.Fprintln(a.Out, "the snapshot has no volumes")
	}
	if !asJSON {
		a.printVolumes(v)
	}
	if o.plan || len(v.Lacking) == 0 {
		return nil
	}
	if !o.yes {
		if !a.CanAsk() {
			return app.UsageError("nobody can be asked here: give --yes to restore, or --plan to see what that would do")
		}
		if !a.Confirm("Write these volumes? No pod may use them meanwhile.") {
			return errors.New("not confirmed; nothing was changed")
		}
	}
	defer a.tellOfInterruption(ctx)()
	events := a.Out
	if asJSON {
		events = a.Err
	}
	if err := v.Alone(ctx, o.root, events); err != nil {
		return err
	}
	if asJSON {
		return a.PrintJSON(v)
	}
	return nil
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
