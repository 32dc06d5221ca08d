package relocate_test

import (
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/spec"
)

func objectOf(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// override changes the Installer by words of a command line.
func override(words ...string) func(*spec.Installer) (*spec.Installer, error) {
	return func(i *spec.Installer) (*spec.Installer, error) {
		changed, _, err := i.Override(words...)
		return changed, err
	}
}
