package keys

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/encryption"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/installer/operation/record"
	"github.com/sealift/sealift/internal/fips"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// made makes the keys of a host, unless it has some.
func made(t *testing.T, h encryption.Host) encryption.Config {
	t.Helper()
	if err := h.Make(); err != nil {
		t.Fatal(err)
	}
	c, ok, err := h.Read()
	if err != nil || !ok {
		t.Fatalf("the file was not made: %v", err)
	}
	return c
}

// errKilled is what ends a run as a loss of power does.
var errKilled = errors.New("killed")

// moments counts what a run does, and kills it at one of these moments: nothing that it does after that has an effect.
type moments struct {
	mu            sync.Mutex
	count, killAt int
	check         func()
	dead          bool
	kill          context.CancelFunc
	all           record.All
}

func (m *moments) pass() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.passLocked()
}

func (m *moments) passLocked() error {
	if m.dead {
		return errKilled
	}
	m.check()
	if m.count++; m.count == m.killAt {
		m.dead = true
		m.kill()
		return errKilled
	}
	return nil
}

// Change implements operation.Records.
func (m *moments) Change(_ context.Context, change func(record.All) error) error {
	if err := m.pass(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := maps.Clone(m.all)
	if all == nil {
		all = record.All{}
	}
	if err := change(all); err != nil {
		return err
	}
	m.all = all
	return m.passLocked()
}

// Read implements operation.Records.
func (m *moments) Read(context.Context) (record.All, error) {
	err := m.pass()
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.all), err
}

// testCluster is the cluster of a rotation.
type testCluster interface {
	Servers
	operation.Nodes
	operation.Records
}

// lead runs a rotation on a host to its end, or until it is killed.
func lead(t *testing.T, m *moments, own string, h encryption.Host, state string, c testCluster, pause time.Duration) (dead bool, err error) {
	t.Helper()
	journal, err := lifecycle.OpenJournal(state)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	m.dead, m.kill = false, cancel
	defer func() {
		cancel()
		if err := journal.Close(); err != nil {
			t.Error(err)
		}
		if m.dead {
			dead, err = true, nil
		}
	}()
	r := &Rotation{host: h, servers: c, nodes: c, Session: &node.Session{Journal: journal}, pause: pause}
	if err := r.begin(ctx, c, own, time.Now()); err != nil {
		return false, err
	}
	return false, r.run.Lead(ctx, lifecycle.Rotating, journal, func(lifecycle.Event) {})
}

// model is a cluster of API servers that apply a file some time after they got it, and of Secrets by the key that encrypts each;
// "" is none.
type model struct {
	*moments
	t       *testing.T
	hosts   map[string]encryption.Host
	uses    map[string]encryption.Config // by the servers that run with a file
	digests map[string]string
	secrets map[string]string
	names   []string
	joining string // joins at the first look after half of the moments
}

func (m *model) writes(name string) string {
	c, encrypts := m.uses[name]
	if !encrypts || c.PlainFirst {
		return ""
	}
	return c.Keys[0].Name
}

// readable is the invariant: each server reads each Secret, and whatever any server may write.
func (m *model) readable() {
	for _, reader := range m.names {
		can := map[string]bool{"": true}
		for _, k := range m.uses[reader].Keys {
			can[k.Name] = true
		}
		for name, key := range m.secrets {
			if !can[key] {
				m.t.Errorf("moment %d: %s cannot read %s, which is encrypted with %s", m.count, reader, name, key)
			}
		}
		for _, writer := range m.names {
			if !can[m.writes(writer)] {
				m.t.Errorf("moment %d: %s cannot read what %s writes with %s", m.count, reader, writer, m.writes(writer))
			}
		}
	}
}

