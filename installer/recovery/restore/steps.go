package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/bridge"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/cluster/encryption"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/pki"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/regularfile"
)

// The journal steps that are looked up: the first one that changes running programs, the one that creates etcd's data, those from which
// on files and data are replaced and work again, and the last.
const (
	FirstStep    = "restore/stop"
	dataStep     = "restore/data"
	ExchangeStep = "restore/exchange"
	StartStep    = "restore/start"
	LastStep     = "restore/ready"
)

// Resumes is how long a restore that was interrupted is resumed. After that, a new one begins.
const Resumes = 24 * time.Hour

// The timeouts of steps: several times what a slow disk needs.
const (
	shortTime = 5 * time.Minute
	copyTime  = time.Hour
)

// etcdutlPath is where etcd's image has its own tool.
const etcdutlPath = "/usr/local/bin/etcdutl"

// step is a step of a restore.
type step struct {
	id, title string
	timeout   time.Duration
	run       func(context.Context) error
}

// Plan returns the steps. Those that an interrupted restore has finished are skipped when it runs.
func (r *Restore) Plan() (plan lifecycle.Plan) {
	stop := step{FirstStep, "stop the kubelet, the API server and etcd", shortTime, r.stop}
	steps := []step{{dataStep, "make etcd's data of the snapshot", copyTime, r.makeData}, stop}
	if r.from == nil {
		steps = []step{stop, {dataStep, "make etcd's data of this host's own", copyTime, r.makeData}}
	}
	if len(r.missing) > 0 {
		steps = append(steps, step{"restore/files", fmt.Sprintf("write %d files that are gone", len(r.missing)), shortTime, r.writeFiles})
	}
	if r.enables {
		steps = append(steps, step{"restore/encryption", "let the API server read encrypted Secrets", shortTime, r.enable})
	}
	if len(r.Volumes.Lacking) > 0 {
		steps = append(steps, step{VolumesStep, r.Volumes.Title(), VolumeTime, func(ctx context.Context) error { return r.Volumes.Write(ctx, r.Log) }})
	}
	steps = append(steps,
		step{ExchangeStep, "put the data in its place, and keep the old data", shortTime, r.exchange},
		step{StartStep, "start the kubelet", shortTime, r.start},
		step{"restore/api", "wait for the Kubernetes API", 2 * shortTime, r.waitAPI})
	if len(r.others) > 0 {
		steps = append(steps, step{"restore/others", "remove " + strings.Join(r.Others(), ", "), shortTime, r.removeOthers})
	}
	steps = append(steps, step{LastStep, "wait until this node is Ready", shortTime, r.waitNode})
	for _, s := range steps {
		plan = append(plan, lifecycle.Step{ID: s.id, Phase: lifecycle.Restore, Title: s.title, Timeout: s.timeout, Inputs: r.inputs,
			Run: func(ctx context.Context) (lifecycle.State, error) { return nil, s.run(ctx) }})
	}
	return plan
}

// Run restores.
func (r *Restore) Run(ctx context.Context, observe func(lifecycle.Event)) error {
	_, err := lifecycle.Run(ctx, lifecycle.Restoring, r.Plan(), r.Journal, r.Log.Narrate(observe))
	return err
}

// makeData makes etcd's data of the snapshot, or of this host's own.
func (r *Restore) makeData(ctx context.Context) error {
	if r.from != nil {
		if r.data.together != nil && r.data.inPlace() { // the other members count on what this one has written since
			return nil
		}
		if _, err := r.from.Etcd.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return makeData(ctx, r.root, r.data, r.member, r.Log, r.from.Etcd, true)
	}
	if err := r.stop(ctx); err != nil { // the host may have been started again since
		return err
	}
	f, err := regularfile.Open(r.data.database())
	if err != nil {
		return err
	}
	defer f.Close()
	return makeData(ctx, r.root, r.data, r.member, r.Log, f, false)
}

