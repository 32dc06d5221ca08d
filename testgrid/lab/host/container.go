package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// container is a host that is a systemd-nspawn container.
type container struct{ *Host }

// bootTimeout is long for a boot of a few seconds.
func (h container) bootTimeout() time.Duration { return 2 * time.Minute }

func (h container) running() bool {
	_, err := h.leader()
	return err == nil
}

// bootID is the ID of the first process, which a reboot changes.
func (h container) bootID(context.Context) (string, error) {
	leader, err := h.leader()
	return strconv.Itoa(leader), err
}

func (h container) command(c Command) ([]string, func(), error) {
	leader, err := h.leader()
	if err != nil {
		return nil, nil, err
	}
	// In a chroot, the root of a mount namespace is not the host's root: enter that too.
	enter := []string{"--all", "--root"}
	if c.NetworkOnly {
		enter = []string{"--net"}
	}
	return slices.Concat([]string{"nsenter"}, enter, []string{"--target", strconv.Itoa(leader), "--"}, c.line()), nil, nil
}

// powerOn starts the container from the host's disk and waits for it.
func (h container) powerOn(ctx context.Context, tree string) error {
	ctx, cancel := context.WithTimeout(ctx, h.bootTimeout())
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
func (h container) start(tree string, groups []string, notifySocket string) (<-chan struct{}, error) {
	if strings.ContainsAny(tree+h.dir+h.disk(), ":,\\ ") {
		return nil, fmt.Errorf("the lab's folders %s, %s and %s must not have colons, commas, backslashes or spaces in their names, which overlay mounts do not support", tree, h.dir, h.disk())
	}
	args := append([]string{"-c", launch, "launch", tree, h.dir, h.disk(), strings.Join(groups, " ")}, h.nspawnArgs()...)
	cmd := exec.Command("/bin/sh", args...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "SYSTEMD_NSPAWN_API_VFS_WRITABLE=yes", "NOTIFY_SOCKET=" + notifySocket}
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	ended, err := h.startManager(cmd, groups[0])
	if errors.Is(err, syscall.EINVAL) {
		err = fmt.Errorf("%w; is this a chroot? Its root must be a mount point: mount --bind DIR DIR, before chroot DIR", err)
	}
	return ended, err
}

// nspawnArgs are the container's settings. They make it as similar to a real machine as possible.
func (h container) nspawnArgs() []string {
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
		args = append(args, "--bind-ro="+strings.ReplaceAll(folder, ":", `\:`)+":/media/"+usbName(i))
	}
	return args
}

// waitReady returns when the host's systemd has reported that it is up.
func (h container) waitReady(ctx context.Context, notify *net.UnixConn, ended <-chan struct{}) error {
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

// port returns the name of the machine's interface that the host's network cable leads to.
func (h container) port() (string, error) {
	leader, err := h.leader()
	if err != nil {
		return "", err
	}
	peer, err := exec.Command("nsenter", "--net", "--mount", "--target", strconv.Itoa(leader), "--", "cat", "/sys/class/net/host0/iflink").Output()
	if err != nil {
		return "", fmt.Errorf("look for the interface of host %s: %w", h.state.Name, err)
	}
	interfaces, err := filepath.Glob("/sys/class/net/*/ifindex")
	if err != nil {
		return "", err
	}
	for _, file := range interfaces {
		if index, err := os.ReadFile(file); err == nil && string(index) == string(peer) {
			return filepath.Base(filepath.Dir(file)), nil
		}
	}
	return "", fmt.Errorf("this machine has no interface %s, to which host %s is connected", strings.TrimSpace(string(peer)), h.state.Name)
}

// discard removes the folder that a killed systemd-nspawn leaves behind.
func (h container) discard(context.Context) error {
	return os.RemoveAll(filepath.Join(nspawnPropagate, h.group()))
}

// nspawnPropagate is where systemd-nspawn keeps a folder for each container. A killed systemd-nspawn leaves its folder
// behind.
const nspawnPropagate = "/run/systemd/nspawn/propagate"
