package channel

import (
	"log/slog"
	"os"
	"path/filepath"
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

// TestObjectIsKnownWithoutItsNamespace has a manifest that names one object with and without its namespace, and one that leaves it out.
func TestObjectIsKnownWithoutItsNamespace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.yaml")
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\ndata: {value: first}\n---\n" +
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {value: last}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: other}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	names, other := Entry{Name: "names", Namespace: DefaultNamespace, Location: file}, Entry{Name: "other", Namespace: DefaultNamespace}
	log := slog.New(slog.DiscardHandler)
	p := newPass(&Cluster{log: log}, Source{Log: log}, Plan{Addons: []Decision{{Entry: names}, {Entry: other}}}, ApplyOptions{})
	objs, err := p.objects(t.Context(), p.addons[0])
	if err != nil || len(objs) != 2 || objs[0].GetNamespace() != "" || objs[1].GetNamespace() != "other" {
		t.Errorf("%v, %v", objs, err)
	}
	for namespace, kept := range map[string]bool{"default": true, "other": true, "third": false} {
		ref := kube.Ref{Version: "v1", Kind: "ConfigMap", Namespace: namespace, Name: "a"}
		if why := p.spare(t.Context(), p.addons[1], ref); (why != "") != kept {
			t.Errorf("%s: %q", namespace, why)
		}
	}
}
