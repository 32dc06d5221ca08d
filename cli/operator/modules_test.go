package operator_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/operator"
	"github.com/sealift/sealift/helm/engine"
	"github.com/sealift/sealift/internal/sandbox"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
)

// TestMain lets this binary render charts.
func TestMain(m *testing.M) {
	sandbox.Main(engine.Tasks()...)
	os.Exit(m.Run())
}

const moduleHook = `#!/bin/bash
if [[ $1 == --config ]]; then echo '{configVersion: v1, beforeHelm: 1, kubernetes: [{name: ns, kind: ns, nameSelector: {matchNames: [default]}, jqFilter: .metadata.name, keepFullObjectsInMemory: false}]}'; exit; fi
echo '{"op":"add","path":"/hello/name","value":"hook"}' > $VALUES_JSON_PATCH_PATH
echo '{"name":"hook_seen","set":1}' > $METRICS_PATH
`

// TestOperatorRunsModuleOfAddonOperator runs a module with a hook, a schema and a chart as addon-operator, and inspects it with every command.
func TestOperatorRunsModuleOfAddonOperator(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"modules/values.yaml":                   "global: {a: 1}\nhelloEnabled: true\n",
		"modules/001-hello/hooks/h.sh":          moduleHook,
		"modules/001-hello/templates/map.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hello}\ndata: {name: {{ .Values.hello.name }}}\n",
		"modules/001-hello/openapi/values.yaml": "type: object\nproperties: {name: {type: string}, size: {type: integer, default: 3}}\n",
		"modules/off/.keep":                     "",
		"global/hooks/g.sh":                     "#!/bin/sh\nif [ \"$1\" = --config ]; then echo '{configVersion: v1, beforeAll: 1}'; else echo '{\"op\":\"add\",\"path\":\"/global/b\",\"value\":2}' > $VALUES_JSON_PATCH_PATH; fi\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := fixture.WriteProgram(path, text); err != nil {
			t.Fatal(err)
		}
	}
	config, socket := filepath.Join(dir, "config"), filepath.Join(dir, "run", "debug.socket")
	if err := controlplane.WriteKubeconfig(config, controlplane.ForTest(t)); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"MODULES_DIR": "/nowhere", "ADDON_OPERATOR_MODULES_DIR": filepath.Join(dir, "modules"), "GLOBAL_HOOKS_DIR": filepath.Join(dir, "global"),
		"ADDON_OPERATOR_NAMESPACE": "default", "ADDON_OPERATOR_LISTEN_ADDRESS": "192.0.2.1", "ADDON_OPERATOR_LISTEN_PORT": "0",
		"KUBE_CLIENT_QPS": "500", "KUBE_CLIENT_BURST": "100", "HELM_MONITOR_KUBE_CLIENT_QPS": "50", "OBJECT_PATCHER_KUBE_CLIENT_TIMEOUT": "10s",
		"HELM_BIN_PATH": "/bin/helm", "HELM3": "yes", "DEBUG_HTTP_SERVER_ADDR": "127.0.0.1:1", "ADDON_OPERATOR_APPLIED_MODULE_EXTENDERS": "Static,ScriptEnabled",
		"ADDON_OPERATOR_TMP_DIR": dir, "ADDON_OPERATOR_PROMETHEUS_METRICS_PREFIX": "mine_", "DEBUG_UNIX_SOCKET": socket, "KUBE_CONFIG": config,
	} {
		t.Setenv(name, value)
	}
	log, over := &fixture.Buffer{}, make(chan int)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		over <- operator.RunAddonOperator(ctx, []string{
			"start", "--prometheus-listen-address", "127.0.0.1", "--crd-filters", "doc-", "--admission-server-enabled", "--strict-check-values-mode-enabled",
		}, nil, io.Discard, log)
	}()
	o := listening(t, log)
	o.until("ready", func() bool { return o.body("/readyz") == "ok\n" })
	if got := o.body("/status/converge"); got != "STARTUP_CONVERGE_DONE\nCONVERGE_WAIT_TASK\n" {
		t.Errorf("/status/converge: %s", got)
	}
	if got := o.body("/status/converge?output=json"); !strings.Contains(got, `"STARTUP_CONVERGE_IN_PROGRESS": 0`) || !strings.Contains(got, `"CONVERGE_WAIT_TASK": true`) {
		t.Errorf("/status/converge: %s", got)
	}
	testModuleMetrics(t, o.body("/metrics"))
	testModuleCommands(t)
	cancel()
	if code := <-over; code != app.ExitDone {
		t.Errorf("it ended with %d\n%s", code, log)
	}
	if !strings.Contains(log.String(), "MODULES_DIR and ADDON_OPERATOR_MODULES_DIR differ") {
		t.Errorf("two spellings of one setting are not compared:\n%s", log)
	}
	for _, name := range []string{"HELM_BIN_PATH", "HELM3", "DEBUG_HTTP_SERVER_ADDR", "ADDON_OPERATOR_ADMISSION_SERVER_ENABLED"} {
		if !strings.Contains(log.String(), "a setting has no effect\" variable="+name+" ") {
			t.Errorf("nobody says that %s has no effect:\n%s", name, log)
		}
	}
}

