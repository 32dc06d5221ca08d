package host_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/isolation"
	"github.com/sealift/sealift/internal/testing/lab"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/testgrid/lab/host"
)

// ownerEnv makes the test binary play a process that boots a host in the named rack and is then killed.
const ownerEnv = "SEALIFT_TEST_HOST_OWNER"

func TestMain(m *testing.M) {
	if state := os.Getenv(ownerEnv); state != "" {
		rack, err := host.OpenRack(context.Background(), host.Options{StateDir: state})
		if err == nil {
			_, err = rack.Boot(context.Background(), host.Spec{Name: "orphan"})
		}
		if err != nil {
			os.Stdout.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Stdout.WriteString("up\n")
		_, _ = io.Copy(io.Discard, os.Stdin) // until killed; select {} would be a deadlock to Go's runtime, which ends the process
	}
	os.Exit(m.Run())
}

func TestHostIsIsolatedLinuxSystem(t *testing.T) {
	for _, system := range host.Systems() {
		t.Run(system, func(t *testing.T) {
			h := lab.Host(t, host.Spec{OS: system})
			for _, tt := range []struct{ behaviour, script, want string }{
				{"systemd is its first process", "cat /proc/1/comm", "systemd"},
				{"systemd is content", "systemctl --failed --no-legend; systemctl is-system-running --wait", "running"},
				{"it has the name it was given", "hostname", h.Name()},
				{"its name leads to its address", "getent hosts " + h.Name() + " | cut -d' ' -f1", h.Address().String()},
				{"it is the system that was asked for", ". /etc/os-release; echo $ID-$VERSION_ID", system},
				{"it has an identity", "tr -d 0-9a-f < /etc/machine-id | wc -c; wc -c < /etc/machine-id", "1\n33"},
				{"its control groups are writable", "for c in /sys/fs/cgroup/*/; do test -e $c/tasks || continue; mkdir $c/t && rmdir $c/t || echo $c; done", ""},
				{"forwarding can be switched on", "echo 1 > /proc/sys/net/ipv4/ip_forward; cat /proc/sys/net/ipv4/ip_forward", "1"},
				{"an overlay can be mounted for a container", "cd /var/lib/containerd; mkdir l u w m; mount -t overlay -o lowerdir=l,upperdir=u,workdir=w o m && umount m && rmdir l u m", ""},
				{"a cluster's hosts have room for what they watch", "test $(cat /proc/sys/fs/inotify/max_user_instances) -ge 8192 && echo yes", "yes"},
				{"kubelet's kernel log is there", "test -c /dev/kmsg && echo yes", "yes"},
				{"apt has nothing downloaded", "ls /var/lib/apt/lists /var/cache/apt/archives | grep -c '[.]deb$'", "0"},
			} {
				t.Run(tt.behaviour, func(t *testing.T) {
					// The exit code of grep -c without a match is 1.
					got, err := h.Output(t.Context(), "sh", "-c", tt.script+"; true")
					if err != nil || got != tt.want {
						t.Errorf("%s: %q, %v; want %q", tt.script, got, err, tt.want)
					}
				})
			}
		})
	}
}

func TestHostHasNoEgress(t *testing.T) {
	h := lab.Host(t, host.Spec{})
	for _, destination := range []string{"1.1.1.1", "2606:4700:4700::1111", "10.91.0.1"} {
		if out, err := h.Output(t.Context(), "ip", "route", "get", destination); err == nil {
			t.Errorf("there is a route to %s: %s", destination, out)
		}
	}
	if out, err := h.Output(t.Context(), "ip", "route", "show", "default"); err != nil || out != "" {
		t.Errorf("default routes are %q, %v", out, err)
	}
	if out, err := h.Output(t.Context(), "getent", "hosts", "debian.org"); err == nil {
		t.Errorf("names of the world are resolved: %s", out)
	}
	// Nobody answers for any other address of the network either, least of all this machine.
	out, err := h.Output(t.Context(), "bash", "-c", "exec 3<>/dev/tcp/10.90.0.1/22")
	if err == nil {
		t.Errorf("10.90.0.1 answers: %s", out)
	}
}

func TestHostsOfRackReachEachOther(t *testing.T) {
	first := lab.Host(t, host.Spec{})
	second := lab.Host(t, host.Spec{})
	if first.Address() == second.Address() {
		t.Fatalf("both have %s", first.Address())
	}
	// Perl is part of every Debian system, however small.
	const server = `$| = 1; my $s = IO::Socket::INET->new(LocalPort => 7777, Listen => 1) or die; print "listening\n"; $s->accept->print("hello from second")`
	out, listening := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- second.Exec(t.Context(), host.Command{Args: []string{"perl", "-MIO::Socket::INET", "-e", server}, Stdout: listening})
		listening.Close()
	}()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the server says %q, %v", line, err)
	}
	got, err := first.Output(t.Context(), "bash", "-c", "cat < /dev/tcp/"+second.Address().String()+"/7777")
	if err != nil || got != "hello from second" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestMachineConnectsThroughHost(t *testing.T) {
	h := lab.Host(t, host.Spec{})
	const server = `$| = 1; my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => 7778, Listen => 1) or die; print "listening\n"; $s->accept->print("hello")`
	out, listening := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- h.Exec(t.Context(), host.Command{Args: []string{"perl", "-MIO::Socket::INET", "-e", server}, Stdout: listening})
		listening.Close()
	}()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the server says %q, %v", line, err)
	}
	if here, err := net.Dial("tcp", "127.0.0.1:7778"); err == nil {
		_ = here.Close()
		t.Fatal("the port of the host is one of this machine")
	}
	conn, err := h.Dial(t.Context(), "tcp", "127.0.0.1:7778")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got, err := io.ReadAll(conn); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestHostConnectsToMachine(t *testing.T) {
	h := lab.Host(t, host.Spec{})
	l, err := h.Listen(t.Context(), "tcp", "127.0.0.1:7779")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if here, err := net.Dial("tcp", "127.0.0.1:7779"); err == nil {
		_ = here.Close()
		t.Fatal("the port of the host is one of this machine")
	}
	go func() {
		if conn, err := l.Accept(); err == nil {
			_, _ = io.WriteString(conn, "hello") // the client reports a text that is cut
			_ = conn.Close()
		}
	}()
	if got, err := h.Output(t.Context(), "bash", "-c", "cat </dev/tcp/127.0.0.1/7779"); err != nil || got != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestPluggedFoldersAreReadOnly(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{filepath.Join(first, "bundle"): "one", filepath.Join(second, "bundle"): "two"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := lab.Host(t, host.Spec{USB: []string{first, second}})
	if got, err := h.Output(t.Context(), "cat", "/media/usb/bundle", "/media/usb2/bundle"); err != nil || got != "onetwo" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := h.Output(t.Context(), "touch", "/media/usb/new"); err == nil {
		t.Error("the host wrote to a folder of this machine")
	}
}

func TestHostBootsWithSyncedDataAfterPowerLoss(t *testing.T) {
	d := isolation.NewDisk(t, 256<<20)
	h := lab.Host(t, host.Spec{Disk: d.Path()})
	output := func(script string) string {
		t.Helper()
		out, err := h.Output(t.Context(), "sh", "-c", script)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	identity := output("echo synced >/etc/synced && sync && echo written >/etc/written && cat /etc/machine-id")
	d.CutPower()
	if err := h.PowerCycle(t.Context(), d.Restore); err != nil {
		t.Fatal(err)
	}
	if got := output("cat /etc/machine-id /etc/synced; ! cat /etc/written 2>/dev/null"); got != identity+"\nsynced" {
		t.Errorf("after the loss of power: %q", got)
	}
}

func TestExecReturnsStreamsAndExitCodes(t *testing.T) {
	h := lab.Host(t, host.Spec{})
	t.Run("standard input and both outputs are apart", func(t *testing.T) {
		var stdout, stderr strings.Builder
		err := h.Exec(t.Context(), host.Command{Args: []string{"sh", "-c", "cat; echo err >&2"}, Stdin: strings.NewReader("in"), Stdout: &stdout, Stderr: &stderr})
		if err != nil || stdout.String() != "in" || stderr.String() != "err\n" {
			t.Errorf("got %q, %q, %v", stdout.String(), stderr.String(), err)
		}
	})
	t.Run("the exit code comes back", func(t *testing.T) {
		var failed *exec.ExitError
		if err := h.Exec(t.Context(), host.Command{Args: []string{"sh", "-c", "exit 7"}}); !errors.As(err, &failed) || failed.ExitCode() != 7 {
			t.Errorf("error is %v", err)
		}
	})
	t.Run("the environment is clean", func(t *testing.T) {
		t.Setenv("SECRET_OF_THIS_MACHINE", "x")
		got, err := h.Output(t.Context(), "sh", "-c", "echo ${SECRET_OF_THIS_MACHINE:-none} $HOME $PWD")
		if err != nil || got != "none /root /root" {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("the end of the context ends the program in the host", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r, w := io.Pipe()
		done := make(chan error, 1)
		go func() {
			done <- h.Exec(ctx, host.Command{Args: []string{"sh", "-c", "echo started; exec sleep 1000"}, Stdout: w})
		}()
		if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
		// Its kill signal may take a moment to arrive.
		if _, err := h.Output(t.Context(), "timeout", "30", "sh", "-c", "while grep -qsx sleep /proc/[0-9]*/comm; do :; done"); err != nil {
			t.Errorf("it still runs after 30 s: %v", err)
		}
	})
}

func TestNamesAndSystemsAreChecked(t *testing.T) {
	short.Root(t, "hosts of the lab")
	rack := openRack(t, t.TempDir())
	for _, name := range []string{"-a", "a-", "Node", "a.b", "../a", "a b", strings.Repeat("a", 33)} {
		if _, err := rack.Boot(t.Context(), host.Spec{Name: name}); err == nil {
			t.Errorf("booted a host called %q", name)
		}
		if err := rack.Remove(t.Context(), name); err == nil {
			t.Errorf("removed a host called %q", name)
		}
	}
	if _, err := rack.Boot(t.Context(), host.Spec{Name: "a", OS: "plan-9"}); err == nil || !strings.Contains(err.Error(), "debian-12 or debian-13") {
		t.Errorf("error is %v", err)
	}
	if _, err := rack.Boot(t.Context(), host.Spec{Name: "a", USB: []string{"/no/such/folder"}}); err == nil || !strings.Contains(err.Error(), "/no/such/folder") {
		t.Errorf("error is %v", err)
	}
	if _, err := rack.Find("nobody"); !errors.Is(err, host.ErrNoHost) {
		t.Errorf("error is %v", err)
	}
}

func openRack(t *testing.T, state string) *host.Rack {
	t.Helper()
	rack, err := host.OpenRack(t.Context(), host.Options{StateDir: state, Progress: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	return rack
}
