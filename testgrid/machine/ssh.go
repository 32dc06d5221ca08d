package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/shellword"
)

// The times that connections by SSH may take.
const (
	dialTimeout = 30 * time.Second
	bootTimeout = 10 * time.Minute // until a machine that was made bare, or lost its power, answers
	bootPoll    = time.Second
)

// sshHost is the address and login of one machine.
type sshHost struct {
	Name    string
	Address string
	Port    int
	User    string
	Key     string // file with the private key
	HostKey string // public key of the machine, as a line of authorized_keys
}

// config checks the files and keys that a connection needs.
func (h sshHost) config() (*ssh.ClientConfig, error) {
	text, err := readKey(h.Key)
	if err != nil {
		return nil, fmt.Errorf("read the key for %s: %w", h.Name, err)
	}
	signer, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return nil, fmt.Errorf("read the key for %s in %s: %w; use a key without a passphrase", h.Name, h.Key, err)
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(h.HostKey))
	if err != nil {
		return nil, fmt.Errorf("read the host key of %s: %w; 'ssh-keyscan %s' prints it", h.Name, err, h.Address)
	}
	return &ssh.ClientConfig{
		User: h.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, Timeout: dialTimeout,
		HostKeyCallback: ssh.FixedHostKey(public), HostKeyAlgorithms: algorithms(public),
	}, nil
}

// maxKey is more than any private key has, in bytes.
const maxKey = 1 << 20

func readKey(path string) ([]byte, error) {
	f, err := regularfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxKey))
}

// algorithms returns those with which a key can sign: a server has keys of several types and would offer another.
func algorithms(key ssh.PublicKey) []string {
	if key.Type() == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{key.Type()}
}

func (h sshHost) dial(ctx context.Context) (*ssh.Client, error) {
	config, err := h.config()
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort(h.Address, strconv.Itoa(h.Port))
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("reach %s: %w", h.Name, err)
	}
	_ = conn.SetDeadline(time.Now().Add(dialTimeout))
	transport, channels, requests, err := ssh.NewClientConn(conn, address, config)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("log in to %s: %w; check user, key and hostKey in HOSTS.yaml", h.Name, err), conn.Close())
	}
	_ = conn.SetDeadline(time.Time{})
	return ssh.NewClient(transport, channels, requests), nil
}

// run runs a script as root and waits for it.
func (h sshHost) run(ctx context.Context, c Command) error {
	client, err := h.dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	// Closing the connection ends every wait for an answer, and makes the server hang up on the script.
	stop := context.AfterFunc(ctx, func() { _ = client.Close() })
	defer stop()
	session, err := client.NewSession()
	if err != nil {
		return fmt.Errorf("open a session on %s: %w", h.Name, cmp.Or(ctx.Err(), err))
	}
	session.Stdout, session.Stderr = c.Stdout, c.Stderr
	line := "bash -c " + shellword.Quote(c.Script)
	if h.User != "root" {
		line = "sudo -n " + line
	}
	stdin, err := session.StdinPipe()
	if err != nil {
		return fmt.Errorf("run a script on %s: %w", h.Name, err)
	}
	if err := session.Start(line); err != nil {
		return fmt.Errorf("run a script on %s: %w", h.Name, err)
	}
	go func() {
		if c.Stdin != nil {
			_, _ = io.Copy(stdin, c.Stdin) // a script need not read all of it
		}
		_ = stdin.Close()
	}()
	err = session.Wait()
	var exit *ssh.ExitError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("run a script on %s: %w", h.Name, ctx.Err())
	case errors.As(err, &exit):
		return &ExitError{Code: exit.ExitStatus()}
	case err != nil:
		return fmt.Errorf("run a script on %s: the connection broke: %w", h.Name, err)
	}
	return nil
}

// wait returns when the machine runs a script again.
func (h sshHost) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	err := poll.Until(ctx, bootPoll, nil, poll.Success(func(ctx context.Context) error { return h.run(ctx, Command{Script: "true"}) }))
	if err != nil {
		return fmt.Errorf("wait for %s to come up: %w", h.Name, err)
	}
	return nil
}

// sshPool lends the machines that a user has. A test waits until enough of them are free.
type sshPool struct {
	hosts []sshHost
	// How a machine becomes bare: a script that runs on it, or a program that runs here, such as one that restores a snapshot.
	bareScript  string
	bareProgram program
	powerCycle  program
	egress      program
	ownsClock   bool

	mu   sync.Mutex
	free []sshHost
	// changed is closed and replaced when a machine is returned.
	changed chan struct{}
	kept    int // machines that no test gets any longer
}

func newSSHPool(hosts []sshHost) *sshPool {
	return &sshPool{hosts: hosts, free: append([]sshHost(nil), hosts...), changed: make(chan struct{})}
}

