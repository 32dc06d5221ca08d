package server

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// leanTime is how long a request waits for lean layers to be made. Proxies before a server often allow a minute.
const leanTime = 40 * time.Second

// compressing is the answer while lean layers are made. Clients try again.
func compressing() *Problem {
	p := problem(http.StatusServiceUnavailable, "the server is compressing the layers of packages; send the request again in a few seconds")
	p.retryAfter = 5
	return p
}

// wantsLean reports whether a request asks for lean layers: ?lean, or ?lean=true.
func wantsLean(query url.Values) (bool, error) {
	if !query.Has("lean") || query.Get("lean") == "" {
		return query.Has("lean"), nil
	}
	wanted, err := strconv.ParseBool(query.Get("lean"))
	if err != nil {
		return false, problem(http.StatusBadRequest, "lean must be true or false")
	}
	return wanted, nil
}

// compress makes the lean layers of a bundle that are not kept yet. It goes on when the client leaves, so that a later request finds
// them. It holds no slot: slots are for work of a moment.
func (p *plans) compress(ctx context.Context, q planKey) error {
	spool := p.server.options.Lean
	if spool == nil {
		return problem(http.StatusNotFound, "this server compresses no layers; request the bundle without lean")
	}
	q.lean, q.since = false, ""
	ctx, cancel := context.WithTimeoutCause(ctx, leanTime, compressing())
	defer cancel()
	_, err := share(ctx, &p.flight, "compress "+q.document.sum+" "+q.folder, func() (bool, error) {
		_, reader, err := p.open(p.ctx, q)
		if err != nil {
			return false, err
		}
		return true, errors.Join(reader.Compress(p.ctx, spool), reader.Close())
	})
	return err
}
