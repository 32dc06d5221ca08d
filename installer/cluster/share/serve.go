package share

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

const (
	headerTime = time.Minute
	bodyTime   = time.Minute // for a list of digests
	idleTime   = 2 * time.Minute
	closeTime  = 10 * time.Second
	maxHeader  = 32 << 10 // bytes; maxConnections counts with it
)

// Serve answers until ctx ends. Answers that are under way then have some seconds to end.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader}
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		ended <- server.Shutdown(closing)
	})
	err := server.Serve(l)
	if stop() || !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended
}
