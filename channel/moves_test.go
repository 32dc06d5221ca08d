package channel

import (
	"log/slog"
	"testing"

	"github.com/sealift/sealift/kube"
)

// TestUnreadManifestsDecideNothing: an object that may move up from a later add-on fails its new one.
func TestUnreadManifestsDecideNothing(t *testing.T) {
	upper, lower := Entry{Name: "upper", Namespace: DefaultNamespace}, Entry{Name: "lower", Namespace: DefaultNamespace}
	upper.Location, lower.Location = "/nowhere/upper.yaml", "/nowhere/lower.yaml"
	p := newPass(&Cluster{log: slog.New(slog.DiscardHandler)}, Source{}, Plan{Addons: []Decision{{Entry: upper}, {Entry: lower}}}, ApplyOptions{})
	ref := kube.Ref{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: "a"}
	if got := p.contest(t.Context(), p.addons[0], ref, setOf(lower)); got != kube.Refuse {
		t.Errorf("of the later one: verdict %d", got)
	}
	if got := p.contest(t.Context(), p.addons[1], ref, setOf(upper)); got != kube.Take {
		t.Errorf("of the earlier one: verdict %d", got)
	}
	if why := p.spare(t.Context(), p.addons[0], ref); why == "" {
		t.Error("it is pruned")
	}
}
