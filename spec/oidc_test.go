package spec_test

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sealift/sealift/spec"
)

// oidcDocument is an Installer with kubernetes.oidc, whose lines are indented by six blanks.
func oidcDocument(lines string) string {
	return document("  kubernetes:\n    version: 1.36.3\n    oidc:\n" + lines)
}

const oidcIssuer = "      issuers:\n      - url: https://login.example.org/realms/site\n        audiences: [kubernetes]\n"

func TestOIDCHasDefaultClaims(t *testing.T) {
	i, err := spec.Parse("i", strings.NewReader(oidcDocument(oidcIssuer+"      admins: [\"oidc:platform\"]\n      viewers: [\"oidc:staff\"]\n")))
	if err != nil {
		t.Fatal(err)
	}
	o, err := i.OIDC()
	if err != nil {
		t.Fatal(err)
	}
	want := spec.Claims{Username: "sub", UsernamePrefix: "oidc:", Groups: "groups", GroupsPrefix: "oidc:"}
	if o.Issuers[0].Claims != want || o.Admins[0] != "oidc:platform" || o.Viewers[0] != "oidc:staff" || o.Operators != nil {
		t.Errorf("read as %+v", o)
	}
	without, err := spec.Parse("i", strings.NewReader(document("  kubernetes: {version: 1.36.3, oidc: null}\n")))
	if err != nil {
		t.Fatal(err)
	}
	if o, err := without.OIDC(); o != nil || err != nil {
		t.Errorf("without it: %+v, %v", o, err)
	}
}

// An empty prefix is a decision, and not the default.
func TestOIDCKeepsEmptyPrefix(t *testing.T) {
	i, err := spec.Parse("i", strings.NewReader(oidcDocument(oidcIssuer+"        claims: {username: email, usernamePrefix: \"\", groupsPrefix: \"site:\"}\n")))
	if err != nil {
		t.Fatal(err)
	}
	o, err := i.OIDC()
	if want := (spec.Claims{Username: "email", Groups: "groups", GroupsPrefix: "site:"}); err != nil || o.Issuers[0].Claims != want {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestOIDCMistakesAreNamedByTheirPath(t *testing.T) {
	s := schema(t)
	for name, row := range map[string]struct {
		lines  string
		path   string
		schema bool // refuses it, too
	}{
		"no issuer":           {"      admins: [a]\n", "kubernetes.oidc.issuers must have", true},
		"a plain URL":         {"      issuers: [{url: http://login.example.org, audiences: [k]}]\n", "kubernetes.oidc.issuers[0].url is", true},
		"a user in the URL":   {"      issuers: [{url: \"https://a:b@login.example.org\", audiences: [k]}]\n", "kubernetes.oidc.issuers[0].url is", false},
		"a query":             {"      issuers: [{url: \"https://login.example.org?x=1\", audiences: [k]}]\n", "kubernetes.oidc.issuers[0].url is", true},
		"no host":             {"      issuers: [{url: \"https://\", audiences: [k]}]\n", "kubernetes.oidc.issuers[0].url is", true},
		"the cluster itself":  {"      issuers: [{url: https://kubernetes.default.svc.cluster.local, audiences: [k]}]\n", "kubernetes.oidc.issuers[0].url is", false},
		"no audience":         {"      issuers: [{url: https://login.example.org}]\n", "kubernetes.oidc.issuers[0].audiences must", true},
		"an audience twice":   {"      issuers: [{url: https://login.example.org, audiences: [k, k]}]\n", "kubernetes.oidc.issuers[0].audiences[1] is", false},
		"an issuer twice":     {"      issuers: [{url: https://a.example, audiences: [k]}, {url: https://a.example, audiences: [k]}]\n", "kubernetes.oidc.issuers[1].url is", false},
		"a CA that is text":   {"      issuers: [{url: https://a.example, audiences: [k], caCertificate: x}]\n", "kubernetes.oidc.issuers[0].caCertificate ", false},
		"a relative file":     {"      issuers: [{url: https://a.example, audiences: [k], caFile: ca.pem}]\n", "kubernetes.oidc.issuers[0].caFile must", false},
		"a misspelled claim":  {"      issuers: [{url: https://a.example, audiences: [k], claims: {usrname: x}}]\n", "kubernetes.oidc.issuers[0].claims.usrname is not known (did you mean \"username\"?)", true},
		"an empty claim":      {"      issuers: [{url: https://a.example, audiences: [k], claims: {groups: \"\"}}]\n", "kubernetes.oidc.issuers[0].claims.groups must", false},
		"a prefix of nodes":   {"      issuers: [{url: https://a.example, audiences: [k], claims: {usernamePrefix: \"system:\"}}]\n", "kubernetes.oidc.issuers[0].claims.usernamePrefix is", false},
		"the masters":         {oidcIssuer + "      admins: [\"system:masters\"]\n", "kubernetes.oidc.admins[0] is", false},
		"kubeadm's admins":    {oidcIssuer + "      admins: [\"kubeadm:cluster-admins\"]\n", "kubernetes.oidc.admins[0] is", false},
		"everybody":           {oidcIssuer + "      viewers: [\"system:authenticated\"]\n", "kubernetes.oidc.viewers[0] is", false},
		"a group unseen":      {oidcIssuer + "      viewers: [\"a\\u202eb\"]\n", "kubernetes.oidc.viewers[0] must", false},
		"a word for a list":   {oidcIssuer + "      viewers: staff\n", "kubernetes.oidc.viewers must be a list", true},
		"a word that is none": {oidcIssuer + "      admin: [a]\n", "kubernetes.oidc.admin is not known (did you mean \"admins\"?)", true},
	} {
		t.Run(name, func(t *testing.T) {
			text := oidcDocument(row.lines)
			if _, err := spec.Parse("i", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), row.path) {
				t.Errorf("Parse says %v instead of %s", err, row.path)
			}
			var value any
			if err := yaml.Unmarshal([]byte(text), &value); err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(value); (err != nil) != row.schema {
				t.Errorf("the schema says %v", err)
			}
		})
	}
}

func FuzzOIDC(f *testing.F) {
	f.Add(oidcIssuer)
	f.Add("      issuers: [{url: https://[::1]:8443/x, audiences: [k], claims: {}}]\n      viewers: [a]\n")
	f.Fuzz(func(t *testing.T, lines string) {
		i, err := spec.Parse("i", strings.NewReader(oidcDocument(lines)))
		if err != nil {
			return
		}
		o, err := i.OIDC()
		if err != nil {
			t.Fatalf("Parse accepted it, and then %v", err)
		}
		if o == nil {
			return
		}
		for _, issuer := range o.Issuers {
			if !strings.HasPrefix(issuer.URL, "https://") || len(issuer.Audiences) == 0 || issuer.Claims.Username == "" {
				t.Errorf("accepted %+v", issuer)
			}
		}
	})
}
