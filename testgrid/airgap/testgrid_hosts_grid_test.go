//go:build grid

package airgap_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/testgrid/lab/host"
	"github.com/sealift/sealift/testgrid/report"
)

// sshHost is the name of the host that is reached by ssh only.
const sshHost = "demo-ssh"

// TestGridReachesHostsBySSHAndProgram runs a test of the demo on a host that is reached by ssh, and on one that a program
// makes. What makes the first one bare is a program that boots it again.
func TestGridReachesHostsBySSHAndProgram(t *testing.T) {
	r := gridRoad(t)
	r.programs(t, "debian-12", "openssh-server")
	hosts := filepath.Join(r.dir(), "hosts.yaml")
	place(t, hosts, []byte(fmt.Sprintf(`systems:
  by-ssh: {ssh: {machines: [%s], bare: {program: [./bare.sh]}, egress: [%s/sealift-testgrid, lab, egress, %s, -o, json]}}
  by-program: {command: [%s/testgrid/demo/hosts.sh]}
`, r.sshMachine(t), r.dir(), sshHost, absolute(t, repository))))
	list := r.grid(t, 0, demoTests, hosts, filepath.Join(t.TempDir(), "report"), "--test", "single-node-without-a-network")
	if want := (report.Counts{Passed: 2}); list.Counts != want {
		t.Fatalf("%s, want %s\n%+v", list.Counts, want, list.Cells)
	}
	steps := func(c report.Cell) (names []string) {
		for _, s := range c.Attempts[0].Steps {
			names = append(names, s.Name)
		}
		return names
	}
	if a, b := fmt.Sprint(steps(list.Cells[0])), fmt.Sprint(steps(list.Cells[1])); a != b || !strings.Contains(a, "air gap") {
		t.Errorf("the steps differ:\n%s\n%s", a, b)
	}
}

// sshMachine describes the host that is reached by ssh: how it becomes bare, and where the server's port is on this machine.
func (r delivery) sshMachine(t *testing.T) string {
	t.Helper()
	shell(t, r.dir(), "rm -f key* && ssh-keygen -q -t ed25519 -N '' -f key && ssh-keygen -q -t ed25519 -N '' -f keyhost")
	place(t, filepath.Join(r.dir(), "bare.sh"), []byte(`#!/bin/bash
set -e
cd "$(dirname "$0")"
lab() { ./sealift-testgrid lab "$@"; }
! lab list | grep -q "^$SEALIFT_MACHINE " || lab remove "$SEALIFT_MACHINE"
lab boot "$SEALIFT_MACHINE" --exit --usb debs
lab enter "$SEALIFT_MACHINE" -- bash -c 'mkdir -pm 700 /root/.ssh /etc/ssh && tar x -C / && DEBIAN_FRONTEND=noninteractive dpkg -i /media/usb/*.deb' < <(
	mkdir -p files/root/.ssh files/etc/ssh && cp keyhost files/etc/ssh/ssh_host_ed25519_key && cp keyhost.pub files/etc/ssh/ssh_host_ed25519_key.pub &&
		cp key.pub files/root/.ssh/authorized_keys && tar c -C files --owner=0 --group=0 .)
`))
	shell(t, r.dir(), "chmod +x bare.sh")
	t.Cleanup(func() {
		if out, err := exec.Command(filepath.Join(r.dir(), "sealift-testgrid"), "lab", "remove", sshHost).CombinedOutput(); err != nil {
			t.Errorf("remove %s: %v\n%s", sshHost, err, out)
		}
	})
	public, err := os.ReadFile(filepath.Join(r.dir(), "keyhost.pub"))
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(forward(t, sshHost, 22))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("{name: %s, address: 127.0.0.1, port: %s, key: ./key, hostKey: %q}", sshHost, port, strings.TrimSpace(string(public)))
}

// forward forwards a port of this machine to one of a host, which may be rebooted in the meantime. This machine has no address
// in the network of the lab.
func forward(t *testing.T, name string, port int) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if far, err := dial(context.WithoutCancel(t.Context()), name, port); err == nil {
					defer far.Close()
					go func() { _, _ = io.Copy(far, conn) }()
					_, _ = io.Copy(conn, far)
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func dial(ctx context.Context, name string, port int) (net.Conn, error) {
	rack, err := host.OpenRack(ctx, host.Options{})
	if err != nil {
		return nil, err
	}
	h, err := rack.Find(name)
	if err != nil {
		return nil, err
	}
	return h.Dial(ctx, "tcp", fmt.Sprintf("%s:%d", h.Address(), port))
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	absolute, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return absolute
}
