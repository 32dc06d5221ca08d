package server

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// makingTime is how long a request waits for lean layers or patches to be made. Proxies before a server often allow a minute.
const makingTime = 40 * time.Second

// compressing is the answer while lean layers are made. Clients try again.
func compressing() *Problem {
	p := problem(http.StatusServiceUnavailable, "the server is compressing the layers of packages; send the request again in a few seconds")
	p.retryAfter = 5
	return p
}

// wants reports whether a request asks for something by name: ?lean, or ?lean=true.
func wants(query url.Values, name string) (bool, error) {
	if !query.Has(name) || query.Get(name) == "" {
		return query.Has(name), nil
	}
	wanted, err := strconv.ParseBool(query.Get(name))
	if err != nil {
		return false, problem(http.StatusBadRequest, name+" must be true or false")
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
	q.lean, q.patch, q.since = false, false, ""
	ctx, cancel := context.WithTimeoutCause(ctx, makingTime, compressing())
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
