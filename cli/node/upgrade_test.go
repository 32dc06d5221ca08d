package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/operation/record"
)

func TestUpgradeStatusPrintsNewestUpgrade(t *testing.T) {
	client := fake.NewClientset()
	show := func(format string) string {
		t.Helper()
		var out bytes.Buffer
		if err := (commands{App: &app.App{Out: &out}}).showUpgrade(t.Context(), client, format); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	var document struct {
		Upgrade *struct{ From, To, Phase string }
		Paused  *bool
	}
	if err := json.Unmarshal([]byte(show("json")), &document); err != nil || document.Upgrade != nil || document.Paused == nil || *document.Paused {
		t.Errorf("without an upgrade: %+v, %v", document, err)
	}
	if got, want := show(""), "no upgrade was begun in this cluster\n"; got != want {
		t.Errorf("without an upgrade: %q, want %q", got, want)
	}
	if err := (record.Store{Client: client}).Change(t.Context(), func(all record.All) error {
		all[record.Upgrade] = record.Record{ID: "1", Kind: record.Upgrade, Leader: "node-1", Paused: true, Stage: "upgrade/workers", Params: json.RawMessage(`{"from":"1.36.3","to":"1.37.2"}`)}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(show("json")), &document); err != nil || document.Upgrade == nil || document.Upgrade.To != "1.37.2" || document.Upgrade.Phase != "nodes" || !*document.Paused {
		t.Errorf("with an upgrade: %+v, %v", document.Upgrade, err)
	}
	refused := errors.New("connection refused")
	client.PrependReactor("*", "*", func(kubetesting.Action) (bool, runtime.Object, error) { return true, nil, refused })
	if err := (commands{App: &app.App{Out: &bytes.Buffer{}}}).showUpgrade(t.Context(), client, "json"); !errors.Is(err, refused) {
		t.Errorf("without an API: %v", err)
	}
}
