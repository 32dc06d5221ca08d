package readdress

import (
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/testing/isolation"
)

func TestScheduledAddressIsApplied(t *testing.T) {
	t.Parallel()
	r := &Readdress{Change: change, options: Options{Scope: node.Scope{Root: t.TempDir()}, Timeout: time.Minute}}
	root := r.options.Root
	if _, err := expected(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing is expected: %v", err)
	}
	for range 2 {
		if err := r.Schedule(); err != nil {
			t.Fatal(err)
		}
	}
	got, err := expected(root)
	if err != nil || cmp.Diff(pendingAddress{change, time.Minute}, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })) != "" {
		t.Errorf("%+v, %v", got, err)
	}
	log := slog.New(slog.DiscardHandler)
	if err := applyPending(t.Context(), root, log); err != nil { // the host does not have it
		t.Error(err)
	}
	if _, err := expected(root); err != nil {
		t.Errorf("it is forgotten: %v", err)
	}
	if err := os.WriteFile(comingFile(root), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := applyPending(t.Context(), root, log); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("a damaged note: %v", err)
	}
	if _, err := expected(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a damaged note stays: %v", err)
	}
}

func TestScheduledAddressMustBeOnHost(t *testing.T) {
	t.Parallel()
	f := facts{own: map[netip.Addr]string{change.To: "eth0"}, virtual: func(string) bool { return false }, before: true}
	if _, err := f.check(change.From, change.To); err == nil || !strings.Contains(err.Error(), "already has 10.20.0.7") {
		t.Error(err)
	}
	f.own = nil
	if _, err := f.check(change.From, change.To); err != nil {
		t.Error(err)
	}
}

// TestAddressInUseIsRefused connects to an address in a separate network.
func TestAddressInUseIsRefused(t *testing.T) {
	isolation.Network(t)
	isolation.Run(t, "", "ip", "link", "set", "lo", "up")
	l, err := net.Listen("tcp", "127.0.0.9:6443")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for address, port := range map[string]string{"127.0.0.9": "6443", "127.0.0.8": "6443"} { // the second one refuses the connection
		if err := (facts{}).refuseAnswering(t.Context(), netip.MustParseAddr(address)); err == nil || !strings.Contains(err.Error(), "port "+port) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := (facts{}).refuseAnswering(t.Context(), netip.MustParseAddr("10.1.2.3")); err != nil { // no route
		t.Error(err)
	}
}
