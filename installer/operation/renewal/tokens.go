package renewal

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/internal/poll"
)

// tokenPause is the time between two checks of the tokens of pods. Until then, their programs fail.
const tokenPause = time.Minute

// leeway is how long before a token begins an API server accepts it.
const leeway = time.Minute

// podVolumes matches the link that the kubelet replaces when it has written the token of a pod's service account. Other files of
// projected volumes have such a link, too.
const podVolumes = "/var/lib/kubelet/pods/*/volumes/kubernetes.io~projected/*/..data"

// TokenKeeper makes the kubelet replace the tokens of pods that it got while the clock of the host was ahead. API servers refuse a token that
// begins later than now, and the kubelet keeps one in its memory until its end. NewTokenKeeper makes one for this host.
type TokenKeeper struct {
	Log *slog.Logger
	Now func() time.Time
	// Volumes is the pattern of links that are as old as the tokens.
	Volumes string
	// Restart restarts the kubelet, so that it forgets the tokens.
	Restart func(context.Context) error

	replaced time.Time // when the newest token was written that a restart has replaced
}

// NewTokenKeeper makes a TokenKeeper for this host.
func NewTokenKeeper(log *slog.Logger) *TokenKeeper {
	restart := func(ctx context.Context) error { return command.TryRestart(ctx, io.Discard, "kubelet") }
	return &TokenKeeper{Log: log, Now: time.Now, Volumes: podVolumes, Restart: restart}
}

// Run checks the tokens at once and then periodically, until ctx ends.
func (k *TokenKeeper) Run(ctx context.Context) {
	poll.Repeat(ctx, func(ctx context.Context) time.Duration {
		if err := k.Pass(ctx); err != nil && ctx.Err() == nil {
			k.Log.Warn("the tokens of pods on this node were not replaced", "error", err, "again in", tokenPause)
		}
		return tokenPause
	})
}

// Pass restarts the kubelet once for tokens that were written later than now. A token of an API server whose own clock is ahead is not among
// them: the kubelet writes it now.
func (k *TokenKeeper) Pass(ctx context.Context) error {
	written, err := newest(k.Volumes)
	if err != nil {
		return err
	}
	now := k.Now().Round(0) // the links have no monotonic time
	if !written.After(now.Add(leeway)) || written.Equal(k.replaced) {
		return nil
	}
	k.Log.Warn("the clock of this host was set back, and API servers refuse tokens that pods got before; restarting the kubelet, which gets others",
		"now", now.UTC().Format(time.RFC3339), "newest token", written.UTC().Format(time.RFC3339))
	if err := k.Restart(ctx); err != nil {
		return err
	}
	k.replaced = written
	return nil
}

// newest returns when the last of the links that match a pattern was made. It is the zero time if there are none.
func newest(pattern string) (last time.Time, err error) {
	links, err := filepath.Glob(pattern)
	if err != nil {
		return last, err
	}
	for _, link := range links {
		info, err := os.Lstat(link)
		if err != nil || info.Mode().Type() != fs.ModeSymlink { // its pod has ended
			continue
		}
		if made := info.ModTime(); made.After(last) {
			last = made
		}
	}
	return last, nil
}
