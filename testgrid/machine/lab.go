package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// lab boots hosts of the lab.
type lab struct {
	system   string
	machine  bool    // its hosts are virtual machines, not containers
	budget   *budget // of this machine, for all systems
	progress func(string)
}

func (k lab) rack(ctx context.Context) (*host.Rack, error) {
	return host.OpenRack(ctx, host.Options{Progress: k.progress})
}

// Clean has nothing to do but open the rack, which removes the hosts of dead owners.
func (k lab) Clean(ctx context.Context, _ string) error {
	_, err := k.rack(ctx)
	return err
}

func (k lab) Make(ctx context.Context, w Request) ([]Machine, error) {
	rack, err := k.rack(ctx)
	if err != nil {
		return nil, err
	}
	var machines []Machine
	share, err := k.budget.take(ctx, w)
	if err != nil {
		return nil, err
	}
	for range w.Count {
		spec := host.Spec{OS: k.system, Exit: w.Airgap}
		if k.machine {
			spec.Machine, spec.CPUs, spec.Memory = new(host.MachineSpec), float64(w.CPU), w.Memory
		}
		h, err := rack.Boot(ctx, spec)
		if err != nil {
			share.giveBack()
			return nil, errors.Join(err, removeAll(ctx, machines))
		}
		machines = append(machines, newLabMachine(h, rack, share, w))
	}
	return machines, nil
}

func newLabMachine(h *host.Host, rack *host.Rack, share *share, w Request) *labMachine {
	m := &labMachine{Host: h, rack: rack, share: share, senders: map[host.Packets]string{}, watched: w.Airgap}
	m.watch()
	return m
}

// Adopt takes hosts that were kept. They end with this program from here on.
func (k lab) Adopt(ctx context.Context, w Request, kept []Kept) ([]Machine, error) {
	rack, err := k.rack(ctx)
	if err != nil {
		return nil, err
	}
	var hosts []*host.Host
	for _, m := range kept {
		h, err := rack.Find(m.Name)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, h)
	}
	share, err := k.budget.take(ctx, w)
	if err != nil {
		return nil, err
	}
	var machines []Machine
	for _, h := range hosts {
		if err := h.Own(); err != nil {
			share.giveBack()
			return nil, err
		}
		machines = append(machines, newLabMachine(h, rack, share, w))
	}
	return machines, nil
}

// removeAllTime bounds the removal of machines that a test does not get.
const removeAllTime = 20 * time.Minute

// removeAll removes machines even if ctx has ended.
func removeAll(ctx context.Context, machines []Machine) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeAllTime)
	defer cancel()
	var errs []error
	for _, m := range machines {
		errs = append(errs, m.Remove(ctx))
	}
	return errors.Join(errs...)
}

// labMachine is a host of the lab.
type labMachine struct {
	*host.Host
	rack    *host.Rack
	share   *share
	watched bool
	stop    func()

	mu      sync.Mutex
	senders map[host.Packets]string // by destination
}

func (m *labMachine) Address() string { return m.Host.Address().String() }

func (m *labMachine) Run(ctx context.Context, c Command) error {
	err := m.Exec(ctx, host.Command{Args: []string{"bash", "-c", c.Script}, Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr})
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		return &ExitError{Code: exit.ExitCode()}
	}
	return err
}

func (m *labMachine) Remove(ctx context.Context) error {
	m.stop()
	err := m.rack.Remove(ctx, m.Name())
	m.share.giveBack()
	return err
}

// Keep lets the host stay after this program.
func (m *labMachine) Keep(context.Context) error {
	m.stop()
	m.share.keep()
	return m.Host.Keep()
}

func (m *labMachine) Enter() []string {
	program, err := os.Executable()
	if err != nil {
		program = "sealift-testgrid"
	}
	return []string{program, "lab", "enter", m.Name()}
}

// OwnsClock reports whether the host is a virtual machine.
func (m *labMachine) OwnsClock() bool { return m.IsMachine() }

func (m *labMachine) PowerCycle(ctx context.Context) error {
	return m.Host.PowerCycle(ctx, func() error { return nil })
}

// watch looks for the senders of packets that leave the host, while their sockets exist.
func (m *labMachine) watch() {
	if !m.watched {
		m.stop = func() {}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { poll.Repeat(ctx, m.watchOnce) })
	m.stop = func() {
		cancel()
		done.Wait()
	}
}

func (m *labMachine) watchOnce(ctx context.Context) time.Duration {
	_, _ = m.readPackets(ctx)
	return senderInterval
}

// readPackets reads the packets that have left the host, and their senders if not known yet.
func (m *labMachine) readPackets(ctx context.Context) ([]Connection, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return egress(ctx, m.Host, m.senders)
}

// LabEgress returns the packets that have left a host of the lab, with the processes whose sockets still exist.
func LabEgress(ctx context.Context, h *host.Host) ([]Connection, error) {
	return egress(ctx, h, map[host.Packets]string{})
}

// egress returns the packets that have left a host. senders are the processes known so far.
func egress(ctx context.Context, h *host.Host, senders map[host.Packets]string) ([]Connection, error) {
	packets, err := h.Egress(ctx)
	if err != nil {
		return nil, err
	}
	connections := make([]Connection, 0, len(packets))
	for _, p := range packets {
		count := p.Count
		p.Count = 0
		if senders[p] == "" {
			senders[p] = h.Sender(p)
		}
		connections = append(connections, Connection{Address: p.Address.String(), Protocol: p.Protocol, Port: p.Port, Packets: count, Process: senders[p]})
	}
	return connections, nil
}

func (m *labMachine) Egress(ctx context.Context) ([]Connection, error) {
	if !m.watched {
		return nil, fmt.Errorf("the traffic of %s is not counted", m.Name())
	}
	return m.readPackets(ctx)
}

// senderInterval is the time between two checks for senders. An unanswered connection is tried for a second at least, since
// that is when the kernel repeats its first packet.
const senderInterval = 500 * time.Millisecond