// makeData uses the tool in etcd's own image: it has the version of the etcd that will read the data.
func makeData(ctx context.Context, root string, d dataFolder, m member, output io.Writer, database *os.File, isSnapshot bool) (err error) {
	const pattern = "sealift-restore.*"
	if err := files.Sweep(node.StateDir(root), pattern); err != nil {
		return err
	}
	folder, err := files.TempFolder(node.StateDir(root), pattern)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Remove()) }()
	program := filepath.Join(folder.Path, "etcdutl")
	containers, err := runtime.Connect(ctx, runtime.Socket)
	if err != nil {
		return err
	}
	defer containers.Close()
	if err := containers.Program(ctx, m.Image, etcdutlPath, program); err != nil {
		return err
	}
	return d.make(ctx, etcdutl{program, m, output}, database, isSnapshot)
}

func (r *Restore) stop(ctx context.Context) error { return StopControlPlane(ctx, r.Log) }

// waitAPI waits for the API. A snapshot from before Sealift approved certificates of nodes brings back what approved them then. An undo
// keeps that: it restores agents that do not approve.
func (r *Restore) waitAPI(ctx context.Context) error {
	if err := cluster.WaitAPI(ctx, r.Log); err != nil || r.besides != nil {
		return err
	}
	return cluster.LetAgentsApprove(ctx, r.Log)
}

// StopControlPlane ends the static pods of this host, etcd last: none of them may remember data that etcd loses. It ends the kubelet
// first, which would start them again.
func StopControlPlane(ctx context.Context, output io.Writer) error {
	if err := command.Run(ctx, output, "systemctl", "stop", "kubelet"); err != nil {
		return err
	}
	if err := bridge.Stop(ctx, output); err != nil { // of an upgrade that was killed
		return err
	}
	containers, err := runtime.Connect(ctx, runtime.Socket)
	if err != nil {
		return err
	}
	defer containers.Close()
	pods := kubeadm.StaticPods()
	slices.Reverse(pods)
	return containers.Stop(ctx, pods)
}

func (r *Restore) writeFiles(context.Context) error { return r.host.write(r.from, r.missing) }

// enable gives the API server the keys, which are on the host by now.
func (r *Restore) enable(context.Context) error { return encryption.Host{Host: r.host.Host}.Enable() }

// exchange stops again: the host may have been restarted since.
func (r *Restore) exchange(ctx context.Context) error {
	if err := r.stop(ctx); err != nil {
		return err
	}
	if r.besides != nil {
		if err := r.besides(ctx, r.Log); err != nil {
			return err
		}
	}
	return r.data.exchange()
}

func (r *Restore) start(ctx context.Context) error {
	if err := r.renew(time.Now()); err != nil {
		return err
	}
	return StartKubelet(ctx, r.Log)
}

// renew renews expired certificates, of an old snapshot, or of a host that was off for long. The API would not start with them.
func (r *Restore) renew(now time.Time) error {
	files, err := pki.RenewEnded(r.host.Rootfs, now)
	if err != nil {
		return fmt.Errorf("the certificates that have ended: %w", err)
	}
	for _, name := range files {
		fmt.Fprintln(r.Log, "renewed "+name+", whose certificate had ended")
	}
	return nil
}

// StartKubelet starts the kubelet, which may have ended too often without its files.
func StartKubelet(ctx context.Context, output io.Writer) error {
	_ = command.Run(ctx, output, "systemctl", "reset-failed", "kubelet")
	return command.Run(ctx, output, "systemctl", "start", "kubelet")
}

// removeOthers removes the other control planes from the cluster. etcd does not have them any longer.
func (r *Restore) removeOthers(ctx context.Context) error {
	admin, err := controlplane.AsAdministrator()
	if err != nil {
		return err
	}
	return removeNodes(ctx, admin, r.Others(), r.Log)
}

// removeNodes removes nodes from the cluster, as far as it knows them.
func removeNodes(ctx context.Context, admin controlplane.Administrator, names []string, output io.Writer) error {
	for _, name := range names {
		remains, err := admin.Leftovers(ctx, name)
		if errors.Is(err, cluster.ErrUnknownNode) {
			continue
		}
		if err == nil {
			err = remains.Remove(ctx, func(line string) { fmt.Fprintln(output, line) })
		}
		if err != nil {
			return fmt.Errorf("remove node %s: %w", name, err)
		}
	}
	return nil
}

// waitNode waits for the kubelet's own report: the snapshot also has the node as Ready.
func (r *Restore) waitNode(ctx context.Context) error {
	return cluster.WaitReport(ctx, r.member.Name, r.Log)
}
