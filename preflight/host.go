package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Host is what the checks look at.
type Host struct {
	Root     fs.FS // the root of the file system, with /proc and /sys
	UID      int   // effective user of this process
	Platform string
	Target   string // the name that packages for this operating system have: debian-12
	Hostname string
	CPUs     int
	Now      func() time.Time
	// Disk tells which file system path is on, or will be on when it is made.
	Disk func(path string) (Filesystem, error)
	// PortError says why a TCP port cannot be listened on; nil when it is free.
	PortError func(ctx context.Context, port int) error
	// Dial connects to an address host:port and hangs up.
	Dial func(ctx context.Context, address string) error
	// ClockSynced tells whether anything keeps the clock.
	ClockSynced func() (bool, error)
}

// Filesystem is one mounted file system.
type Filesystem struct {
	ID   uint64 // equal for paths that share the space
	Free uint64 // bytes that anyone may still write, which is what the kubelet goes by
	// ReadOnly says that nothing can be written at all.
	ReadOnly bool
}

// ThisHost is the machine that this process runs on. Target is for the caller to say.
func ThisHost(target string) (Host, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return Host{}, fmt.Errorf("ask for the host's name: %w", err)
	}
	return Host{
		Root:      os.DirFS("/"),
		UID:       os.Geteuid(),
		Platform:  runtime.GOOS + "/" + runtime.GOARCH,
		Target:    target,
		Hostname:  hostname,
		CPUs:      runtime.NumCPU(),
		Now:       time.Now,
		Disk:      disk,
		PortError: portError,
		Dial:      dial, ClockSynced: clockSynced,
	}, nil
}

// disk asks about the nearest directory above path that exists.
func disk(path string) (Filesystem, error) {
	for {
		info, err := os.Stat(path)
		if parent := filepath.Dir(path); errors.Is(err, fs.ErrNotExist) && parent != path {
			path = parent
			continue
		}
		if err != nil {
			return Filesystem{}, err
		}
		var space unix.Statfs_t
		if err := unix.Statfs(path, &space); err != nil {
			return Filesystem{}, fmt.Errorf("ask for the space of %s: %w", path, err)
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return Filesystem{}, fmt.Errorf("ask for the device of %s: not told by this system", path)
		}
		return Filesystem{ID: stat.Dev, Free: space.Bavail * uint64(space.Bsize), ReadOnly: space.Flags&unix.ST_RDONLY != 0}, nil
	}
}

// portError listens on every address for a moment, which fails when anyone listens on any of them.
func portError(ctx context.Context, port int) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return listener.Close()
}

// dialTime is how long another node may take to answer, in a network that is slow.
const dialTime = 10 * time.Second

func dial(ctx context.Context, address string) error {
	dialer := net.Dialer{Timeout: dialTime}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return connection.Close()
}

// clockSynced asks the kernel, adjtimex(2), which whoever keeps the clock tells.
func clockSynced() (bool, error) {
	var asked unix.Timex
	state, err := unix.Adjtimex(&asked)
	if err != nil {
		return false, fmt.Errorf("ask the kernel about its clock: %w", err)
	}
	const unsynchronised = 5 // TIME_ERROR
	return state != unsynchronised, nil
}
