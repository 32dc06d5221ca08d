package relocate

import (
	"slices"
	"testing"

	"github.com/sealift/sealift/registry"
)

// TestDigestsThatTheRegistryLacksAreFound has an image whose tag leads to some of its platforms, see registry.Image.Note.
func TestDigestsThatTheRegistryLacksAreFound(t *testing.T) {
	const whole, index, reduced = "sha256:aa", "sha256:bb", "sha256:cc"
	found := []registry.Image{{State: registry.Present, Digest: whole}, {State: registry.Present, Digest: reduced, Note: "the registry refuses the image's index"}}
	plan := []AddOn{{Images: []registry.Renamed{{To: "r/whole:1"}, {To: "r/whole@" + whole}, {To: "r/less:1"}}}, {Images: []registry.Renamed{{To: "r/less:1@" + index}}}}
	if got, want := unpullable(plan, found), []string{"r/less:1@" + index}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
