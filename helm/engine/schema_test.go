package engine_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"

	"github.com/sealift/sealift/helm/engine"
)

// TestSchemasReadNothingElse has schemas that refer to other documents: of a server, and files. No template may ask either.
func TestSchemasReadNothingElse(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = io.WriteString(w, `{"definitions": {"x": {"type": "string"}}, "type": "string"}`)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "there.json")
	if err := os.WriteFile(file, []byte(`{"type": "string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	refers := func(to string) string {
		return fmt.Sprintf(`{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"other": {"$ref": %q}, "own": {"$ref": "#/definitions/number"},
			"named": {"$ref": "https://example.org/part#"}},
			"definitions": {"number": {"type": "integer"}, "part": {"$id": "https://example.org/part", "type": "integer"}}}`, to)
	}
	check := func(name, schema, values, want string) {
		t.Helper()
		_, err := render(t, values, map[string]string{"values.schema.json": schema})
		if text := fmt.Sprint(err); !strings.Contains(text, want) || want == "" && err != nil {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
	for _, to := range []string{
		server.URL + "/a.json", server.URL + "/a.json#/definitions/x", "file://" + file, "file:///gone.json", "other.json", "urn:unknown", "http://[::1",
	} {
		check(to, refers(to), "other: 1\nown: 1\nnamed: 1\n", "")
		check(to+", with a mistake", refers(to), "own: text\n", "/own")
		check(to+", with a mistake in a named part", refers(to), "named: text\n", "/named")
	}
	own := fmt.Sprintf(`{"$schema": %q}`, server.URL+"/draft.json")
	check("a draft of one's own", own, "own: 1\n", server.URL+"/draft.json")
	c := chartOf(nil)
	for schema, want := range map[string]string{refers(server.URL + "/b.json"): "", own: server.URL + "/draft.json"} {
		c.Schema = []byte(schema)
		in := top()
		in["Values"] = common.Values{"other": 1.0}
		if _, err := engine.Templates(t.Context(), "", c, in, nil); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", schema, err)
		}
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("the server was asked %d times", n)
	}
}
