package preflight

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/internal/diskspace"
	"github.com/sealift/sealift/internal/fips"
)

// Host gives the checks access to a machine. Tests fake it.
type Host struct {
	Root     fs.FS // the root of the file system, with /proc and /sys
	UID      int   // effective user of this process
	Platform string
	Target   string // the operating system's name in packages: debian-12
	Hostname string
	CPUs     int
	Now      func() time.Time
	// Disk returns the file system of path, or of the directory in which path would be created.
	Disk func(path string) (diskspace.Space, error)
	// PortError returns why this process cannot listen on a TCP port, or nil if the port is free.
	PortError func(ctx context.Context, port int) error
	// Dial connects to a host:port address and closes the connection.
	Dial func(ctx context.Context, address string) error
	// Chains lists the chains of iptables that programs have made. Nil lists none.
	Chains func(ctx context.Context) []string
	// FIPS reports whether this program runs in FIPS mode. The kernel should do so, too.
	FIPS bool
	// ClockSynced reports whether the kernel's clock is synchronised.
	ClockSynced func() (bool, error)
}

// ThisHost returns the machine that this process runs on. The caller provides target.
func ThisHost(target string) (Host, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return Host{}, fmt.Errorf("read the host name: %w", err)
	}
	return Host{
		Root:      os.DirFS("/"),
		FIPS:      fips.Enforced(),
		UID:       os.Geteuid(),
		Platform:  runtime.GOOS + "/" + runtime.GOARCH,
		Target:    target,
		Hostname:  hostname,
		CPUs:      runtime.NumCPU(),
		Now:       time.Now,
		Disk:      diskspace.Of,
		PortError: portError,
		Dial:      dial, ClockSynced: clockSynced,
	}, nil
}

// portError listens on all addresses for a moment. That fails if another process listens on any of them.
func portError(ctx context.Context, port int) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return listener.Close()
}

// dialTime is the timeout for a connection to another node in a slow network.
const dialTime = 10 * time.Second

func dial(ctx context.Context, address string) error {
	dialer := net.Dialer{Timeout: dialTime}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return connection.Close()
}

// clockSynced asks the kernel with adjtimex(2). The time service reports its state there.
func clockSynced() (bool, error) {
	var asked unix.Timex
	state, err := unix.Adjtimex(&asked)
	if err != nil {
		return false, fmt.Errorf("read the kernel's clock state: %w", err)
	}
	const unsynchronised = 5 // TIME_ERROR
	return state != unsynchronised, nil
}
