package readdress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/network"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/internal/regularfile"
)

// comingName is the file that notes an address which the host is about to get.
const comingName = "coming.json"

// watchPause is the time between two checks for the new address.
const watchPause = 2 * time.Second

// pendingAddress is an address that the host is about to get.
type pendingAddress struct {
	Change
	Timeout time.Duration `json:"timeout"`
}

func comingFile(root string) string { return filepath.Join(node.ReaddressDir(root), comingName) }

// Schedule notes the address for the agent of this node, which changes the node's address when an interface has the new one.
func (r *Readdress) Schedule() error {
	text, err := json.Marshal(pendingAddress{Change: r.Change, Timeout: r.options.Timeout})
	if err != nil {
		return err
	}
	file := comingFile(r.options.Root)
	if err := files.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return files.WriteMode(file, 0o600, text)
}

// expected reads the address that a host is about to get. The error is fs.ErrNotExist if there is none.
func expected(root string) (c pendingAddress, err error) {
	text, err := regularfile.ReadFile(comingFile(root))
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("%s is damaged: %w; when the host has its address, run 'sealift node readdress' with it", comingFile(root), err)
	}
	return c, nil
}

// Expected returns the address that the host is about to get; "" if there is none.
func Expected(root string) (string, error) {
	c, err := expected(root)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return c.To.String(), nil
}

// Forget removes the note of an address that the host was about to get.
func Forget(root string) error { return files.Remove(comingFile(root)) }

// Watch waits until an interface has the expected address, and then changes that of the node, until ctx ends. A change that fails is
// not tried again.
func Watch(ctx context.Context, root string, log *slog.Logger) {
	var told poll.Told
	poll.Repeat(ctx, func(ctx context.Context) time.Duration {
		if err := applyPending(ctx, root, log); told.IsNew(ctx, err) { // an awaited one is retried at once
			log.Error("the address of this node was not changed", "error", err)
		}
		return watchPause
	})
}

// applyPending changes the address of the node if the host has the expected one.
func applyPending(ctx context.Context, root string, log *slog.Logger) (err error) {
	c, err := expected(root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return errors.Join(err, Forget(root))
	case !network.HasAddress(c.To.String()):
		return nil
	}
	if second, away := secondAway(root); away {
		return fmt.Errorf("this host has %s, and waits for %s, the second address of its node", c.To, second) // it may arrive a moment later
	}
	err = changeNow(ctx, Options{Scope: node.Scope{Root: root}, Timeout: c.Timeout}, c.To.String(), log)
	if errors.Is(err, lifecycle.ErrBusy) || ctx.Err() != nil {
		return nil //nolint:nilerr // later, or when the agent is started again
	}
	return errors.Join(err, Forget(root))
}

// secondAway reports whether the host lacks the second address of its node. An unfinished change continues without it.
func secondAway(root string) (second netip.Addr, away bool) {
	second, err := (host{root: root}).secondAddress()
	if err != nil || !second.IsValid() || network.HasAddress(second.String()) {
		return second, false
	}
	records, err := lifecycle.ReadJournal(node.StateDir(root))
	return second, err == nil && Interrupted(records) == ""
}

func changeNow(ctx context.Context, o Options, address string, log *slog.Logger) (err error) {
	r, err := Prepare(ctx, o, address)
	if errors.Is(err, ErrSame) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	log.Info("this host has its new address", "address", address, "log", r.LogFile())
	return r.Run(ctx, func(e lifecycle.Event) {
		if e.Outcome != lifecycle.Started && e.Outcome != lifecycle.Waiting {
			log.Info(e.Step.Title, "step", e.Step.ID, "outcome", e.Outcome)
		}
	})
}

// answerTime is how long a host may take to answer at an address.
const answerTime = time.Second

// refuseAnswering refuses an address that another host has: one that answers in a network of this host, or that can be connected to.
func (f facts) refuseAnswering(ctx context.Context, address netip.Addr) error {
	asked := map[string]bool{}
	for a, link := range f.own {
		if a.IsLoopback() || f.virtual(link) || asked[link] {
			continue
		}
		asked[link] = true
		if err := refuseClaimed(link, address); err != nil {
			return err
		}
	}
	for _, port := range []string{cluster.APIPort, "10250", "22"} {
		conn, err := (&net.Dialer{Timeout: answerTime}).DialContext(ctx, "tcp", net.JoinHostPort(address.String(), port))
		if err == nil {
			_ = conn.Close()
		}
		if err == nil || errors.Is(err, unix.ECONNREFUSED) {
			return fmt.Errorf("another host answers at %s, port %s", address, port)
		}
	}
	return nil
}
