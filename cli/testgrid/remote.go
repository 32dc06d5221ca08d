package testgrid

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/pods"
	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/store"
	"github.com/sealift/sealift/store/release"
	"github.com/sealift/sealift/testgrid/machine"
	"github.com/sealift/sealift/testgrid/remote"
	"github.com/sealift/sealift/testgrid/runner"
)

// inPod runs in the pods of a run on a cluster.
func inPod() pods.Work {
	return pods.Work{Job: "testgrid", Words: []string{"testgrid", "run-in-pod"}, Does: "Run one test", For: "sealift testgrid run",
		Example: "--store s3://packages/stable --history s3://results/grid --hosts hosts.yaml"}
}

// hostsFile is the name of HOSTS.yaml among the files of a pod.
const hostsFile = "hosts.yaml"

// checkPods refuses what runs on a cluster cannot do. The results go to the store with the packages if no other one is named.
func (o *runOptions) checkPods() error {
	switch {
	case o.pods.On == "":
		return nil
	case o.KeepFailed || o.Resume:
		return app.UsageError("pods keep no machines; leave out --keep-failed and --resume")
	case o.history == "":
		o.history = o.Store
	}
	return o.pods.Check(map[string]string{"--store": o.Store, "--history": o.history})
}

// coordinator makes what runs the tests in pods.
func (a commands) coordinator(ctx context.Context, o runOptions) (*remote.Coordinator, error) {
	systems := o.Systems
	if len(systems) == 0 {
		systems = o.Hosts.Systems()
	}
	if err := o.Hosts.CheckPods(systems); err != nil {
		return nil, err
	}
	hosts, err := os.ReadFile(o.hosts)
	if err != nil {
		return nil, err
	}
	packages, err := store.Opener{Log: a.Log, CAs: a.CAs}.Open(o.Store)
	if err != nil {
		return nil, err
	}
	index, err := release.In(packages, "").Index(ctx)
	if err != nil {
		return nil, err
	}
	listing, err := json.Marshal(index)
	if err != nil {
		return nil, err
	}
	cluster, err := o.pods.Connect(a.Log)
	if err != nil {
		return nil, err
	}
	flags := []string{"--store", o.Store, "--history", o.history, "--hosts", pods.File(hostsFile)}
	if o.Again != "" {
		flags = append(flags, "--again", o.Again)
	}
	if o.Server != "" {
		flags = append(flags, "--server", o.Server)
	}
	work := o.pods.Batch(inPod(), flags, map[string][]byte{hostsFile: hosts}, a.CAs)
	work.Log, work.PieceTime, work.Time = a.Log, remote.TestTime, remote.RunTime
	work.Started = func(job kube.Ref, pieces int) {
		o.Progress(fmt.Sprintf("%s runs %s", job, app.Counted(pieces, "test")))
	}
	return &remote.Coordinator{
		Cluster: cluster, Store: o.History.Store, Batch: work, Values: o.values,
		Setting: remote.Setting{Program: o.pods.Program(), Hosts: store.Bytes(hosts).SHA256, Packages: store.Bytes(listing).SHA256, Server: o.Server},
	}, nil
}

func (a commands) inPodCommand() *cobra.Command {
	var o runOptions
	cmd := inPod().Command(func(ctx context.Context) error { return a.runInPod(ctx, o) })
	flags := cmd.Flags()
	flags.StringVar(&o.hosts, "hosts", "", "HOSTS.yaml: which machines serve which system")
	flags.StringVar(&o.Store, "store", "", "store with the packages")
	addServerFlag(cmd, &o.Server)
	flags.StringVar(&o.history, "history", "", "store with the tests, and for the results")
	flags.StringVar(&o.program, "program", "", "the sealift that makes bundles (default: the one beside this program, or on the PATH)")
	flags.Var(app.NewChoice(&o.Again, []string{runner.AgainFailed, runner.AgainAll}), "again", "run tests again that have ended with the same input: failed or all")
	return cmd
}

func (a commands) runInPod(ctx context.Context, o runOptions) error {
	results, err := a.openHistory(o.history, true)
	if err != nil {
		return err
	}
	hosts, err := os.ReadFile(o.hosts)
	if err != nil {
		return err
	}
	o.Progress = func(line string) { fmt.Fprintln(a.Err, line) }
	if o.Hosts, err = machine.Parse(o.hosts, hosts, machineOptions(o.Progress)); err != nil {
		return a.mistaken(o.hosts, err)
	}
	if o.Sealift, err = findProgram(o.program, "sealift", "--program"); err != nil {
		return err
	}
	o.CAs = a.CAs
	setting := remote.Setting{Program: o.pods.Program(), Hosts: store.Bytes(hosts).SHA256}
	return remote.Serve(ctx, results.Store, os.Getenv, setting, o.Options)
}
