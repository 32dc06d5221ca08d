package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/installer/operation/record"
)

// model is a cluster whose nodes take a second for each part of an upgrade.
type model struct {
	t      *testing.T
	client kubernetes.Interface
	own    string
	began  time.Time
	fails  string // name of the node that fails; "" for none
	mu     sync.Mutex
	parts  []string // what began, with the second
	*run
}

var errBroken = errors.New("its disk is full")

// newModel makes a cluster of three control planes and three workers, and plans its upgrade.
func newModel(t *testing.T, client kubernetes.Interface, own string, maxUnavailable int) *model {
	t.Helper()
	m := &model{t: t, client: client, own: own, began: time.Now()}
	c := &Cluster{own: own}
	for _, name := range []string{"a", "b", "c", "w1", "w2", "w3"} {
		n := cluster.Node{Name: name, Ready: true}
		if !strings.HasPrefix(name, "w") {
			n.Roles = []string{"control-plane"}
		}
		c.nodes = append(c.nodes, n)
	}
	m.run = &run{Cluster: c, Options: Options{MaxUnavailable: maxUnavailable, Say: m.say}, Nodes: listed{c.nodes}, work: m}
	m.plan(operation.RecordsOf(func() (kubernetes.Interface, error) { return client, nil }), State{Upgrade: "u", Whole: "whole", From: "1.35.4", To: "1.36.3"})
	m.led.Refuse = func(all record.All) error { return exclusion.Refuse(exclusion.Upgrade, exclusion.UnderWay(all)) }
	return m
}

type listed struct{ nodes []cluster.Node }

func (l listed) List(context.Context) ([]cluster.Node, error) { return l.nodes, nil }

func (l listed) Apply(context.Context, string, operation.Request) error {
	panic("the run asks nodes by its work")
}

func (m *model) say(line string) { m.does(line, 0) }

// does notes what begins, and takes a time.
func (m *model) does(what string, takes time.Duration) {
	m.mu.Lock()
	m.parts = append(m.parts, fmt.Sprintf("%d:%s", int(time.Since(m.began).Seconds()), what))
	m.mu.Unlock()
	time.Sleep(takes)
}

func (m *model) prepareOwn(context.Context) error {
	m.does("prepare-own", time.Second)
	return nil
}

func (m *model) prepareNode(_ context.Context, name string) error {
	m.does("prepare-"+name, time.Second)
	return nil
}

func (m *model) upgradeNode(ctx context.Context, name string) error {
	takes := time.Second
	if name == m.fails { // before others end
		takes /= 2
	}
	m.does(name, takes)
	if err := m.advance(ctx, name, Upgraded); err != nil || name == m.fails {
		return errors.Join(err, errBroken)
	}
	return m.change(ctx, func(s *State) { *s.Nodes[name] = Node{Stage: Done, Took: 1} })
}

func (m *model) saveEtcd(context.Context) (string, error) {
	m.does("etcd", time.Second)
	return "/etcd", nil
}

func (m *model) addOns(context.Context) error {
	m.does("add-ons", time.Second)
	return nil
}

func (m *model) leads(ctx context.Context) error {
	return m.led.Lead(ctx, Kind.Journal, nil, func(lifecycle.Event) {})
}

// story returns what began: by the seconds, and by names within a second.
func (m *model) story() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.Sort(m.parts)
	var out []string
	last := ""
	for _, part := range m.parts {
		at, what, _ := strings.Cut(part, ":")
		if at != last && last != "" {
			out = append(out, "|")
		}
		last, out = at, append(out, what)
	}
	return strings.Join(out, " ")
}

func (m *model) has() State {
	m.t.Helper()
	s, _, err := Read(context.Background(), m.client)
	if err != nil {
		m.t.Fatal(err)
	}
	return s
}

