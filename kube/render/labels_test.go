package render_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/kube/render"
)

func TestLabelsAreText(t *testing.T) {
	for labels, row := range map[string]struct {
		want map[string]string
		err  string
	}{
		"":                          {want: map[string]string{}},
		"null":                      {want: map[string]string{}},
		"{app: a, version: '1.10'}": {want: map[string]string{"app": "a", "version": "1.10"}},
		"{app: a, version: }":       {want: map[string]string{"app": "a", "version": ""}},
		"{app: a, version: 1.10}":   {err: "metadata.labels.version is a float64, not a string: quote it"},
		"{app: a, on-call: yes}":    {err: "metadata.labels.on-call is a bool, not a string: quote it"},
		"[a]":                       {err: "metadata.labels is a []interface {}, not a mapping"},
	} {
		objs, err := render.Decode(strings.NewReader("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: " + labels + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := render.Labels(objs[0])
		said := ""
		if err != nil {
			said = err.Error()
		}
		if diff := cmp.Diff(row.want, got); diff != "" || said != row.err {
			t.Errorf("%s: %q, want %q %s", labels, said, row.err, diff)
		}
	}
}
