package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// bootTimeout is the timeout for the boot of a host, which takes a few seconds.
const bootTimeout = 2 * time.Minute

// DefaultOS is the default operating system of a host.
const DefaultOS = "debian-12"

// Spec describes a host to boot.
type Spec struct {
	Name string   // a DNS label; default the first of host-1, host-2, … that is free
	OS   string   // one of Systems(); default DefaultOS
	USB  []string // folders of this machine that the host has read-only at /media/usb, /media/usb2, …
	// Disk is the folder for everything that the host writes. It outlives the host. By default, it is removed with the
	// host.
	Disk string
	// Exit gives the host a route to all other networks. What the host sends there leaves it, is counted, and is dropped
	// outside of the host; see Host.Egress.
	Exit bool
	// IPv6 gives the host an IPv6 address instead of one of IPv4.
	IPv6 bool
	// DualStack gives the host an IPv6 address in addition to the IPv4 one.
	DualStack bool
	// Keep lets the host outlive the process that boots it, until it is removed by name.
	Keep bool
}

// Boot boots a host and returns when its systemd reports that it is up. It first makes the host's tree if the cache lacks
// it. If it fails or ctx ends, it leaves nothing behind.
func (r *Rack) Boot(ctx context.Context, s Spec) (*Host, error) {
	if err := checkName(s.Name); s.Name != "" && err != nil {
		return nil, err
	}
	if s.OS == "" {
		s.OS = DefaultOS
	}
	usb, err := checkUSB(s.USB)
	if err != nil {
		return nil, err
	}
	tree, err := r.tree(ctx, s.OS)
	if err != nil {
		return nil, err
	}
	if err := raiseLimits(); err != nil {
		return nil, err
	}
	h, err := r.reserve(ctx, s, usb)
	if err != nil {
		return nil, err
	}
	if err := h.boot(ctx, tree, s.Keep); err != nil {
		return nil, errors.Join(fmt.Errorf("boot host %s: %w", h.Name(), err), r.Remove(context.WithoutCancel(ctx), h.Name()))
	}
	return h, nil
}

// tree builds the tree of an operating system, unless it is cached.
func (r *Rack) tree(ctx context.Context, system string) (string, error) {
	component, ok := systems()[system]
	if !ok {
		return "", fmt.Errorf("the lab has no system %q for hosts: use %s", system, strings.Join(Systems(), " or "))
	}
	workshop, err := upstream.NewWorkshop(upstream.Options{CacheDir: r.cacheDir, Progress: r.progress})
	if err != nil {
		return "", err
	}
	return workshop.File(ctx, upstream.FileOf{Component: component, Name: upstream.TreeName})
}

func checkUSB(folders []string) ([]string, error) {
	var list []string
	for _, folder := range folders {
		path, err := filepath.Abs(folder)
		if err != nil {
			return nil, err
		}
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("%s cannot be plugged into a host: it is not a folder", folder)
		}
		list = append(list, path)
	}
	return list, nil
}

// reserve makes the host's folder with an unused name and address.
func (r *Rack) reserve(ctx context.Context, s Spec, usb []string) (*Host, error) {
	unlock, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	owner, err := describeProcess(os.Getpid())
	if err != nil {
		return nil, err
	}
	if s.Name == "" {
		s.Name = r.freeName()
	}
	address, err := r.freeAddress(networkOf(s.IPv6))
	if err != nil {
		return nil, err
	}
	var address6 netip.Addr
	if s.DualStack {
		if address6, err = r.freeAddress(network6); err != nil {
			return nil, err
		}
	}
	h := &Host{rack: r, dir: filepath.Join(r.hostsDir(), s.Name)}
	h.state = state{Name: s.Name, OS: s.OS, Address: address, Address6: address6, USB: usb, Disk: s.Disk, Exit: s.Exit, Created: time.Now().UTC().Truncate(time.Second), Owner: owner}
	if err := os.Mkdir(h.dir, 0o700); errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("host %s already exists; remove it first with: sealift-testgrid lab remove %s", s.Name, s.Name)
	} else if err != nil {
		return nil, fmt.Errorf("make the folder of host %s: %w", s.Name, err)
	}
	err = h.save()
	if err == nil {
		err = r.makeBridge(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(h.dir), r.dropBridgeIfUnused(context.WithoutCancel(ctx)))
	}
	return h, nil
}

// freeName returns the first unused numbered name. The caller must hold the rack's lock.
func (r *Rack) freeName() string {
	for n := 1; ; n++ {
		name := "host-" + strconv.Itoa(n)
		if _, err := os.Lstat(filepath.Join(r.hostsDir(), name)); errors.Is(err, os.ErrNotExist) {
			return name
		}
	}
}

// boot makes the host's disk, starts the host, and waits for it. The host's folder must exist.
func (h *Host) boot(ctx context.Context, tree string, keep bool) error {
	if err := h.prepare(); err != nil {
		return err
	}
	if err := h.powerOn(ctx, tree); err != nil {
		return err
	}
	if h.state.Exit {
		if err := h.watchEgress(ctx); err != nil {
			return err
		}
	}
	if keep {
		return h.Keep()
	}
	return nil
}

// Keep lets the host outlive this process, until it is removed by name.
func (h *Host) Keep() error {
	h.state.Owner = nil
	return h.save()
}

// Own lets the host end with this process, even if it was kept.
func (h *Host) Own() error {
	owner, err := describeProcess(os.Getpid())
	if err != nil {
		return err
	}
	h.state.Owner = owner
	return h.save()
}