// testModuleMetrics looks for the names that addon-operator's documentation lists.
func testModuleMetrics(t *testing.T, page string) {
	for _, want := range []string{
		`mine_binding_count{hook="001-hello/hooks/h.sh",module="hello"} 2`,
		`mine_module_hook_run_success_total{activation="onStartup",binding="beforeHelm",hook="001-hello/hooks/h.sh",module="hello",queue="main"} 1`,
		`mine_global_hook_run_success_total{activation="onStartup",binding="beforeAll",hook="hooks/g.sh",queue="main"} 1`,
		"mine_module_hook_run_seconds_count", "mine_module_hook_run_user_cpu_seconds_sum", "mine_module_hook_run_sys_cpu_seconds_sum", "mine_module_hook_run_max_rss_bytes{",
		"mine_module_discover_errors_total 0", "mine_config_values_errors_total 0", `mine_module_run_seconds_count{module="hello"}`,
		`mine_module_helm_seconds_count{activation="onStartup",module="hello"} 1`, `mine_helm_operation_seconds_count{activation="onStartup",module="hello",operation="upgrade"} 1`,
		`mine_convergence_total{activation="onStartup"} 1`, `mine_convergence_seconds{activation="onStartup"}`, `mine_tasks_queue_length{queue="main"} 0`,
		"mine_live_ticks", "mine_task_wait_in_queue_seconds_total{", `mine_kube_snapshot_objects{binding="ns",hook="001-hello/hooks/h.sh",module="hello",queue="main"} 1`,
		"mine_kube_snapshot_bytes{", `hook_seen{hook="001-hello/hooks/h.sh",module="hello"} 1`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("/metrics lacks %s\n%s", want, page)
		}
	}
}

func testModuleCommands(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"queue", "list"}, "queue main: 0 tasks\n", app.ExitDone},
		{[]string{"global", "list"}, "hooks/g.sh\n", app.ExitDone},
		{[]string{"global", "values"}, "a: 1\nb: 2\nenabledModules:\n- hello\n", app.ExitDone},
		{[]string{"global", "config"}, "{}\n", app.ExitDone},
		{[]string{"global", "patches"}, `"path": "/global/b"`, app.ExitDone},
		{[]string{"global", "snapshots"}, "hooks/g.sh: {}\n", app.ExitDone},
		{[]string{"module", "list"}, "hello: on, because values.yaml beside the modules says true\noff: off, because no flag switches it on\n", app.ExitDone},
		{[]string{"module", "list", "-o", "json"}, `"enabled": true`, app.ExitDone},
		{[]string{"module", "values", "hello"}, "name: hook\nsize: 3\n", app.ExitDone},
		{[]string{"module", "config", "hello", "-o", "json"}, "{}\n", app.ExitDone},
		{[]string{"module", "patches", "hello"}, `"path": "/hello/name"`, app.ExitDone},
		{[]string{"module", "snapshots", "hello"}, "filterResult: default", app.ExitDone},
		{[]string{"module", "render", "hello"}, "data: {name: hook}", app.ExitDone},
		{[]string{"module", "resource-monitor"}, "hello: 1 objects, 0 absent\n", app.ExitDone},
		{[]string{"module", "values", "nobody"}, "module not found", app.ExitFailed},
		{[]string{"module", "values", "a/b"}, "is not the name of a module", app.ExitUsage},
		{[]string{"config", "list"}, "log.level info\n", app.ExitDone},
		{[]string{"config", "set", "log.level", "loud"}, `"loud" is not one of`, app.ExitFailed},
		{[]string{"config", "set", "other", "1"}, `there is no setting "other"`, app.ExitFailed},
		{[]string{"config", "set", "log.level", "debug"}, "", app.ExitDone},
		{[]string{"config", "list"}, "log.level debug\n", app.ExitDone},
		{[]string{"raw", "/module/list.json"}, `"name": "hello"`, app.ExitDone},
		{[]string{"raw", "/graph"}, "  \"hello\";\n", app.ExitDone},
		{[]string{"raw", "/discovery"}, "GET /module/{file}\n", app.ExitDone},
		{[]string{"raw", "nothing"}, "404", app.ExitFailed},
		{[]string{"start", "--crd-extra-labels", "x"}, `"x" is not key=value`, app.ExitUsage},
		{[]string{"start", "--helm-driver", "sql"}, "neither secret nor configmap", app.ExitUsage},
		{[]string{"start", "--unnumbered-modules-order", "first"}, "are numbers", app.ExitUsage},
	} {
		var out, errs bytes.Buffer
		code := operator.RunAddonOperator(t.Context(), c.args, nil, &out, &errs)
		if got := out.String() + errs.String(); code != c.code || !strings.Contains(got, c.want) {
			t.Errorf("%v: %d\n%s", c.args, code, got)
		}
	}
}
