package addon

import (
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// FuzzDecode reads ConfigMaps that anybody may have edited: an accepted one round-trips.
func FuzzDecode(f *testing.F) {
	f.Add("apiVersion: sealift.dev/v1\nname: a\nowner: installer\npolicy: OnChange\nset: sealift/a\n")
	f.Add("apiVersion: sealift.dev/v1\nname: a\nowner: channel kube-system/a\npolicy: Once\nset: x/a\nmoving: y/a\nreleased: installer\n" +
		"history: |\n  - {owner: installer, policy: Once, set: y/a, until: '2026-01-02T03:04:05Z'}\n")
	f.Add("apiVersion: sealift.dev/v1\nname: a\nowner: ' x'\npolicy: Once\nset: x/a\nhistory: '['\n")
	f.Add("apiVersion: sealift.dev/v1\nname: a\nowner: \"x \\t\"\npolicy: Once\nset: x/a\nhistory: |\n  - {policy: Once, set: y/a}\n")
	f.Fuzz(func(t *testing.T, text string) {
		var data map[string]string
		if yaml.Unmarshal([]byte(text), &data) != nil {
			return
		}
		r, err := decode(data)
		if err != nil {
			return
		}
		again, err := r.encode()
		if err != nil {
			return // a year of five digits has no form in RFC 3339
		}
		back, err := decode(again)
		if err != nil || !reflect.DeepEqual(r, back) {
			t.Fatalf("%+v became %+v: %v", r, back, err)
		}
	})
}

func TestObjectNamesAreValid(t *testing.T) {
	for addOn, want := range map[string]string{
		"flannel": "addon-flannel", "monitoring/prometheus": "addon-monitoring.prometheus", "Not_A_Name": "addon-", strings.Repeat("x", 300): "addon-",
	} {
		got := objectName(addOn)
		if got != want && (want != "addon-" || !strings.HasPrefix(got, want) || len(got) != len(want)+16) {
			t.Errorf("%s is kept as %s", addOn, got)
		}
	}
}
