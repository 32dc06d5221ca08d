package balancer

import (
	"cmp"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/sealift/sealift/internal/testing/short"
)

// holdAs lets another user of this machine hold connections until the test ends.
func holdAs(t *testing.T, uid uint32, address string, n int) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", fmt.Sprintf("ulimit -n 8192; for i in {1..%d}; do exec {fd}<>/dev/tcp/%s/%s || exit 1; done; echo held; read -r", n, host, port))
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // it was killed on purpose
	})
	text := make([]byte, 4)
	if n, err := out.Read(text); err != nil || string(text[:n]) != "held" {
		t.Fatalf("%q %v", text[:n], err)
	}
}

func TestUserOfConnectionIsKnown(t *testing.T) {
	short.AsRoot(t, "another user")
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		holdAs(t, 65534, l.Addr().String(), 1)
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if got := userOf(conn); got != "user 65534" {
			t.Errorf("%s: %s", address, got)
		}
	}
}

func TestUserWithManyConnectionsLeavesOthersServed(t *testing.T) {
	short.AsRoot(t, "another user")
	for name, bound := range map[string]struct{ perUser, held int }{"a small bound": {8, 40}, "the balancer's own bound": {0, 3000}} {
		t.Run(name, func(t *testing.T) {
			server, _ := apiServer(t, "one")
			b, address := serveWith(t, &Balancer{PerUser: bound.perUser}, server)
			eventually(t, "it is healthy", func() bool { return b.healthy() == 1 })
			holdAs(t, 65534, address, bound.held)
			for range 3 {
				if name, err := ask(t, address); err != nil || !strings.Contains(name, "one") {
					t.Fatalf("%s %v", name, err)
				}
			}
			s := b.servers[0]
			s.mu.Lock()
			defer s.mu.Unlock()
			if n, most := len(s.conns), 2*cmp.Or(bound.perUser, maxPerUser); n > most {
				t.Errorf("%d connections are passed on, more than %d", n, most)
			}
		})
	}
}
