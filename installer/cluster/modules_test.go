package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/internal/testing/controlplane"
)

// TestModuleOptionsKeepEdits configures modules repeatedly, with edits in between.
func TestModuleOptionsKeepEdits(t *testing.T) {
	t.Parallel()
	client, err := kubernetes.NewForConfig(controlplane.ForTest(t))
	if err != nil {
		t.Fatal(err)
	}
	configMaps := client.CoreV1().ConfigMaps("addon-operator")
	var said bytes.Buffer
	configure := func(sections map[string]any) *corev1.ConfigMap {
		t.Helper()
		said.Reset()
		if err := configureModules(t.Context(), client, "addon-operator", Modules{"addon-operator", sections}, &said); err != nil {
			t.Fatal(err)
		}
		live, err := configMaps.Get(t.Context(), "addon-operator", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return live
	}
	want := func(what string, live *corev1.ConfigMap, data map[string]string) {
		t.Helper()
		if diff := cmp.Diff(data, live.Data); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	releasesStay(t, client)
	hello := map[string]any{"helloEnabled": true, "hello": map[string]any{"greeting": "moin", "size": 3}}
	first := configure(hello)
	want("first", first, map[string]string{"helloEnabled": "true\n", "hello": "greeting: moin\nsize: 3\n"})
	if again := configure(hello); again.ResourceVersion != first.ResourceVersion {
		t.Error("the same options are written twice")
	}

	first.Data["hello"] = "# ours\ngreeting: servus\nsize: 3\n"
	first.Data["helloEnabled"] = "false"
	if _, err := configMaps.Update(t.Context(), first, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	edited := map[string]string{"helloEnabled": "false", "hello": "# ours\ngreeting: servus\nsize: 3\n"}
	want("again, after an edit", configure(hello), edited)
	if text := said.String(); text != "key hello of ConfigMap addon-operator keeps an edit that differs from the Installer\n"+
		"key helloEnabled of ConfigMap addon-operator keeps an edit that differs from the Installer\n" {
		t.Errorf("said %q", text)
	}
	want("other options", configure(map[string]any{"helloEnabled": true, "hello": map[string]any{"greeting": "hallo", "size": 4}}),
		map[string]string{"helloEnabled": "false", "hello": "greeting: servus\nsize: 4\n"})
	want("the module is gone", configure(map[string]any{"otherEnabled": true}),
		map[string]string{"otherEnabled": "true\n", "helloEnabled": "false", "hello": "greeting: servus\n"})

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := configureModules(ctx, client, "addon-operator", Modules{ConfigMap: "addon-operator"}, &said); err == nil {
		t.Error("an API server that does not answer is not an error")
	}
}

// releasesStay has a namespace with releases of a foreign operator: of a module of the bundle, and of another one.
func releasesStay(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	const own = "own"
	sections := map[string]any{"myWebEnabled": true}
	configure := func() error {
		modules := Modules{"addon-operator", sections}
		if err := refuseStrangers(t.Context(), client, own, modules); err != nil {
			return err
		}
		return configureModules(t.Context(), client, own, modules, io.Discard)
	}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: own}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	secrets := client.CoreV1().Secrets(own)
	for _, release := range []string{"my-web", "monitoring"} {
		revision := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "sh.helm.release.v1." + release + ".v1", Labels: map[string]string{"owner": "helm", "name": release}}}
		if _, err := secrets.Create(t.Context(), revision, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := configure(); err == nil || !strings.Contains(err.Error(), "uninstall them: monitoring; ") {
		t.Errorf("a release that the operator would uninstall: %v", err)
	}
	if _, err := client.CoreV1().ConfigMaps(own).Get(t.Context(), "addon-operator", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("something was written: %v", err)
	}
	sections["monitoringEnabled"] = true
	if err := configure(); err != nil {
		t.Error("a release of each module:", err)
	}
	delete(sections, "monitoringEnabled")
	if err := configure(); err != nil {
		t.Error("a module that the bundle no longer has:", err)
	}
}

func TestEditsOverrideInstaller(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ before, now, has, want string }{
		"nothing before":                {"", `{"a":1}`, "", `{"a":1}`},
		"made by somebody else":         {"", `{"a":1,"b":2}`, `{"a":3}`, `{"a":3,"b":2}`},
		"taken away by somebody else":   {`{"a":1}`, `{"a":1}`, "", ""},
		"one option taken away":         {`{"a":1,"b":2}`, `{"a":1,"b":3}`, `{"b":2}`, `{"b":3}`},
		"deeper":                        {`{"a":{"b":1,"c":1}}`, `{"a":{"b":2,"c":2}}`, `{"a":{"b":1,"c":5,"d":6}}`, `{"a":{"b":2,"c":5,"d":6}}`},
		"a list is one value":           {`{"a":[1]}`, `{"a":[2]}`, `{"a":[1,9]}`, `{"a":[1,9]}`},
		"another type":                  {`{"a":1}`, `{"a":{"b":1}}`, `{"a":"x"}`, `{"a":"x"}`},
		"no longer an option":           {`{"a":1,"b":2}`, `{"a":1}`, `{"a":1,"b":2}`, `{"a":1}`},
		"no longer, but with an edit":   {`{"a":1}`, "", `{"a":1,"b":2}`, `{"b":2}`},
		"no longer, all of it as given": {`{"a":1}`, "", `{"a":1}`, ""},
		"a flag that was changed":       {"true", "true", "false", "false"},
	} {
		t.Run(name, func(t *testing.T) {
			value := func(text string) (v any) {
				if text == "" {
					return nil
				}
				if err := json.Unmarshal([]byte(text), &v); err != nil {
					t.Fatal(err)
				}
				return v
			}
			if diff := cmp.Diff(value(row.want), keepEdits(value(row.before), value(row.now), value(row.has))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNonYAMLKeyIsKept(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	live := &corev1.ConfigMap{Data: map[string]string{"hello": "a: [", "other": "x: 1"}}
	data, err := configured(live, []byte(`{"hello":{"a":1},"otherEnabled":true}`), &said)
	if diff := cmp.Diff(map[string]string{"hello": "a: [", "other": "x: 1", "otherEnabled": "true\n"}, data); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if !bytes.Contains(said.Bytes(), []byte("key hello of ConfigMap  is not YAML")) {
		t.Error(said.String())
	}
	live.Data = map[string]string{"hello": "country: no\n"}
	data, err = configured(live, []byte(`{"hello":{"a":1}}`), &said)
	if diff := cmp.Diff(map[string]string{"hello": "a: 1\ncountry: \"no\"\n"}, data); err != nil || diff != "" {
		t.Errorf("a text that is a boolean in YAML 1.1: %v %s", err, diff)
	}
	live.Annotations = map[string]string{givenAnnotation: "{"}
	if _, err := configured(live, []byte(`{}`), &said); err == nil {
		t.Error("a damaged annotation is not an error")
	}
}
