package channel

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/sealift/sealift/kube"
	"github.com/sealift/sealift/kube/reconcile"
)

const (
	// DefaultListen is where a loop reports whether it is ready (K-33).
	DefaultListen = "127.0.0.1:3986"
	// firstRetry is the pause until a pass has succeeded for the first time: the cluster may be coming up.
	firstRetry = 5 * time.Second
)

// Loop repeats a pass until its context ends (K-33).
type Loop struct {
	Interval time.Duration
	Listen   string // where /readyz is served; empty is DefaultListen
	// Listening gets the URL of /readyz once it is served.
	Listening func(url string)
	Log       *slog.Logger // gets each failure; nil is silence

	firstRetry time.Duration // tests shorten it
}

// Run serves /readyz, which is 200 after a pass that succeeded and 503 before the first and after one that failed. It
// returns nil when ctx ends.
func (l Loop) Run(ctx context.Context, pass func(context.Context) error) error {
	log := cmp.Or(l.Log, slog.New(slog.DiscardHandler))
	succeeded := false
	return reconcile.Loop{
		Keys: []kube.Ref{{Kind: "Channel"}}, Listen: cmp.Or(l.Listen, DefaultListen), Listening: l.Listening,
		Reconcile: func(ctx context.Context, _ kube.Ref) (again time.Duration, err error) {
			err = pass(ctx)
			if succeeded = succeeded || err == nil; !succeeded {
				return cmp.Or(l.firstRetry, firstRetry), err
			}
			return l.Interval, err
		},
		Failed: func(ctx context.Context, _ kube.Ref, again time.Duration, err error) {
			log.ErrorContext(ctx, "the pass failed", "error", err, "again", again)
		},
	}.Run(ctx)
}