func (m *model) List(context.Context) (nodes []cluster.Node, err error) {
	if err := m.pass(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.joining != "" && m.count > 12 {
		// it has the file of the control plane that it joined, in its old or current form
		m.hosts[m.joining] = encryption.Host{Host: files.Host{Rootfs: m.t.TempDir()}}
		if text, err := os.ReadFile(m.hosts[m.names[1]].Path(cluster.EncryptionFile)); err == nil {
			if err := m.hosts[m.joining].Import(text); err != nil {
				m.t.Fatal(err)
			}
			m.load(m.joining)
		}
		m.names, m.joining = append(m.names, m.joining), ""
	}
	for _, name := range m.names {
		nodes = append(nodes, cluster.Node{Name: name, Ready: true, Roles: []string{"control-plane"}})
	}
	return nodes, nil
}

// Apply implements operation.Nodes: a control plane takes the file of the first one.
func (m *model) Apply(_ context.Context, name string, _ operation.Request) error {
	if err := m.pass(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, noted := m.all[Kind.Name]; !noted {
		m.t.Errorf("moment %d: %s gets keys, and nothing tells other operations of that", m.count, name)
	}
	text, err := os.ReadFile(m.hosts[m.names[0]].Path(cluster.EncryptionFile))
	if err == nil && name != m.names[0] {
		err = m.hosts[name].Import(text)
	}
	return errors.Join(err, m.passLocked())
}

// Uses shows the file that the server used until now, and lets it read its file again.
func (m *model) Uses(_ context.Context, name string) (string, error) {
	if err := m.pass(); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	digest := m.digests[name]
	if _, err := os.Stat(m.hosts[name].Path(cluster.EncryptionFile)); err == nil {
		m.load(name)
	}
	return digest, m.passLocked()
}

func (m *model) load(name string) {
	text, err := os.ReadFile(m.hosts[name].Path(cluster.EncryptionFile))
	if err == nil {
		m.uses[name], err = encryption.Parse(text)
	}
	if err != nil {
		m.t.Error(err)
	}
	m.digests[name] = fmt.Sprintf("%x", sha256.Sum256(text))
}

func (m *model) Rewrite(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, name := range []string{"a", "b", "c"} {
		m.secrets[name] = m.writes(m.names[n%len(m.names)])
		if err := m.passLocked(); err != nil {
			return err
		}
	}
	return nil
}

func (m *model) Values(_ context.Context, see func(key, value []byte) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, key := range m.secrets {
		if err := see([]byte(secretsPrefix+name), []byte("k8s:enc:secretbox:v1:"+key+":")); err != nil {
			return err
		}
	}
	return nil
}

func (m *model) Remember(context.Context) error { return m.pass() }

func newModel(t *testing.T, encrypts, joins bool) *model {
	t.Helper()
	m := &model{t: t, hosts: map[string]encryption.Host{}, uses: map[string]encryption.Config{}, digests: map[string]string{}, names: []string{"one", "two", "three"},
		secrets: map[string]string{"a": "", "b": "", "c": ""}}
	m.moments = &moments{check: m.readable}
	if joins {
		m.joining = "four"
	}
	var first encryption.Config
	for n, name := range m.names {
		m.hosts[name] = encryption.Host{Host: files.Host{Rootfs: t.TempDir()}}
		if !encrypts {
			continue
		}
		if n == 0 {
			first = made(t, m.hosts[name])
		} else if err := m.hosts[name].Write(first); err != nil {
			t.Fatal(err)
		}
		m.load(name)
	}
	if encrypts {
		for name := range m.secrets {
			m.secrets[name] = first.Keys[0].Name
		}
	}
	return m
}

// ended checks that all servers and all Secrets have one key.
func (m *model) ended(t *testing.T, number int) {
	t.Helper()
	key := m.writes(m.names[0])
	if !strings.HasPrefix(key, fmt.Sprintf("key-%d-", number)) {
		t.Errorf("it ends with key %s", key)
	}
	for _, name := range m.names {
		if c := m.uses[name]; len(c.Keys) != 1 || m.writes(name) != key {
			t.Errorf("%s uses %v", name, c)
		}
	}
	for name, with := range m.secrets {
		if with != key {
			t.Errorf("Secret %s is encrypted with %q", name, with)
		}
	}
	if len(m.all) > 0 {
		t.Errorf("the cluster still waits for %v", m.all)
	}
}

// TestSecretsAreReadableWheneverRotationIsKilled kills it at every seventh moment: the same command goes on, on this control plane or
// on another. In half of the runs a fourth control plane joins in the middle.
func TestSecretsAreReadableWheneverRotationIsKilled(t *testing.T) {
	t.Parallel()
	fixture.Unapproved(t, fips.Secrets)
	for _, encrypts := range []bool{false, true} {
		kills := 0
		for at := 1; ; at += 7 {
			m := newModel(t, encrypts, at%2 == 0)
			m.killAt = at
			state := map[string]string{"one": t.TempDir(), "two": t.TempDir()}
			dead, err := lead(t, m.moments, "one", m.hosts["one"], state["one"], m, time.Millisecond)
			if dead && at%3 == 0 { // another control plane leads
				m.names[0], m.names[1] = m.names[1], m.names[0]
			}
			if dead {
				kills++
				_, err = lead(t, m.moments, m.names[0], m.hosts[m.names[0]], state[m.names[0]], m, time.Millisecond)
			}
			if err != nil {
				t.Fatalf("killed at moment %d: %v", at, err)
			}
			number := 1
			if encrypts {
				number = 2
			}
			// near the end nothing distinguishes a killed rotation from a finished one, and the next run makes one key more
			if key := m.writes(m.names[0]); strings.HasPrefix(key, fmt.Sprintf("key-%d-", number+1)) {
				number++
			}
			m.ended(t, number)
			if !dead {
				break
			}
		}
		if kills < 10 {
			t.Errorf("it was killed at %d moments only", kills)
		}
		t.Logf("encrypted before: %v; killed at %d moments", encrypts, kills)
	}
}

// TestMergedKeysAreRotatedAway: the journal has an earlier rotation to the same key.
func TestMergedKeysAreRotatedAway(t *testing.T) {
	t.Parallel()
	fixture.Unapproved(t, fips.Secrets)
	m := newModel(t, true, false)
	state := t.TempDir()
	old := m.uses["one"].Keys[0]
	if _, err := lead(t, m.moments, "one", m.hosts["one"], state, m, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	m.ended(t, 2)
	m.secrets["a"] = old.Name
	for _, name := range m.names {
		c := m.uses[name]
		if err := m.hosts[name].Write(encryption.Config{Keys: append(c.Keys, old)}); err != nil {
			t.Fatal(err)
		}
		m.load(name)
	}
	if _, err := lead(t, m.moments, "one", m.hosts["one"], state, m, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	m.ended(t, 2)
}

// TestRotationFinishedElsewhereIsNotResumed: the journal of the first one has its beginning alone.
func TestRotationFinishedElsewhereIsNotResumed(t *testing.T) {
	t.Parallel()
	fixture.Unapproved(t, fips.Secrets)
	m := newModel(t, true, false)
	first, second := t.TempDir(), t.TempDir()
	m.check = func() {
		m.readable()
		if m.killAt == 0 && len(m.uses["two"].Keys) == 2 {
			m.killAt = m.count + 1
		}
	}
	if dead, err := lead(t, m.moments, "one", m.hosts["one"], first, m, time.Millisecond); err != nil || !dead || len(m.uses["two"].Keys) != 2 {
		t.Fatalf("killed %v with %v, %v", dead, m.uses["two"], err)
	}
	m.names[0], m.names[1] = m.names[1], m.names[0]
	if _, err := lead(t, m.moments, "two", m.hosts["two"], second, m, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	m.ended(t, 2)
	m.names[0], m.names[1] = m.names[1], m.names[0]
	if _, err := lead(t, m.moments, "one", m.hosts["one"], first, m, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	m.ended(t, 3)
}
