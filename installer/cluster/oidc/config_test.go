package oidc_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"

	"github.com/sealift/sealift/installer/cluster/oidc"
	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/spec"
)

func otherCA(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(fixture.CA(t), "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAcceptedLoginsStartAnAPIServer: an API server does not start with a file that its own validation refuses.
func TestAcceptedLoginsStartAnAPIServer(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder()
	issuers := []any{
		map[string]any{"url": "https://a.example", "audiences": []any{"k"}},
		map[string]any{"url": "https://[::1]:8443/x/", "audiences": []any{"k", "l m"}, "caCertificate": otherCA(t)},
		map[string]any{"url": "https://b.example/%20y", "audiences": []any{"ключ"}, "claims": map[string]any{"username": "https://x/claim", "groups": "a.b", "usernamePrefix": "", "groupsPrefix": "'\\"}},
		map[string]any{"url": "https://c.example", "audiences": []any{"k"}, "claims": map[string]any{"username": "email"}},
	}
	for _, list := range [][]any{issuers, nil} {
		var o *spec.OIDC
		var err error
		if list != nil {
			if o, err = spec.ReadOIDC(map[string]any{"issuers": list}); err != nil {
				t.Fatal(err)
			}
		}
		text, err := oidc.Encode(o)
		if err != nil {
			t.Fatal(err)
		}
		object, err := runtime.Decode(decoder, text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		compiler := authenticationcel.NewDefaultCompiler()
		if wrong := validation.ValidateAuthenticationConfiguration(compiler, object.(*apiserver.AuthenticationConfiguration), nil); len(wrong) > 0 {
			t.Errorf("%v\n%s", wrong, text)
		}
		if again, err := oidc.Decode(text); err != nil || !reflect.DeepEqual(again, o) {
			t.Errorf("read as %+v, %v", again, err)
		}
	}
}

func TestFileOfCAIsCarried(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.pem")
	login := func() (*spec.OIDC, error) {
		return oidc.WithCA(&spec.OIDC{Issuers: []spec.Issuer{{URL: "https://a.example", Audiences: []string{"k"}, CAFile: path, Claims: spec.Claims{Username: "sub", Groups: "groups"}}}})
	}
	if _, err := login(); err == nil || !strings.Contains(err.Error(), "kubernetes.oidc.issuers[0].caFile") {
		t.Errorf("no file: %v", err)
	}
	writeFile(t, path, "text")
	if _, err := login(); err == nil || !strings.Contains(err.Error(), "kubernetes.oidc.issuers[0].caCertificate") {
		t.Errorf("a file with text: %v", err)
	}
	writeFile(t, path, otherCA(t))
	if o, err := login(); err != nil || o.Issuers[0].CACertificate != otherCAText(t, path) || o.Issuers[0].CAFile != "" {
		t.Errorf("%+v, %v", o, err)
	}
}

func otherCAText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
