package support

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/internal/head"
	"github.com/sealift/sealift/internal/hostpath"
)

const (
	maxFile     = 8 << 20 // collected bytes of a file, from its end
	maxOutput   = 8 << 20 // bytes of a command's output
	commandTime = time.Minute
)

// plainFiles are files with the configuration of the host. None holds keys.
func plainFiles() []string {
	return []string{
		"etc/os-release", "etc/hosts", "etc/resolv.conf", "etc/fstab", "etc/containerd/config.toml", "var/lib/kubelet/config.yaml",
		"etc/kubernetes/manifests/etcd.yaml", "etc/kubernetes/manifests/kube-apiserver.yaml",
		"etc/kubernetes/manifests/kube-controller-manager.yaml", "etc/kubernetes/manifests/kube-scheduler.yaml",
		"proc/cpuinfo", "proc/meminfo", "proc/swaps", "proc/mounts", "proc/cgroups", "proc/filesystems", "proc/cmdline", "proc/loadavg",
	}
}

// files collects files of the host, and the logs of containers, which exist when no API server answers.
func (c *collection) files() {
	for _, name := range plainFiles() {
		f, err := c.Host.Open(name)
		if err != nil {
			c.failed("/"+name, err)
			continue
		}
		c.put("host/files/"+name, io.LimitReader(f, maxFile))
		_ = f.Close()
	}
	c.podLogs(podLogs)
}

// fromNextLine drops the text before the first end of a line: half a secret would not be recognised.
type fromNextLine struct {
	io.Reader
	begun bool
}

func (r *fromNextLine) Read(p []byte) (int, error) {
	for {
		n, err := r.Reader.Read(p)
		if r.begun || err != nil {
			return n, err
		}
		if _, rest, ok := bytes.Cut(p[:n], []byte("\n")); ok {
			r.begun = true
			return copy(p, rest), nil
		}
	}
}

// command is an inspection command of the host.
type command struct {
	name string // of the file
	args []string
}

func hostCommands() []command {
	journal := func(name string, args ...string) command {
		return command{"host/journal/" + name, append([]string{"journalctl", "--no-pager", "--output=short-iso", "--lines=20000"}, args...)}
	}
	tell := func(name string, args ...string) command { return command{"host/" + name, args} }
	return []command{
		journal("kubelet", "--unit=kubelet"), journal("containerd", "--unit=containerd"), journal("kernel", "--dmesg"), journal("errors", "--priority=err"),
		tell("uname", "uname", "-a"), tell("disks", "df", "-hT"), tell("inodes", "df", "-i"), tell("memory", "free", "-m"), tell("processes", "ps", "-eo", "pid,ppid,stat,pcpu,pmem,etime,args"),
		tell("addresses", "ip", "-details", "address"), tell("routes", "ip", "route", "show", "table", "all"), tell("listeners", "ss", "-lntup"),
		tell("iptables", "iptables-save"), tell("nftables", "nft", "list", "ruleset"), tell("modules", "lsmod"), tell("clock", "date", "--utc", "--iso-8601=ns"),
		tell("services", "systemctl", "list-units", "--all", "--no-pager"), tell("failed-services", "systemctl", "--failed", "--no-pager"),
		tell("kubelet", "systemctl", "status", "--no-pager", "--full", "kubelet"), tell("containerd", "systemctl", "status", "--no-pager", "--full", "containerd"),
		tell("images", "ctr", "--namespace", "k8s.io", "images", "ls", "-q"), tell("containers", "ctr", "--namespace", "k8s.io", "containers", "ls"),
		tell("tasks", "ctr", "--namespace", "k8s.io", "tasks", "ls"),
	}
}

func clusterCommands() []command {
	ask := func(name string, args ...string) command {
		return command{"cluster/" + name, append([]string{"kubectl", "--kubeconfig", kubeadm.AdminKubeconfig, "--request-timeout=20s"}, args...)}
	}
	return []command{
		ask("nodes", "get", "nodes", "-o", "wide"), ask("describe-nodes", "describe", "nodes"), ask("pods", "get", "pods", "-A", "-o", "wide"),
		ask("events", "get", "events", "-A", "--sort-by=.lastTimestamp"), ask("workloads", "get", "deployments,daemonsets,statefulsets,jobs", "-A", "-o", "wide"),
		ask("services", "get", "services,endpointslices", "-A", "-o", "wide"), ask("volumes", "get", "pv,pvc,storageclasses", "-A"),
	}
}

// answerTime is the timeout for the state of the cluster's API. One that does not answer is not queried further: each request
// would time out.
const answerTime = 15 * time.Second

// answers collects the state of the cluster's API, and reports whether it answers at all.
func (c *collection) answers(ctx context.Context) bool {
	program, err := exec.LookPath("kubectl")
	if err != nil {
		return false
	}
	if _, err := os.Stat(kubeadm.AdminKubeconfig); err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	said, err := c.run(ctx, program, []string{"kubectl", "--kubeconfig", kubeadm.AdminKubeconfig, "--request-timeout=10s", "get", "--raw", "/readyz?verbose"})
	c.put("cluster/health.txt", bytes.NewReader(said))
	return err == nil
}

// commands collects what commands print. One that the host does not have is left out.
func (c *collection) commands(ctx context.Context) {
	all := hostCommands()
	if c.api {
		all = append(all, clusterCommands()...)
	}
	for _, one := range all {
		if ctx.Err() != nil {
			return
		}
		program, err := exec.LookPath(one.args[0])
		if err != nil {
			continue
		}
		said, _ := c.run(ctx, program, one.args) // the output includes the exit status
		c.put(one.name+".txt", bytes.NewReader(said))
	}
}

// run returns the output of a command. Its exit status is part of it: a nonzero status is often the answer.
func (c *collection) run(ctx context.Context, program string, args []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	out := &head.Buffer{Limit: maxOutput}
	cmd := exec.CommandContext(ctx, program, args[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = []string{"PATH=" + hostpath.Extended(os.Getenv("PATH")), "HOME=/root", "LANG=C.UTF-8", "SYSTEMD_COLORS=0"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	c.Log.Debug("collect", "command", strings.Join(args, " "))
	err := cmd.Run()
	text := out.Bytes()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		text = fmt.Appendf(text, "\n(%s did not end in time)\n", args[0])
	case err != nil:
		text = fmt.Appendf(text, "\n(%s: %v)\n", args[0], err)
	}
	return text, err
}
