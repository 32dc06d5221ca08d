package webhook

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sealift/sealift/operator/binding"
)

// TestFailurePolicyDecidesForHookWithoutTime: a hook that cannot answer in time gives no answer at once. It does not refuse.
func TestFailurePolicyDecidesForHookWithoutTime(t *testing.T) {
	s := New(t.Context(), Options{})
	r, err := route([]Hook{{
		Name: "hook.sh", Config: &binding.Config{Validating: []binding.Admission{{Common: binding.Common{Name: "a.b.c"}, Timeout: 30}}},
		Run: func(ctx context.Context, _ binding.Context) ([]byte, error) {
			return nil, fmt.Errorf("%w: its rate", ErrNoTime)
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.routes.Store(r)
	code, body := s.admission.review(t, "/hooks/a.b.c", "application/json", strings.NewReader(`{"request":{"uid":"u"}}`))
	if code != http.StatusGatewayTimeout || !strings.Contains(body, "the hook did not answer in time") {
		t.Errorf("%d %s", code, body)
	}
}
