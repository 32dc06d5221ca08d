package host

import (
	"archive/tar"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"mvdan.cc/sh/v3/syntax"
)

// The files in a virtual machine's folder that this machine logs in with.
const (
	keyFile   = "key"
	knownFile = "known_hosts"
)

// machineScript comes before the script that gives a host its address. It finds the network cards by their hardware addresses, gives the
// cable the name that it has in a container, and hides the way in.
const machineScript = `set -eu
cat /etc/hostname > /proc/sys/kernel/hostname
udevadm settle --timeout=120
for card in /sys/class/net/*; do
	case $(cat "$card/address") in
	%s) ip link set dev "${card##*/}" name host0 ;;
	%s) ip link set dev "${card##*/}" name lab0 ;;
	esac
done
ip netns add lab
ip link set dev lab0 netns lab
ip -n lab link set dev lo up
ip -n lab address add 10.0.2.15/24 dev lab0
ip -n lab link set dev lab0 up
`

// mountScript mounts a disk that the host has read-only.
const mountScript = `udevadm wait --timeout=60 /dev/disk/by-id/virtio-%[1]s
mkdir -p /media/%[1]s
mount -o ro /dev/disk/by-id/virtio-%[1]s /media/%[1]s
`

// machineSetup returns the script that runs at each boot.
func (h virtualMachine) machineSetup() string {
	script := fmt.Sprintf(machineScript, h.cableCard(), shellCard)
	for i := range h.state.USB {
		script += fmt.Sprintf(mountScript, usbName(i))
	}
	return script + h.setup()
}

// seedFile is one file of a host's own.
type seedFile struct {
	path    string
	mode    int64
	content string
}

// writeSeed writes the disk that the system unpacks when it boots for the first time, and the files to log in with.
func (h virtualMachine) writeSeed() error {
	hostKey, hostLine, err := newKey()
	if err != nil {
		return err
	}
	key, keyLine, err := newKey()
	if err != nil {
		return err
	}
	for name, content := range map[string]string{keyFile: key, knownFile: h.state.Name + " " + hostLine} {
		if err := os.WriteFile(filepath.Join(h.dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	files := []seedFile{
		{"etc/hostname", 0o644, h.state.Name + "\n"},
		{"etc/hosts", 0o644, h.names()},
		{"etc/sealift-lab/host_key", 0o600, hostKey},
		{"etc/sealift-lab/authorized_keys", 0o600, keyLine},
		{"etc/sealift-lab/setup", 0o644, h.machineSetup()}, // the last one: where it is, all are
	}
	f, err := os.Create(filepath.Join(h.dir, seedDisk))
	if err != nil {
		return err
	}
	defer f.Close()
	archive := tar.NewWriter(f)
	for _, file := range files {
		header := &tar.Header{Name: file.path, Mode: file.mode, Size: int64(len(file.content)), ModTime: h.state.Created}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write([]byte(file.content)); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), f.Close())
}

// newKey makes a key for the secure shell: the private one as a file, the public one as a line of authorized_keys.
func newKey() (private, line string, err error) {
	public, secret, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", "", err
	}
	block, err := ssh.MarshalPrivateKey(secret, "")
	if err != nil {
		return "", "", err
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return "", "", err
	}
	return string(pem.EncodeToMemory(block)), string(ssh.MarshalAuthorizedKey(key)), nil
}

// shellArgs are the command line of the secure shell client up to the command. A machine that lost its power ends the connection after
// two minutes; one that is only busy does not.
func (h virtualMachine) shellArgs(options ...string) []string {
	args := append([]string{"ssh", "-F", "none", "-i", filepath.Join(h.dir, keyFile), "-p", strconv.Itoa(h.state.Machine.Port)}, options...)
	for _, option := range []string{"BatchMode=yes", "IdentitiesOnly=yes", "LogLevel=ERROR", "HostKeyAlias=" + h.state.Name,
		"UserKnownHostsFile=" + filepath.Join(h.dir, knownFile), "GlobalKnownHostsFile=none", "ConnectTimeout=20",
		"ServerAliveInterval=15", "ServerAliveCountMax=8", "KexAlgorithms=curve25519-sha256"} {
		args = append(args, "-o", option)
	}
	return append(args, "root@127.0.0.1")
}

// abandonTime bounds how long a machine may take to end what a killed client has left.
const abandonTime = 30 * time.Second

// command runs in the network of the host's first process and among its mounts, not in those of the secure shell: systemd gives a service with
// another network its own mounts. The shell's server makes a session for each command, and kill ends all processes of that session.
func (h virtualMachine) command(c Command) ([]string, func(), error) {
	if !h.running() {
		return nil, nil, fmt.Errorf("host %s is not running; remove it and boot it again", h.state.Name)
	}
	if c.NetworkOnly {
		return nil, nil, fmt.Errorf("host %s is a virtual machine: programs of this machine cannot join its network", h.state.Name)
	}
	var words strings.Builder
	for _, word := range c.line() {
		quoted, err := syntax.Quote(word, syntax.LangBash)
		if err != nil {
			return nil, nil, fmt.Errorf("run %q in host %s: %w", word, h.state.Name, err)
		}
		words.WriteString(" " + quoted)
	}
	id := make([]byte, 8)
	_, _ = rand.Read(id)
	group := "/run/sealift-lab-" + hex.EncodeToString(id)
	line := "echo $$ >" + group + "; nsenter --target 1 --mount --net --" + words.String() + "; code=$?; rm -f " + group + "; exit $code"
	var options []string
	if c.Terminal {
		options = append(options, "-t")
	}
	kill := func() {
		ctx, cancel := context.WithTimeout(context.Background(), abandonTime)
		defer cancel()
		args := append(h.shellArgs(), "kill -KILL -$(cat "+group+"); rm -f "+group)
		_ = exec.CommandContext(ctx, args[0], args[1:]...).Run() // the machine may be off
	}
	return append(h.shellArgs(options...), line), kill, nil
}
