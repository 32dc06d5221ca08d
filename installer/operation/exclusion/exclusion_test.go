package exclusion_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	etcd "github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/authority"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/recovery/undo"
	"github.com/sealift/sealift/internal/testing/kubeadm"
)

// place is a host and its cluster, without unfinished operations.
type place struct {
	t      *testing.T
	host   exclusion.Host
	client kubernetes.Interface
}

func newPlace(t *testing.T) place {
	t.Helper()
	return place{t, exclusion.Host{Root: t.TempDir(), Rootfs: t.TempDir()}, fake.NewClientset()}
}

func (p place) record(name, key string, value any) {
	p.t.Helper()
	data, ok := value.(map[string]string)
	if !ok {
		text, err := json.Marshal(value)
		if err != nil {
			p.t.Fatal(err)
		}
		data = map[string]string{key: string(text)}
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
	if _, err := p.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Create(p.t.Context(), m, metav1.CreateOptions{}); err != nil {
		p.t.Fatal(err)
	}
}

func (p place) upgrade(phase, snapshot string) {
	p.t.Helper()
	p.record("sealift-upgrade", "state.json", map[string]any{"from": "1.35.4", "to": "1.36.3", "phase": phase, "leader": "host-1", "snapshot": snapshot})
}

func (p place) loadBalancer(moved bool) {
	p.t.Helper()
	p.record("sealift-load-balancer", "change", map[string]any{"id": "1", "from": "10.0.0.1:6443", "to": "10.0.0.2:6443", "moved": moved})
}

func (p place) order(stage undo.Stage) {
	p.t.Helper()
	set, err := undo.Store{Root: p.host.Root, Rootfs: p.host.Rootfs}.Keep("fedcba9876543210", "1.35.4", time.Now())
	if err == nil {
		err = set.WriteOrder(undo.JointUndo{ID: "0123456789abcdef", Upgrade: set.Upgrade, Leader: "host-1", Server: "10.0.0.1:6445", Snapshot: strings.Repeat("a", 64), Stage: stage,
			Members: []etcd.EtcdMember{{Name: "host-1", Peers: []string{"https://10.0.0.1:2380"}}, {Name: "host-2", Peers: []string{"https://10.0.0.2:2380"}}}})
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// restored has an only control plane that was killed after its data were back.
func (p place) restored() {
	p.t.Helper()
	set, err := undo.Store{Root: p.host.Root, Rootfs: p.host.Rootfs}.Keep("fedcba9876543210", "1.35.4", time.Now())
	if err == nil {
		err = set.MarkRestored()
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// journal writes records, the last of which is the newest.
func (p place) journal(records ...lifecycle.Record) {
	p.t.Helper()
	var text []byte
	for _, r := range records {
		if r.Time.IsZero() {
			r.Time = time.Now()
		}
		line, err := json.Marshal(r)
		if err != nil {
			p.t.Fatal(err)
		}
		text = append(append(text, line...), '\n')
	}
	if err := os.MkdirAll(node.StateDir(p.host.Root), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(lifecycle.JournalFile(node.StateDir(p.host.Root)), text, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p place) readdress(steps ...string) {
	p.t.Helper()
	var all []lifecycle.Record
	for _, step := range steps {
		all = append(all, lifecycle.Record{Operation: lifecycle.Readdressing, Step: step, Inputs: "10.0.0.1 10.0.0.9 20260101T000000Z", Outcome: lifecycle.Finished})
	}
	p.journal(all...)
}

func (p place) restore(at time.Time, steps ...string) {
	p.t.Helper()
	var all []lifecycle.Record
	for _, step := range steps {
		all = append(all, lifecycle.Record{Time: at, Operation: lifecycle.Restoring, Step: step, Inputs: "id 20260101T000000Z", Outcome: lifecycle.Finished})
	}
	p.journal(all...)
}

// restoreBefore has a restore that was interrupted before another operation ran.
func (p place) restoreBefore(other lifecycle.Operation) {
	p.t.Helper()
	p.journal(lifecycle.Record{Operation: lifecycle.Restoring, Step: "restore/stop", Inputs: "id 20260101T000000Z", Outcome: lifecycle.Finished},
		lifecycle.Record{Operation: other, Step: "any", Outcome: lifecycle.Started})
}

// rotation puts the file of a rotation of CAs below the host's files.
func (p place) rotation() {
	p.t.Helper()
	s, err := authority.New(strings.TrimSuffix(kubeadm.Copy(p.t), "/etc/kubernetes"), []string{authority.Cluster}, time.Now())
	if err != nil {
		p.t.Fatal(err)
	}
	name := filepath.Join(p.host.Rootfs, authority.File)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(name, s.Encode(), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// matrix has a row for each operation that may be half done, and a column for each that may begin: x is refused, = resumes.
const matrix = `
                              Upgrade Undo CAs Keys LoadBalancer Images Readdress FollowAddress JoinControlPlane Restore Renew
upgrade                       =       -    x   x    x            -      x         -             x                -       -
undo                          x       =    x   x    x            x      x         x             x                x       -
undo-of-this-host             x       =    x   x    x            x      x         x             x                x       -
CAs-on-this-host              x       x    =   x    x            -      x         x             x                -       -
CAs-on-another-host           x       x    =   x    x            -      x         x             x                -       -
keys                          x       -    x   =    x            -      x         -             -                -       -
load-balancer                 x       x    x   x    =            -      x         -             -                -       -
readdress                     x       x    x   x    x            x      =         -             x                -       -
restore                       x       -    x   x    x            x      x         x             x                =       -
upgrade-without-changes       -       -    -   -    -            -      -         -             -                -       -
upgrade-finished              -       -    -   -    -            -      -         -             -                -       -
undo-that-may-be-dropped      -       -    -   -    -            -      -         -             -                -       -
load-balancer-moved           -       -    -   -    -            -      -         -             -                -       -
readdress-ended               -       -    -   -    -            -      -         -             -                -       -
readdress-taken-back          -       -    -   -    -            -      -         -             -                -       -
restore-ended                 -       -    -   -    -            -      -         -             -                -       -
restore-given-up              -       -    -   -    -            -      -         -             -                -       -
restore-long-ago-exchanging   x       -    x   x    x            x      x         x             x                =       -
restore-long-ago-started      -       -    -   -    -            -      -         -             -                -       -
restore-before-other-work     -       -    -   -    -            -      -         -             -                -       -
restore-before-renewal        x       -    x   x    x            x      x         x             x                =       -
data-made-for-an-undo         -       -    -   -    -            -      -         -             -                -       -
nothing                       -       -    -   -    -            -      -         -             -                -       -
`

// TestUnfinishedOperationsExcludeConflictingOnes tries every ordered pair.
func TestUnfinishedOperationsExcludeConflictingOnes(t *testing.T) {
	columns := map[string]exclusion.Operation{"Upgrade": exclusion.Upgrade, "Undo": exclusion.Undo, "CAs": exclusion.CAs, "Keys": exclusion.Keys, "LoadBalancer": exclusion.LoadBalancer, "Images": exclusion.Images, "Readdress": exclusion.Readdress,
		"FollowAddress": exclusion.FollowAddress, "JoinControlPlane": exclusion.JoinControlPlane, "Restore": exclusion.Restore, "Renew": exclusion.Renew}
	records := map[string]struct {
		write func(place)
		next  string // the refusal has it
	}{
		"upgrade":           {func(p place) { p.upgrade("nodes", "/var/lib/snapshot") }, "run 'sealift upgrade' with the same bundle again, or 'sealift upgrade undo', on host-1"},
		"undo":              {func(p place) { p.order(undo.Committed) }, "run 'sealift upgrade undo' on host-1"},
		"undo-of-this-host": {place.restored, "sealift upgrade undo"},
		"CAs-on-this-host":  {place.rotation, "sealift certs rotate-ca"},
		"CAs-on-another-host": {func(p place) {
			p.record("sealift-rotation", "", map[string]string{"id": "20260101", "leader": "host-3"})
		}, "run 'sealift certs rotate-ca' on host-3"},
		"keys": {func(p place) {
			p.record("sealift-encryption", "", map[string]string{"key": "key-2", "leader": "host-1"})
		}, "sealift certs rotate-encryption"},
		"load-balancer":            {func(p place) { p.loadBalancer(false) }, "sealift node load-balancer 10.0.0.2:6443"},
		"readdress":                {func(p place) { p.readdress("readdress/keep") }, "sealift node readdress 10.0.0.9"},
		"restore":                  {func(p place) { p.restore(time.Now(), "restore/data", "restore/stop") }, "sealift restore"},
		"upgrade-without-changes":  {func(p place) { p.upgrade("preparing", "") }, ""},
		"upgrade-finished":         {func(p place) { p.upgrade("finished", "/var/lib/snapshot") }, ""},
		"undo-that-may-be-dropped": {func(p place) { p.order(undo.Prepared) }, ""},
		"load-balancer-moved":      {func(p place) { p.loadBalancer(true) }, ""},
		"readdress-ended":          {func(p place) { p.readdress("readdress/keep", "readdress/ready") }, ""},
		"readdress-taken-back":     {func(p place) { p.readdress("readdress/keep", "readdress/back") }, ""},
		"restore-ended":            {func(p place) { p.restore(time.Now(), "restore/data", "restore/stop", "restore/ready") }, ""},
		"restore-given-up":         {func(p place) { p.restore(time.Now().Add(-25*time.Hour), "restore/data", "restore/stop") }, ""},
		"restore-long-ago-exchanging": {func(p place) {
			p.restore(time.Now().Add(-25*time.Hour), "restore/data", "restore/stop", "restore/exchange")
		}, "sealift restore"},
		"restore-long-ago-started": {func(p place) {
			p.restore(time.Now().Add(-25*time.Hour), "restore/data", "restore/stop", "restore/exchange", "restore/start")
		}, ""},
		"restore-before-other-work": {func(p place) { p.restoreBefore(lifecycle.Upgrading) }, ""}, // the clock was set back since
		"restore-before-renewal":    {func(p place) { p.restoreBefore(lifecycle.Renewing) }, "sealift restore"},
		"data-made-for-an-undo":     {func(p place) { p.restore(time.Now(), "restore/data") }, ""},
		"nothing":                   {func(place) {}, ""},
	}
	lines := strings.Split(strings.TrimSpace(matrix), "\n")
	names := strings.Fields(lines[0])
	if len(lines)-1 != len(records) || len(names) != len(exclusion.Operations()) {
		t.Fatalf("the matrix has %d rows and %d columns, for %d records and %d operations", len(lines)-1, len(names), len(records), len(exclusion.Operations()))
	}
	for _, line := range lines[1:] {
		cells := strings.Fields(line)
		t.Run(cells[0], func(t *testing.T) {
			p := newPlace(t)
			records[cells[0]].write(p)
			for n, name := range names {
				begins, refused := columns[name], cells[n+1] == "x"
				if !slices.Contains(exclusion.Operations(), begins) {
					t.Fatalf("there is no operation %s", name)
				}
				err := p.host.Check(t.Context(), p.client, begins)
				var typed *exclusion.Error
				switch {
				case !refused && err != nil:
					t.Errorf("%s is refused: %v", begins, err)
				case refused && !errors.As(err, &typed):
					t.Errorf("%s is not refused: %v", begins, err)
				case refused && (!strings.Contains(err.Error(), records[cells[0]].next) || typed.Begins != begins):
					t.Errorf("%s: %q lacks %q", begins, err, records[cells[0]].next)
				}
			}
		})
	}
}

func TestDamagedRecordsAreReported(t *testing.T) {
	for name, write := range map[string]func(place){
		"an upgrade":      func(p place) { p.record("sealift-upgrade", "", map[string]string{"state.json": "{"}) },
		"a load balancer": func(p place) { p.record("sealift-load-balancer", "", map[string]string{"change": "{"}) },
	} {
		p := newPlace(t)
		write(p)
		if err := p.host.Check(t.Context(), p.client, exclusion.Upgrade); err == nil || !strings.Contains(err.Error(), "ConfigMap kube-system/") {
			t.Errorf("%s: %v", name, err)
		}
		if err := p.host.Check(t.Context(), p.client, exclusion.Renew); err != nil {
			t.Errorf("%s stops a renewal of certificates: %v", name, err)
		}
	}
}

// TestUnlistedOperationsRunOneAtATime tries each pair with an operation that the table does not have.
func TestUnlistedOperationsRunOneAtATime(t *testing.T) {
	const clock, disks = exclusion.Operation("clock"), exclusion.Operation("disks")
	for _, other := range append(exclusion.Operations(), disks) {
		repairs := slices.Contains([]exclusion.Operation{exclusion.Renew, exclusion.Restore, exclusion.FollowAddress}, other)
		if got := exclusion.Excludes(clock, other); got == repairs {
			t.Errorf("%s begins while clock is half done: refused %v", other, got)
		}
		leavesNothing := slices.Contains([]exclusion.Operation{exclusion.Renew, exclusion.FollowAddress, exclusion.JoinControlPlane, exclusion.Images}, other)
		if got := exclusion.Excludes(other, clock); got == leavesNothing {
			t.Errorf("clock begins while %s is half done: refused %v", other, got)
		}
		if exclusion.Excludes(other, other) {
			t.Errorf("%s excludes the command that resumes it", other)
		}
	}
}
