package identity_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/installer/cluster/identity"
)

// TestSecurityPageHasMatrix compares the table of docs/security.md with the code. An administrator proves nothing to the share, the
// agent and the approver by its rights in the API.
func TestSecurityPageHasMatrix(t *testing.T) {
	var want strings.Builder
	want.WriteString("| right |")
	for _, p := range identity.Parties() {
		want.WriteString(" " + string(p) + " |")
	}
	want.WriteString("\n|---|" + strings.Repeat("---|", len(identity.Parties())) + "\n")
	for _, r := range identity.Rights() {
		want.WriteString("| " + string(r) + " |")
		for _, p := range identity.Parties() {
			want.WriteString(map[bool]string{true: " yes |", false: " – |"}[p.Has(r)])
		}
		want.WriteString("\n")
	}
	page, err := os.ReadFile("../../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "<!-- matrix -->\n")
	table, _, _ = strings.Cut(table, "<!-- end of matrix -->")
	if diff := cmp.Diff(want.String(), table); diff != "" {
		t.Errorf("docs/security.md (-code +page)\n%s", diff)
	}
}
