package share

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/internal/httprange"
	"github.com/sealift/sealift/internal/regularfile"
)

// Undo is fetched by control planes that undo an upgrade together. The API does not answer during that, so the certificate of a
// control plane and the names in the order decide who may have it.
type Undo struct {
	Order []byte // see package undo
	Etcd  string // file with the snapshot of etcd
}

// The paths for control planes that undo an upgrade together.
const (
	orderPath = "/v1/undo"
	etcdPath  = "/v1/undo/etcd"
)

func (s *Server) order(w http.ResponseWriter, _ *http.Request, c client) error {
	u, err := s.Undo(c.node)
	if err == nil {
		_, _ = w.Write(u.Order)
	}
	return err
}

func (s *Server) etcd(w http.ResponseWriter, r *http.Request, c client) error {
	u, err := s.Undo(c.node)
	if err != nil {
		return err
	}
	f, err := regularfile.Open(u.Etcd)
	if err != nil {
		return err
	}
	defer f.Close()
	s.audit(slog.LevelInfo, "given out", r, identity.ReadUndo, c, nil)
	w.Header().Set("Content-Type", "application/octet-stream")
	httprange.Serve(w, r, time.Time{}, f)
	return nil
}

// maxOrder bounds an order.
const maxOrder = 1 << 20

// Order requests the joint undo. It is fs.ErrNotExist if there is none.
func (c *Client) Order(ctx context.Context) ([]byte, error) {
	return c.read(ctx, http.MethodGet, orderPath, nil, maxOrder)
}

// Etcd writes the snapshot of etcd that an order is about. The order has its digest.
func (c *Client) Etcd(ctx context.Context, w io.Writer) error {
	response, err := c.do(ctx, http.MethodGet, etcdPath, nil, "")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(w, response.Body); err != nil {
		return fmt.Errorf("the snapshot of etcd from %s: %w", c.address, err)
	}
	return nil
}
