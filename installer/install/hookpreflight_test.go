package install

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/preflight"
)

const askingAddOns = `
-- contour/1.0.0/Manifest --
-- contour/1.0.0/install.sh --
contour_preflights() {
    echo "$DIR/addons/contour/1.0.0/extra.yaml"
    render_yaml_file_2 "$DIR/addons/contour/1.0.0/tmpl.yaml" >kustomize/ports.yaml
    logWarn "this is not a path"
    echo kustomize/ports.yaml
}
-- contour/1.0.0/extra.yaml --
spec: {collectors: [{cpu: {}}]}
-- contour/1.0.0/tmpl.yaml --
spec: {collectors: [{tcpPortStatus: {port: $CONTOUR_HTTP_PORT}}]}
-- minio/1.0.0/Manifest --
-- minio/1.0.0/install.sh --
minio_preflights() {
    [ -d /no/such/folder ] || bail "/no/such/folder is wanted for $MINIO_HOSTPATH"
}
-- openebs/1.0.0/Manifest --
-- openebs/1.0.0/install.sh --
openebs_preflights() {
    load_images "$DIR/addons/openebs/1.0.0/images"
}
-- velero/1.0.0/Manifest --
-- velero/1.0.0/install.sh --
velero_preflights() { echo all is well; }
-- goldpinger/1.0.0/Manifest --
-- goldpinger/1.0.0/install.sh --
goldpinger() { :; }
`

func TestCheckHooksRunBeforeFirstChange(t *testing.T) {
	short.AsRoot(t, "an install")
	text := writeSpec(t, map[string]map[string]any{
		"contour": {"version": "1.0.0", "httpPort": 8080}, "minio": {"version": "1.0.0", "hostPath": "/data"}, "openebs": {"version": "1.0.0"},
		"velero": {"version": "1.0.0"}, "goldpinger": {"version": "1.0.0"},
	})
	i, err := prepare(t, kurlBundle(t, text, txtar.Parse([]byte(askingAddOns)).Files), text)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = i.Close() }()
	specs, said, err := i.askHooks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(specs) != 2 || !strings.Contains(string(specs[0].Text), "cpu") || !strings.Contains(string(specs[1].Text), "port: 8080") || specs[1].Name != "contour" {
		t.Errorf("the specifications are %+v", specs)
	}
	wants := map[string]string{
		"contour: contour_preflights": "this is not a path",
		"minio: minio_preflights":     "/no/such/folder is wanted for /data",
		"openebs: openebs_preflights": "hooks cannot ask for load-images",
		"velero: velero_preflights":   "is to print the paths of specifications alone",
	}
	for _, r := range said {
		status := preflight.Fail
		if r.Check == "contour: contour_preflights" {
			status = preflight.Warn
		}
		if want := wants[r.Check]; want == "" || r.Status != status || !strings.Contains(r.Message, want) {
			t.Errorf("%+v, want %q", r, want)
		}
		delete(wants, r.Check)
	}
	if len(wants) > 0 {
		t.Errorf("not among the answers: %v", wants)
	}
	if left, err := os.ReadDir(i.options.Root); err != nil || len(left) > 0 {
		t.Errorf("the checks left %v, %v", left, err)
	}
	r, err := i.Preflight(t.Context(), PreflightOptions{})
	if err != nil || !strings.Contains(r.Report.Err(r.Policy).Error(), "minio: minio_preflights: /no/such/folder is wanted for /data; ") {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = i.Preflight(t.Context(), PreflightOptions{Runs: RunHooks, Node: preflight.Node{Upgrade: true}})
	if err != nil || !strings.Contains(r.Report.Err(r.Policy).Error(), "minio: minio_preflights: /no/such/folder is wanted for /data; ") {
		t.Errorf("an upgrade: %+v, %v", r, err)
	}
	r, err = i.Preflight(t.Context(), PreflightOptions{ExcludeBuiltin: true})
	if err != nil || r.Report.Err(r.Policy) != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestAddOnsWithoutChecksAreReported uses a bundle in which no add-on checks the host. sealift-preflight is not in it.
func TestAddOnsWithoutChecksAreReported(t *testing.T) {
	short.AsRoot(t, "an install")
	text := writeSpec(t, map[string]map[string]any{"goldpinger": {"version": "1.0.0"}})
	i, err := prepare(t, kurlBundle(t, text, txtar.Parse([]byte("-- goldpinger/1.0.0/Manifest --\n-- goldpinger/1.0.0/install.sh --\ngoldpinger() { :; }\n")).Files), text)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = i.Close() }()
	for _, o := range []PreflightOptions{{}, {Runs: RunNothing}, {ExcludeBuiltin: true}} {
		r, err := i.Preflight(t.Context(), o)
		said := slices.Contains(r.Results, preflight.Result{Check: "add-ons", Status: preflight.Pass, Message: "none of them has checks of its own"})
		if err != nil || said == o.ExcludeBuiltin {
			t.Errorf("%+v: %+v, %v", o, r.Results, err)
		}
	}
}

// TestClockIsComparedWithBundle has a bundle written long after the time of the host's clock.
func TestClockIsComparedWithBundle(t *testing.T) {
	short.AsRoot(t, "an install")
	text := writeSpec(t, map[string]map[string]any{"goldpinger": {"version": "1.0.0"}})
	i, err := prepare(t, kurlBundle(t, text, txtar.Parse([]byte("-- goldpinger/1.0.0/Manifest --\n-- goldpinger/1.0.0/install.sh --\ngoldpinger() { :; }\n")).Files), text)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = i.Close() }()
	i.options.Bundle = filepath.Join(t.TempDir(), "cluster.tar.gz")
	if err := os.WriteFile(i.options.Bundle, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for written, want := range map[time.Time]preflight.Status{time.Now(): preflight.Pass, time.Now().AddDate(0, 7, 0): preflight.Warn} {
		if err := os.Chtimes(i.options.Bundle, written, written); err != nil {
			t.Fatal(err)
		}
		r, err := i.Preflight(t.Context(), PreflightOptions{Runs: RunNothing})
		got := slices.IndexFunc(r.Results, func(r preflight.Result) bool { return r.Check == "clock" && r.Status == want })
		if err != nil || got < 0 {
			t.Errorf("a bundle of %s: %+v, %v", written, r.Results, err)
		}
	}
}
