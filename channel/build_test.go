package channel

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/kube/render"
)

func TestAddedLabelsKeepTheOthers(t *testing.T) {
	for labels, row := range map[string]struct {
		want map[string]string
		err  string
	}{
		"{app: a}":                 {map[string]string{"app": "a", "own": "x"}, ""},
		"{app: a, own: x}":         {map[string]string{"app": "a", "own": "x"}, ""},
		"{app: a, own: its}":       {map[string]string{"app": "a", "own": "its"}, `ConfigMap a: label "own" already set to "its" while it should be "x"`},
		"{app: '1', version: 1.1}": {nil, "ConfigMap a: metadata.labels.version is a float64, not a string: quote it"},
	} {
		objs, err := render.Decode(strings.NewReader("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: " + labels + "}\n"))
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		if err := addLabels(objs[0], map[string]string{"own": "x"}); err != nil {
			said = err.Error()
		}
		if diff := cmp.Diff(row.want, objs[0].GetLabels()); diff != "" || said != row.err {
			t.Errorf("%s: %q, want %q %s", labels, said, row.err, diff)
		}
	}
}
