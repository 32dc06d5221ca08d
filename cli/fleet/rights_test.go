package fleet_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/fleet"
	"github.com/sealift/sealift/kube/render"
)

// TestRightsOfHubArePrinted shows that kubectl can apply what the hub prints, and that the flags are in it.
func TestRightsOfHubArePrinted(t *testing.T) {
	var out bytes.Buffer
	args := []string{"hub", "--print-rbac", "--namespace", "ops", "--chart-namespace", "charts", "--secret-namespace", "keys", "--signer", "example.com/x"}
	if code := app.Run(t.Context(), "fleet", fleet.Command, args, strings.NewReader(""), &out, io.Discard); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	objects, err := render.Decode(strings.NewReader(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range objects {
		if _, has := o.Object["rules"]; strings.HasSuffix(o.GetKind(), "Role") && has == (o.Object["aggregationRule"] != nil) {
			t.Errorf("%s: an aggregated role must not have rules, which Kubernetes writes; each other one must: %t", o.GetName(), has)
		}
		got = append(got, o.GetKind()+" "+strings.Trim(o.GetNamespace()+"/"+o.GetName(), "/"))
	}
	want := "Namespace ops, ServiceAccount ops/sealift-fleet-hub, ClusterRole sealift-fleet-hub, ClusterRoleBinding sealift-fleet-hub, " +
		"ClusterRole sealift-fleet-hub-more, ClusterRoleBinding sealift-fleet-hub-more, Role charts/sealift-fleet-hub, RoleBinding charts/sealift-fleet-hub, " +
		"Role keys/sealift-fleet-hub, RoleBinding keys/sealift-fleet-hub, Role ops/sealift-fleet-hub, RoleBinding ops/sealift-fleet-hub"
	if strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
	if !strings.Contains(out.String(), "example.com/x") || strings.Contains(out.String(), "creationTimestamp") {
		t.Error(out.String())
	}
}
