package channel

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestIndexOfRegistryIsRefused: no channel could read the packages that it would name.
func TestIndexOfRegistryIsRefused(t *testing.T) {
	for _, absolute := range []bool{false, true} {
		err := commands{}.channelIndex(t.Context(), channelIndexOptions{store: "oci://registry.example/packages", absolute: absolute})
		if err == nil || !strings.Contains(err.Error(), "channels read no packages of a container registry") {
			t.Errorf("absolute %t: %v", absolute, err)
		}
	}
}

func TestFlagsOfKopsAreKnown(t *testing.T) {
	for _, tt := range []struct{ args, rest, notes string }{
		{"apply channel s3://b/a.yaml --v=4 --yes", "apply channel s3://b/a.yaml --yes", ""},
		{"apply channel a -v=4 --logtostderr --yes", "apply channel a --yes", ""},
		{"-v 4 get addons -v4 --logtostderr=true --alsologtostderr", "get addons", ""},
		{"-v get addons", "-v get addons", ""},
		{"apply channel --config x -f y", "apply channel -f y", "--config is ignored"},
		{"apply channel --config=x -f y --", "apply channel -f y --", "--config is ignored"},
		{"apply --node-name n --node-labels a=b,c=d channel", "apply channel", "--node-name is ignored --node-labels is ignored"},
		{"apply channel -- --v=4", "apply channel -- --v=4", ""},
	} {
		rest, notes := withoutKopsFlags(strings.Fields(tt.args))
		for i := range notes {
			notes[i], _, _ = strings.Cut(notes[i], ":")
		}
		if diff := cmp.Diff([]string{tt.rest, tt.notes}, []string{strings.Join(rest, " "), strings.Join(notes, " ")}); diff != "" {
			t.Errorf("%s: %s", tt.args, diff)
		}
	}
}
