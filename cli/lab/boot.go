package lab

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/testgrid/lab/host"
)

func (a commands) labBootCommand() *cobra.Command {
	s := host.Spec{Keep: true}
	var m machineFlags
	cmd := &cobra.Command{
		Use:   "boot NAME",
		Short: "Boot a host without a route out",
		Long: `Boot a host: a systemd-nspawn container with systemd as its first process, on a network that reaches other hosts of the
lab and nothing else. The host stays until it is removed. Each folder given with --usb is there read-only, the first at
/media/usb, the second at /media/usb2, and so on.

With --exit the host has a default route. What takes it is dropped outside of the host, and 'lab egress' lists it.

With --cpus and --memory a container uses no more than that of this machine. Its processes still see all of it.

With --machine the host is a virtual machine: it has a kernel, control groups of version 2, a disk and a clock of its own. Where
KVM does not work, QEMU emulates it: the boot takes minutes, and everything in it about ten times as long. Folders of --usb are
copied to disks of their own.`,
		Example: "  sealift-testgrid lab boot node-1\n  sealift-testgrid lab boot node-1 --os debian-13 --usb ./out --exit\n" +
			"  sealift-testgrid lab boot node-1 --cpus 0.2 --memory 2Gi\n  sealift-testgrid lab boot node-1 --machine --memory 4Gi --usb ./out",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if err = m.describe(cmd, &s); err != nil {
				return err
			}
			rack, err := a.rack(cmd)
			if err != nil {
				return err
			}
			s.Name = args[0]
			h, err := rack.Boot(cmd.Context(), s)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "host %s runs %s at %s; enter it with: sealift-testgrid lab enter %s\n", h.Name(), h.OS(), h.Address(), h.Name())
			return nil
		},
	}
	cmd.Flags().StringVar(&s.OS, "os", host.DefaultOS, "system of the host: "+strings.Join(host.Systems(), " or ")+"; of a virtual machine: "+strings.Join(host.MachineSystems(), " or "))
	cmd.Flags().StringArrayVar(&s.USB, "usb", nil, "folder that the host has read-only at /media/usb; may be repeated")
	cmd.Flags().BoolVar(&s.IPv6, "ipv6", false, "give the host an IPv6 address instead of one of IPv4")
	cmd.Flags().BoolVar(&s.DualStack, "dual-stack", false, "give the host an IPv6 address beside the one of IPv4")
	cmd.MarkFlagsMutuallyExclusive("ipv6", "dual-stack")
	cmd.Flags().BoolVar(&s.Exit, "exit", false, "give the host a default route, and count and drop what takes it")
	m.add(cmd)
	return cmd
}

// machineFlags describe the size of a host, and whether it is a virtual machine.
type machineFlags struct {
	machine       bool
	cpus          float64
	memory, clock string
}

func (m *machineFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&m.machine, "machine", false, "make the host a virtual machine")
	cmd.Flags().Float64Var(&m.cpus, "cpus", 0, "processors that the host may use, such as 0.2; a virtual machine has whole ones (default: all of this machine; for a virtual machine 2)")
	cmd.Flags().StringVar(&m.memory, "memory", "", "memory that the host may use, such as 2Gi (default: all of this machine; for a virtual machine 4Gi)")
	addClockFlag(cmd, &m.clock)
}

func addClockFlag(cmd *cobra.Command, clock *string) {
	cmd.Flags().StringVar(clock, "clock", "", "what the clock of the virtual machine says when it is switched on, such as 2031-01-31T12:00:00Z (default: the time of this machine)")
}

// describe gives the host its size and its kind.
func (m *machineFlags) describe(cmd *cobra.Command, s *host.Spec) error {
	if m.memory != "" {
		memory, err := resource.ParseQuantity(m.memory)
		if err != nil || memory.Value() < 256<<20 {
			return app.UsageError("--memory must be a size of at least 256Mi, not %q", m.memory)
		}
		s.Memory = memory.Value()
	}
	if s.CPUs = m.cpus; cmd.Flags().Changed("cpus") && !(m.cpus >= 0.01 && m.cpus <= 1024) {
		return app.UsageError("--cpus must be a number from 0.01 to 1024")
	}
	clock, err := parseClock(m.clock)
	switch {
	case err != nil:
		return err
	case m.machine && m.cpus != math.Trunc(m.cpus):
		return app.UsageError("a virtual machine has whole processors, not %v; see '%s --help'", m.cpus, cmd.CommandPath())
	case m.machine:
		s.Machine = &host.MachineSpec{Clock: clock}
	case m.clock != "":
		return app.UsageError("--clock is for virtual machines: add --machine; see '%s --help'", cmd.CommandPath())
	}
	return nil
}

// parseClock returns the zero time for "".
func parseClock(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, app.UsageError("--clock must be a time such as 2031-01-31T12:00:00Z, not %q", text)
	}
	return t, nil
}

func (a commands) labRebootCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "reboot NAME",
		Short:   "Reboot a host",
		Long:    "Let the system of a host reboot, and wait until it is up again.",
		Example: "  sealift-testgrid lab reboot node-1",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := a.host(cmd, args[0])
			if err != nil {
				return err
			}
			return h.Reboot(cmd.Context())
		},
	}
}

func (a commands) labPowerCutCommand() *cobra.Command {
	var clock string
	cmd := &cobra.Command{
		Use:   "power-cut NAME",
		Short: "Take the power from a host and give it back",
		Long: `End everything that runs in a host at once, without a word to it, boot it from its disk, and wait until it is up again. A virtual
machine has lost what its programs did not sync to the disk. With --clock it has lost its clock, too, as with a dead battery.`,
		Example: "  sealift-testgrid lab power-cut node-1\n  sealift-testgrid lab power-cut node-1 --clock 1970-01-01T00:00:00Z",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := parseClock(clock)
			if err != nil {
				return err
			}
			h, err := a.host(cmd, args[0])
			if err != nil {
				return err
			}
			return h.PowerCycle(cmd.Context(), func() error {
				if t.IsZero() {
					return nil
				}
				return h.SetClock(t)
			})
		},
	}
	addClockFlag(cmd, &clock)
	return cmd
}

// host finds a host by its name.
func (a commands) host(cmd *cobra.Command, name string) (*host.Host, error) {
	rack, err := a.rack(cmd)
	if err != nil {
		return nil, err
	}
	return rack.Find(name)
}
