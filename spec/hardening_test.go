package spec_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sealift/sealift/spec"
)

func TestStrictIsTheOnlyHardening(t *testing.T) {
	const head = "apiVersion: sealift.dev/v1\nkind: Installer\nspec:\n  kubernetes: {version: 1.37.2, hardening: "
	for value, refused := range map[string]bool{"strict": false, "Strict": true, "true": true, "lax": true, "[strict]": true, "null": false} {
		_, err := spec.Parse("installer.yaml", strings.NewReader(head+value+"}\n"))
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "installer.yaml:4:44: error: kubernetes.hardening must be strict") {
			t.Errorf("%s: %v", value, err)
		}
	}
	i, err := spec.Parse("installer.yaml", strings.NewReader(head+"strict}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := i.Override("kubernetes.hardening=lax"); err == nil || !strings.Contains(err.Error(), `"lax" is not strict`) {
		t.Errorf("a word: %v", err)
	}
	changed, _, err := i.Override("kubernetes.encryptSecrets=false", "kubernetes.hardening=strict")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []spec.Variable{{Name: "KUBERNETES_HARDENING", Value: "strict"}, {Name: "KUBERNETES_ENCRYPT_SECRETS", Value: "0"}} {
		if !slices.Contains(changed.Variables(), want) {
			t.Errorf("no %v", want)
		}
	}
	if slices.Contains(i.Variables(), spec.Variable{Name: "KUBERNETES_ENCRYPT_SECRETS", Value: "0"}) {
		t.Error("an option that is absent has the value of one that is off")
	}
}
