package push

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ggcr "github.com/google/go-containerregistry/pkg/registry"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/internal/testing/imagepackage"
	"github.com/sealift/sealift/registry"
)

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := Push(&app.App{In: strings.NewReader(""), Out: &out, Err: io.Discard, Log: slog.New(slog.DiscardHandler)})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestPushPrintsPlanAndWritesConfiguration(t *testing.T) {
	server := httptest.NewServer(ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	dir := t.TempDir()
	file, target, config := filepath.Join(dir, "app.tar.gz"), "oci://"+host+"/mirror", filepath.Join(dir, "config")
	imagepackage.Write(t, file, "registry.k8s.io/app:v1")

	out, err := run(t, file, target, "--plan")
	if err != nil || !strings.Contains(out, "registry.k8s.io/app:v1  missing") || !strings.Contains(out, "1 image of ") || !strings.Contains(out, ", 0 there already; ") || !strings.Contains(out, " to send") {
		t.Errorf("%s%v", out, err)
	}
	out, err = run(t, file, target, "--write-config", config)
	if err != nil || !strings.Contains(out, "pushed "+host+"/mirror/registry.k8s.io/app:v1\n") || !strings.Contains(out, " sent") || !strings.Contains(out, config) {
		t.Errorf("%s%v", out, err)
	}
	hosts, err := os.ReadFile(filepath.Join(config, "certs.d/registry.k8s.io/hosts.toml"))
	if err != nil || !strings.Contains(string(hosts), "http://"+host+"/v2/mirror/registry.k8s.io") {
		t.Errorf("%s, %v", hosts, err)
	}
	var s registry.Summary
	out, err = run(t, file, target, "-o", "json")
	if jsonErr := json.Unmarshal([]byte(out), &s); err != nil || jsonErr != nil || s.Send != 0 || s.Total == 0 || s.Images[0].State != registry.Present {
		t.Errorf("%s%v %v", out, err, jsonErr)
	}
	imagepackage.Write(t, file, "registry.k8s.io/app:v1") // another image
	out, err = run(t, file, target, "--plan")
	if err != nil || !strings.Contains(out, "registry.k8s.io/app:v1  replaced") || !strings.Contains(out, "led to something else before: "+s.Images[0].Digest) {
		t.Errorf("%s%v", out, err)
	}
	for want, args := range map[string][]string{
		"not the URL of a registry": {file, "https://" + host},
		"--parallel takes 1 to 32":  {file, target, "--parallel", "33"},
		"no such file":              {file + "x", target},
		"accepts 2 arg(s)":          {file},
	} {
		if _, err := run(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", args, err, want)
		}
	}
}