// Clean does nothing: a machine is reset before each test, whatever happened to it.
func (p *sshPool) Clean(context.Context, string) error { return nil }

// take waits for n machines and acquires all of them at once, so that two tests cannot wait for each other.
func (p *sshPool) take(ctx context.Context, n int) ([]sshHost, error) {
	for {
		p.mu.Lock()
		if usable := len(p.hosts) - p.kept; n > usable {
			p.mu.Unlock()
			return nil, fmt.Errorf("the test needs %d machines, but only %d in HOSTS.yaml can be used", n, usable)
		}
		if n <= len(p.free) {
			taken := p.free[:n:n]
			p.free = p.free[n:]
			p.mu.Unlock()
			return taken, nil
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for free machines: %w", ctx.Err())
		case <-changed:
		}
	}
}

// release returns machines to the pool. Those that are kept are not lent again.
func (p *sshPool) release(h sshHost, keep bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if keep {
		p.kept++
	} else {
		p.free = append(p.free, h)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *sshPool) Make(ctx context.Context, w Request) ([]Machine, error) {
	if w.Airgap && len(p.egress) == 0 {
		return nil, fmt.Errorf("%w: the traffic of these machines is not counted; set egress in HOSTS.yaml", ErrUnable)
	}
	hosts, err := p.take(ctx, w.Count)
	if err != nil {
		return nil, err
	}
	var machines []Machine
	for _, h := range hosts {
		machines = append(machines, &sshMachine{sshHost: h, pool: p})
	}
	for _, h := range hosts {
		if err := p.makeBare(ctx, h); err != nil {
			return nil, errors.Join(fmt.Errorf("reset %s: %w", h.Name, err), removeAll(ctx, machines))
		}
	}
	return machines, nil
}

// Adopt returns machines of the pool unchanged.
func (p *sshPool) Adopt(_ context.Context, _ Request, kept []Kept) (machines []Machine, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	free := slices.Clone(p.free)
	for _, m := range kept {
		at := slices.IndexFunc(free, func(h sshHost) bool { return h.Name == m.Name })
		if at < 0 {
			return nil, fmt.Errorf("machine %s is not in HOSTS.yaml, or another test uses it", m.Name)
		}
		machines = append(machines, &sshMachine{sshHost: free[at], pool: p})
		free = slices.Delete(free, at, at+1)
	}
	p.free = free
	return machines, nil
}

// bareTime bounds how long a machine may take to become bare, with the install of its system.
const bareTime = time.Hour

func (p *sshPool) makeBare(ctx context.Context, h sshHost) error {
	ctx, cancel := context.WithTimeout(ctx, bareTime)
	defer cancel()
	if len(p.bareProgram) > 0 {
		if err := p.bareProgram.run(ctx, nil, nil, h.environment()); err != nil {
			return err
		}
		return h.wait(ctx)
	}
	_, err := Output(ctx, &sshMachine{sshHost: h, pool: p}, p.bareScript)
	return err
}

// environment has the selected machine for the user's programs.
func (h sshHost) environment() []string {
	return []string{"SEALIFT_MACHINE=" + h.Name, "SEALIFT_ADDRESS=" + h.Address, "SEALIFT_PORT=" + strconv.Itoa(h.Port)}
}

// sshMachine is a machine of the pool while a test has it.
type sshMachine struct {
	sshHost
	pool *sshPool
}

func (m *sshMachine) Name() string                             { return m.sshHost.Name }
func (m *sshMachine) Address() string                          { return m.sshHost.Address }
func (m *sshMachine) Run(ctx context.Context, c Command) error { return m.run(ctx, c) }
func (m *sshMachine) OwnsClock() bool                          { return m.pool.ownsClock }

func (m *sshMachine) Remove(context.Context) error {
	m.pool.release(m.sshHost, false)
	return nil
}

// Keep removes the machine from the pool.
func (m *sshMachine) Keep(context.Context) error {
	m.pool.release(m.sshHost, true)
	return nil
}

func (m *sshMachine) Enter() []string {
	line := []string{"ssh", "-i", m.Key, "-p", strconv.Itoa(m.Port), m.User + "@" + m.sshHost.Address}
	if m.User != "root" {
		line = append(line, "-t", "sudo", "-n", "-i")
	}
	return line
}

func (m *sshMachine) PowerCycle(ctx context.Context) error {
	if len(m.pool.powerCycle) == 0 {
		return fmt.Errorf("%w: HOSTS.yaml has no powerCycle for %s", ErrUnable, m.Name())
	}
	if err := m.pool.powerCycle.run(ctx, nil, nil, m.environment()); err != nil {
		return err
	}
	return m.wait(ctx)
}

func (m *sshMachine) Egress(ctx context.Context) ([]Connection, error) {
	return m.pool.egress.connections(ctx, m.environment())
}
