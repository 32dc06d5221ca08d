package share

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// Undo is what control planes fetch that undo an upgrade together. The API does not answer meanwhile, so who may have it is decided by
// the certificate of a kubelet, and by the names in the order.
type Undo struct {
	Order []byte // see package undo
	Etcd  string // file with the snapshot of etcd
}

// The paths for control planes that undo an upgrade together.
const (
	orderPath = "/v1/undo"
	etcdPath  = "/v1/undo/etcd"
)

// ordered answers control planes that have an order.
func (s *Server) ordered(answer func(http.ResponseWriter, *http.Request, Undo) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := memberOf(r.TLS)
		if name == "" {
			http.Error(w, "this needs the certificate of a kubelet", http.StatusUnauthorized)
			return
		}
		u, err := s.Undo(name)
		if err == nil {
			err = answer(w, r, u)
		}
		s.refuse(w, r, err)
	}
}

func (s *Server) order(w http.ResponseWriter, _ *http.Request, u Undo) error {
	_, _ = w.Write(u.Order)
	return nil
}

func (s *Server) etcd(w http.ResponseWriter, r *http.Request, u Undo) error {
	f, err := os.Open(u.Etcd)
	if err != nil {
		return err
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, f)
	return nil
}

// maxOrder bounds an order.
const maxOrder = 1 << 20

// Order asks for the order of an undo. It is fs.ErrNotExist if there is none.
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
