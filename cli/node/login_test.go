package node

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/spec"
)

func TestIssuersAreListed(t *testing.T) {
	ca, err := os.ReadFile(filepath.Join(fixture.CA(t), "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	login := &spec.OIDC{Issuers: []spec.Issuer{{URL: "https://a.example", Audiences: []string{"kubernetes"}, CACertificate: string(ca)}, {URL: "https://b.example", Audiences: []string{"k"}}},
		Admins: []string{"oidc:platform"}, Viewers: []string{"oidc:staff"}}
	got := issuerEntries(login, time.Now())
	if len(got) != 2 || got[0].Subject != "oidc:platform=cluster-admin,oidc:staff=view" || got[0].End == nil || *got[0].Days < 0 || got[1].Issuer != "https://b.example" || got[1].End != nil {
		t.Errorf("%+v", got)
	}
	if got := issuerEntries(nil, time.Now()); len(got) != 0 {
		t.Errorf("without a login: %+v", got)
	}
}

func TestIssuerIsChosen(t *testing.T) {
	one := &spec.OIDC{Issuers: []spec.Issuer{{URL: "https://a.example"}}}
	two := &spec.OIDC{Issuers: []spec.Issuer{{URL: "https://a.example"}, {URL: "https://b.example"}}}
	for _, row := range []struct {
		of        *spec.OIDC
		url, want string
	}{{one, "", "https://a.example"}, {two, "https://b.example", "https://b.example"}, {two, "", ""}, {two, "https://c.example", ""}, {nil, "", ""}} {
		if got, err := chooseIssuer(row.of, row.url); got.URL != row.want || (err == nil) != (row.want != "") {
			t.Errorf("%+v, %q: %v, %v", row.of, row.url, got, err)
		}
	}
}
