package relocate_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/installer/install/relocate"
)

// TestUnreachableClusterIsNotWaitedFor names a server at whose address nobody listens.
func TestUnreachableClusterIsNotWaitedFor(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := &rest.Config{Host: "https://" + l.Addr().String()}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func(context.Context) error{
		"list": func(ctx context.Context) error { _, err := relocate.List(ctx, config); return err },
		"remove": func(ctx context.Context) error {
			_, err := relocate.PrepareRemoval(ctx, config, relocate.RemovalOptions{Names: []string{"hello"}})
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		if err := call(ctx); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%s: %v (%v)", name, err, ctx.Err())
		}
		cancel()
	}
}