// TestControlPlanesComeFirstOneByOne leads an upgrade: at no time are two control planes down, and no worker begins before they are done.
// When a node fails, no other begins, and the same command goes on from there, on another control plane.
func TestControlPlanesComeFirstOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		if _, _, err := Read(t.Context(), client); !errors.Is(err, ErrNone) {
			t.Errorf("a cluster without an upgrade: %v", err)
		}
		m := newModel(t, client, "b", 2)
		m.fails = "w2"
		err := m.leads(t.Context())
		if got := m.story(); got != "prepare-own | prepare-a prepare-c prepare-w1 prepare-w2 | prepare-w3 | etcd | b | a | c | w1 w2" || !errors.Is(err, errBroken) {
			t.Errorf("%s\n%v", got, err)
		}
		s := m.has()
		if s.Phase != Nodes || s.Leader != "b" || s.Error != errBroken.Error() || s.Nodes["w2"].Error != errBroken.Error() || s.Nodes["w2"].Stage != Upgraded || s.Nodes["w1"].Stage != Done || s.Nodes["w3"].Stage != Prepared || s.SnapshotOn != "b" {
			t.Errorf("%+v", s)
		}
		m = newModel(t, client, "c", 2)
		err = m.leads(t.Context())
		if got := m.story(); got != "prepare-own | w2 w3 | add-ons" || err != nil {
			t.Errorf("resumed: %s\n%v", got, err)
		}
		s = m.has()
		if s.Phase != Finished || s.Leader != "c" || s.Error != "" || s.Nodes["w2"].Error != "" || s.Ended.IsZero() || s.SnapshotOn != "b" || len(s.Nodes) != 6 {
			t.Errorf("%+v", s)
		}
		for name, n := range s.Nodes {
			if n.Stage != Done {
				t.Errorf("%s: %+v", name, n)
			}
		}
	})
}

// TestPausedUpgradeLetsNoNodeBegin pauses while the first node is upgraded. The preparation of nodes does not wait.
func TestPausedUpgradeLetsNoNodeBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		if err := SetPaused(t.Context(), client, true); !errors.Is(err, ErrNone) {
			t.Errorf("an upgrade that is not under way is paused: %v", err)
		}
		m := newModel(t, client, "b", 2)
		ended := make(chan error)
		go func() { ended <- m.leads(t.Context()) }()
		time.Sleep(time.Second / 2)
		if err := SetPaused(t.Context(), client, true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := m.story(); !strings.HasSuffix(got, "| etcd | paused: no further node begins until 'sealift upgrade resume'") {
			t.Errorf("%s", got)
		}
		if _, paused, err := Read(t.Context(), client); err != nil || !paused {
			t.Errorf("paused %v, %v", paused, err)
		}
		if err := SetPaused(t.Context(), client, false); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil || m.has().Phase != Finished || !strings.Contains(m.story(), "resumed") {
			t.Errorf("%v, %s", err, m.story())
		}
		if err := SetPaused(t.Context(), client, true); !errors.Is(err, ErrNone) {
			t.Errorf("a finished upgrade is paused: %v", err)
		}
	})
}

// TestPauseEndsWithItsUpgrade pauses during the add-ons, when no node is left that could wait. Only a later stop of the same upgrade waits.
func TestPauseEndsWithItsUpgrade(t *testing.T) {
	for _, row := range []struct {
		upgrade, whole string
		waits          bool
	}{{"v", "other", false}, {"u", "whole", false}, {"stop-2", "whole", true}} {
		synctest.Test(t, func(t *testing.T) {
			client := fake.NewClientset()
			m := newModel(t, client, "b", 2)
			ended := make(chan error)
			go func() { ended <- m.leads(t.Context()) }()
			for time.Sleep(time.Second / 2); m.has().Phase != AddOns; {
				time.Sleep(time.Second)
			}
			if err := errors.Join(SetPaused(t.Context(), client, true), <-ended); err != nil {
				t.Fatal(err)
			}
			m = newModel(t, client, "b", 2)
			m.plan(m.led.Records, State{Upgrade: row.upgrade, Whole: row.whole, From: "1.36.3", To: "1.37.2"})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if err := m.leads(ctx); (err != nil) != row.waits || strings.Contains(m.story(), "paused") != row.waits {
				t.Errorf("%s of %s: %s\n%v", row.upgrade, row.whole, m.story(), err)
			}
		})
	}
}

// TestKilledUpgradeGoesOn ends the run in each second, and resumes it on another control plane each time. A node that is done is not
// upgraded again.
func TestKilledUpgradeGoesOn(t *testing.T) {
	for second := range 12 {
		synctest.Test(t, func(t *testing.T) {
			client := fake.NewClientset()
			done := map[string]int{}
			for try := 0; ; try++ {
				m := newModel(t, client, []string{"a", "b", "c"}[try%3], 1)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(second)*time.Second+time.Second/2)
				err := m.leads(ctx)
				cancel()
				synctest.Wait()
				for name, n := range m.has().Nodes {
					if n.Stage == Done && done[name] == 0 {
						done[name] = 1 + try
					}
				}
				for _, part := range m.parts {
					if _, name, _ := strings.Cut(part, ":"); done[name] > 0 && done[name] < 1+try {
						t.Errorf("killed after %d s: %s was upgraded again", second, name)
					}
				}
				if err == nil && m.has().Phase == Finished {
					break
				}
				if second++; try == 20 {
					t.Fatalf("it does not end: %v", err)
				}
			}
			if len(done) != 6 {
				t.Errorf("%v", done)
			}
		})
	}
}

