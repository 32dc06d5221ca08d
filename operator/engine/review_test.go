package engine_test

import (
	"context"
	"errors"
	"time"

	bindings "github.com/sealift/sealift/operator/binding"
	"github.com/sealift/sealift/operator/engine"
	"github.com/sealift/sealift/operator/webhook"
)

// testRateOfReviews: a review waits for its turn. One whose turn comes too late says so at once, instead of failing.
func testRateOfReviews(s *site) {
	const guard = "kubernetesValidating: [{name: guard.example.com, rules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}]"
	s.hook("slow.sh", "configVersion: v1\nsettings: {executionMinInterval: 1h}\n"+guard, `echo '{"allowed":true}' > $ADMISSION_RESPONSE_PATH`)
	s.hook("swift.sh", "configVersion: v1\nsettings: {executionMinInterval: 1s}\n"+guard, `echo '{"allowed":true}' > $ADMISSION_RESPONSE_PATH`)
	e, err := engine.Load(s.Context(), s.options())
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	for _, h := range e.Webhooks() {
		for n := range 2 {
			_, err := h.Run(ctx, bindings.Context{Type: bindings.OnValidating, Review: []byte(`{"request":{"uid":"u"}}`)})
			if late := h.Name == "slow.sh" && n == 1; errors.Is(err, webhook.ErrNoTime) != late || err != nil != late {
				s.Errorf("review %d of %s: %v", n+1, h.Name, err)
			}
		}
	}
	if err := ctx.Err(); err != nil {
		s.Errorf("the answer took a minute: %v", err)
	}
}