// powerOn starts the container from the host's disk and waits for it.
func (h *Host) powerOn(ctx context.Context, tree string) error {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	groups, err := h.makeGroups()
	if err != nil {
		return err
	}
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: "@" + h.group(), Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("listen for notifications of the host: %w", err)
	}
	defer notify.Close()
	ended, err := h.start(tree, groups, "@"+h.group())
	if err != nil {
		return err
	}
	if err := h.waitReady(ctx, notify, ended); err != nil {
		return fmt.Errorf("%w\n%s", err, h.consoleTail())
	}
	return nil
}

// launch is the script of the host's manager. It joins the control groups, mounts the host's root and runs
// systemd-nspawn. It runs systemd-nspawn again in two cases: on exit code 133, by which systemd-nspawn asks its caller to
// reboot, and while the network interface of an earlier host of the same name still exists. The script has its own mount
// namespace, so the mount ends with it. As on a machine, no control group outlives a boot: a kubelet waits three seconds for each
// container that has a group and no process.
const launch = `set -eu
lower=$1 dir=$2 disk=$3 groups=$4
shift 4
for group in $groups; do echo $$ > "$group/cgroup.procs"; done
mount -t overlay -o "lowerdir=$lower,upperdir=$disk/upper,workdir=$disk/work" overlay "$dir/root"
code=133
tries=0
while [ $code = 133 ]; do
	code=0
	find $groups -mindepth 1 -depth -type d -exec rmdir {} + || true
	systemd-nspawn "$@" || code=$?
	left=$(tail -n 5 "$dir/console.log" | sed -n 's/.*veth interfaces (\([^:)]*\).*File exists.*/\1/p' | tail -n 1)
	if [ $code = 1 ] && [ $tries -lt 50 ] && [ -n "$left" ]; then
		tries=$((tries + 1))
		[ $tries -lt 10 ] || ip link delete "$left" || true
		sleep 0.2
		code=133
	fi
done
exit $code`

// start starts the host's manager. The channel is closed when the manager ends.
func (h *Host) start(tree string, groups []string, notifySocket string) (<-chan struct{}, error) {
	if strings.ContainsAny(tree+h.dir+h.disk(), ":,\\ ") {
		return nil, fmt.Errorf("the lab's folders %s, %s and %s must not have colons, commas, backslashes or spaces in their names, which overlay mounts do not support", tree, h.dir, h.disk())
	}
	group, err := os.Open(groups[0])
	if err != nil {
		return nil, err
	}
	defer group.Close()
	console, err := os.Create(h.consolePath())
	if err != nil {
		return nil, err
	}
	defer console.Close()
	args := append([]string{"-c", launch, "launch", tree, h.dir, h.disk(), strings.Join(groups, " ")}, h.nspawnArgs()...)
	cmd := exec.Command("/bin/sh", args...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "SYSTEMD_NSPAWN_API_VFS_WRITABLE=yes", "NOTIFY_SOCKET=" + notifySocket}
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:       true, // signals from the caller's terminal must not reach the host
		Unshareflags: syscall.CLONE_NEWNS,
		UseCgroupFD:  true, // it starts inside the control group that killAll ends
		CgroupFD:     int(group.Fd()),
	}
	if err := cmd.Start(); errors.Is(err, syscall.EINVAL) {
		return nil, fmt.Errorf("%w; is this a chroot? Its root must be a mount point: mount --bind DIR DIR, before chroot DIR", err)
	} else if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the console log has the reason
		close(ended)
	}()
	if h.state.Manager, err = describeProcess(cmd.Process.Pid); err != nil {
		return nil, fmt.Errorf("the container ended at once: %w\n%s", err, h.consoleTail())
	}
	return ended, h.save()
}

// nspawnArgs are the container's settings. They make it as similar to a real machine as possible.
func (h *Host) nspawnArgs() []string {
	args := []string{
		"--quiet", "--boot", "--machine=" + h.group(), "--hostname=" + h.state.Name, "--directory=" + filepath.Join(h.dir, "root"),
		"--register=no", "--keep-unit", "--notify-ready=yes", "--console=pipe",
		"--network-bridge=" + h.rack.bridge(), "--resolv-conf=off", "--timezone=off", "--link-journal=no",
		"--capability=all", "--system-call-filter=@known", "--bind=/dev/kmsg",
	}
	for folder, target := range plainFolders() {
		args = append(args, "--bind="+filepath.Join(h.disk(), folder)+":"+target)
	}
	for i, folder := range h.state.USB {
		target := "/media/usb"
		if i > 0 {
			target += strconv.Itoa(i + 1)
		}
		args = append(args, "--bind-ro="+strings.ReplaceAll(folder, ":", `\:`)+":"+target)
	}
	return args
}

// waitReady returns when the host's systemd has reported that it is up.
func (h *Host) waitReady(ctx context.Context, notify *net.UnixConn, ended <-chan struct{}) error {
	ready := make(chan error, 1)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := notify.Read(buf)
			if err != nil {
				ready <- fmt.Errorf("listen for notifications of the host: %w", err)
				return
			}
			for line := range strings.Lines(string(buf[:n])) {
				if strings.TrimSpace(line) == "READY=1" {
					ready <- nil
					return
				}
			}
		}
	}()
	select {
	case err := <-ready:
		return err
	case <-ended:
		return errors.New("the container ended before it was up")
	case <-ctx.Done():
		return fmt.Errorf("wait for the host to come up: %w", ctx.Err())
	}
}

func (h *Host) consolePath() string { return filepath.Join(h.dir, "console.log") }

// consoleTail returns the end of the output of the host and its manager.
func (h *Host) consoleTail() string {
	data, err := os.ReadFile(h.consolePath())
	if err != nil {
		return err.Error()
	}
	const most = 4096
	return strings.TrimSpace(string(data[max(0, len(data)-most):]))
}