// TestUpgradeOfEarlierSealiftResumes has the ConfigMap of the sealift from before upgrades had records, in each phase.
func TestUpgradeOfEarlierSealiftResumes(t *testing.T) {
	nodes := func(stages ...Stage) map[string]*Node {
		all := map[string]*Node{}
		for n, name := range []string{"a", "b", "c", "w1", "w2", "w3"} {
			all[name] = &Node{Stage: stages[n]}
		}
		return all
	}
	prepared := nodes(Prepared, Prepared, Prepared, Prepared, Prepared, Prepared)
	broken := nodes(Done, Done, Done, Done, Upgraded, Prepared)
	broken["w2"].Error = "no"
	for name, row := range map[string]struct {
		state  State
		paused bool
		want   string // what is left to do
		other  bool   // another bundle may take its place
	}{
		"preparing":       {State{Phase: Preparing, Nodes: nodes(Prepared, Prepared, Waiting, Waiting, Prepared, Prepared)}, false, "prepare-own | prepare-c prepare-w1 | etcd | b | a | c | w1 w2 | w3 | add-ons", true},
		"at a later stop": {State{Phase: Preparing, Snapshot: "/old", SnapshotOn: "c", Nodes: prepared}, false, "prepare-own | b | a | c | w1 w2 | w3 | add-ons", false},
		"control planes":  {State{Phase: Nodes, Snapshot: "/old", SnapshotOn: "c", Nodes: nodes(Prepared, Done, Upgraded, Prepared, Prepared, Prepared)}, false, "prepare-own | a | c | w1 w2 | w3 | add-ons", false},
		"a worker failed": {State{Phase: Nodes, Snapshot: "/old", SnapshotOn: "c", Error: "no", Nodes: broken}, false, "prepare-own | w2 w3 | add-ons", false},
		"add-ons":         {State{Phase: AddOns, Snapshot: "/old", SnapshotOn: "c", Nodes: nodes(Done, Done, Done, Done, Done, Done)}, false, "prepare-own | add-ons", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := row.state
				s.Upgrade, s.Whole, s.From, s.To, s.Leader, s.Began = "u", "whole", "1.35.4", "1.36.3", "a", time.Now()
				text, err := json.Marshal(s)
				if err != nil {
					t.Fatal(err)
				}
				client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "sealift-upgrade", Namespace: metav1.NamespaceSystem}, Data: map[string]string{"state.json": string(text)}})
				got, _, err := Read(t.Context(), client)
				if err != nil || got.Phase != s.Phase || got.Leader != "a" || got.Error != s.Error || got.Snapshot != s.Snapshot || !got.Began.Equal(s.Began) || !maps.EqualFunc(got.Nodes, s.Nodes, func(x, y *Node) bool { return *x == *y }) {
					t.Errorf("%+v, %v", got, err)
				}
				excluded := new(exclusion.Error)
				if err := (exclusion.Host{Root: t.TempDir(), Rootfs: t.TempDir()}).Check(t.Context(), client, exclusion.Keys); errors.As(err, &excluded) == row.other {
					t.Errorf("a rotation of keys: %v", err)
				}
				m := newModel(t, client, "b", 2)
				err = m.leads(t.Context())
				if got := m.story(); got != row.want || err != nil {
					t.Errorf("%s\n%v", got, err)
				}
				if got := m.has(); got.Phase != Finished || got.Whole != "whole" || s.SnapshotOn != "" && got.SnapshotOn != "c" {
					t.Errorf("%+v", got)
				}
				if _, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), "sealift-upgrade", metav1.GetOptions{}); err == nil {
					t.Error("the earlier ConfigMap is left")
				}
			})
		})
	}
}

// TestUnfinishedUpgradeExcludesOtherOperations asks for a rotation of keys in each second of an upgrade.
func TestUnfinishedUpgradeExcludesOtherOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, client := exclusion.Host{Root: t.TempDir(), Rootfs: t.TempDir()}, fake.NewClientset()
		m := newModel(t, client, "b", 3)
		ended := make(chan error)
		go func() { ended <- m.leads(t.Context()) }()
		time.Sleep(time.Second / 2)
		for {
			s := m.has()
			err := host.Check(t.Context(), client, exclusion.Keys)
			var refused *exclusion.Error
			if want := s.Phase == Nodes || s.Phase == AddOns; errors.As(err, &refused) != want || !want && err != nil {
				t.Errorf("%s: %v, want a refusal: %t", s.Phase, err, want)
			}
			if s.Phase == Finished {
				break
			}
			time.Sleep(time.Second)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
