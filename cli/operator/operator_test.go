package operator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/operator"
	"github.com/sealift/sealift/internal/testing/controlplane"
	"github.com/sealift/sealift/internal/testing/fixture"
)

const namespaces = `#!/bin/bash
source "$FRAMEWORK_DIR/shell_lib.sh"
function __config__() {
    cat <<EOF
configVersion: v1
kubernetes:
- name: namespaces
  kind: ns
  nameSelector: {matchNames: [default]}
  jqFilter: .metadata.name
  keepFullObjectsInMemory: false
schedule:
- {name: never, crontab: 0 0 31 2 *}
EOF
}
function __on_kubernetes::namespaces::synchronization() {
    echo "sees $(context::get 'objects' | jq -r '.[0].filterResult')"
    echo '{"name":"hook_seen","set":1}' > "$METRICS_PATH"
}
hook::run "$@"
`

func TestOperator(t *testing.T) {
	dir := t.TempDir()
	hooks, socket, config := filepath.Join(dir, "hooks"), filepath.Join(dir, "run", "debug.socket"), filepath.Join(dir, "config")
	for name, text := range map[string]string{
		"sub/namespaces.sh": namespaces,
		"stuck.sh":          "#!/bin/sh\nif [ \"$1\" = --config ]; then echo '{configVersion: v1, schedule: [{crontab: \"* * * * * *\", queue: stuck}]}'; else echo no luck; exit 1; fi\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(hooks, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := fixture.WriteProgram(filepath.Join(hooks, name), text); err != nil {
			t.Fatal(err)
		}
	}
	if err := controlplane.WriteKubeconfig(config, controlplane.ForTest(t)); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"SHELL_OPERATOR_HOOKS_DIR": hooks, "SHELL_OPERATOR_LISTEN_ADDRESS": "127.0.0.1", "SHELL_OPERATOR_LISTEN_PORT": "0",
		"SHELL_OPERATOR_TMP_DIR": dir, "SHELL_OPERATOR_PROMETHEUS_METRICS_PREFIX": "mine_", "DEBUG_UNIX_SOCKET": socket, "KUBE_CONFIG": config, "LOG_NO_TIME": "true",
	} {
		t.Setenv(name, value)
	}
	killed := filepath.Join(dir, fmt.Sprintf("sealift-scratch-%d-1.d", os.Geteuid())) // the folder of an operator that was killed
	if err := os.MkdirAll(filepath.Join(killed, "hook-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	log, over := &fixture.Buffer{}, make(chan int)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { over <- operator.RunShellOperator(ctx, nil, nil, io.Discard, log) }()
	o := listening(t, log)
	o.until("ready", func() bool { code, _ := o.get("/readyz"); return code == http.StatusOK })
	if _, err := os.Stat(killed); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("files of an operator that was killed are left: %v", err)
	}
	if code, _ := o.get("/healthz"); code != http.StatusOK {
		t.Errorf("/healthz is %d", code)
	}
	if !strings.Contains(log.String(), `msg="sees default" hook=sub/namespaces.sh output=stdout`) {
		t.Errorf("the hook did not see the namespace:\n%s", log)
	}
	if _, all := o.get("/metrics"); !strings.Contains(all, "mine_live_ticks 1") || !strings.Contains(all, `hook_seen{hook="sub/namespaces.sh"} 1`) ||
		!strings.Contains(all, `mine_kubernetes_client_request_result_total{code="200",host="127.0.0.1:`) || !strings.Contains(all, "mine_kubernetes_client_request_latency_seconds_count{") ||
		!strings.Contains(all, `mine_kube_jq_filter_duration_seconds_count{binding="namespaces",hook="sub/namespaces.sh",kind="Namespace",queue="main"} 1`) {
		t.Errorf("/metrics is\n%s", all)
	}
	if _, some := o.get("/metrics/hooks"); strings.Contains(some, "mine_") || !strings.Contains(some, "hook_seen") {
		t.Errorf("/metrics/hooks is\n%s", some)
	}
	for _, path := range []string{"/queue/list.text", "/hook/list.text"} {
		if code, _ := o.get(path); code != http.StatusNotFound {
			t.Errorf("the public port answers %s with %d", path, code)
		}
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, %v", info, err)
	}
	t.Run("debug", func(t *testing.T) { testDebug(t, o.until) })
	second := &fixture.Buffer{}
	if code := operator.RunShellOperator(ctx, []string{"start"}, nil, io.Discard, second); code != app.ExitFailed || !strings.Contains(second.String(), "another operator answers there") {
		t.Errorf("a second operator at the socket: %d\n%s", code, second)
	}
	cancel()
	if code := <-over; code != app.ExitDone {
		t.Errorf("it ended with %d\n%s", code, log)
	}
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.d")); len(left) > 0 {
		t.Errorf("left in the folder for temporary files: %v", left)
	}
}

// testDebug asks the running operator, whose socket DEBUG_UNIX_SOCKET names.
func testDebug(t *testing.T, until func(string, func() bool)) {
	ask := func(args ...string) (string, int) {
		var out, errs bytes.Buffer
		code := operator.Run(t.Context(), append([]string{"operator"}, args...), nil, &out, &errs)
		return out.String() + errs.String(), code
	}
	until("a failure of the stuck hook is shown", func() bool {
		text, _ := ask("queue", "list")
		return strings.Contains(text, "queue stuck: ") && strings.Contains(text, "1. run stuck.sh for schedule, here for ") && strings.Contains(text, "failed 1 times: hook stuck.sh: exit status 1; it printed last:; no luck")
	})
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"queue", "main"}, "queue main: 0 tasks\n", app.ExitDone},
		{[]string{"hook", "list"}, "stuck.sh: schedule 1\nsub/namespaces.sh: kubernetes 1, schedule 1\n", app.ExitDone},
		{[]string{"raw", "/hook/list.text"}, "stuck.sh: schedule 1\n", app.ExitDone},
		{[]string{"raw", "nowhere"}, "404", app.ExitFailed},
		{[]string{"hook", "list", "-o", "yaml"}, "configVersion: v1", app.ExitDone},
		{[]string{"hook", "snapshot", "sub/namespaces.sh"}, "namespaces:\n- filterResult: default\n", app.ExitDone},
		{[]string{"hook", "snapshot", "nothing.sh"}, `there is no hook "nothing.sh"`, app.ExitFailed},
		{[]string{"queue", "list", "-o", "xml"}, "must be one of [text yaml json]", app.ExitUsage},
		{[]string{"queue", "list", "--debug-unix-socket", "/nowhere"}, "there is no debug socket /nowhere", app.ExitFailed},
		{[]string{"start", "--log-level", "loud"}, `--log-level "loud"`, app.ExitUsage},
		{[]string{"start", "--log-type", "xml"}, `--log-type "xml"`, app.ExitUsage},
		{[]string{"start", "--hook-user", "nobody-there"}, `--hook-user "nobody-there"`, app.ExitUsage},
		{[]string{"start", "--validating-webhook-failure-policy", "Maybe"}, `policy "Maybe" is neither Fail nor Ignore`, app.ExitUsage},
		{[]string{"start", "--hooks-dir", "/nowhere", "--debug-unix-socket", ""}, "find hooks in /nowhere", app.ExitFailed},
	} {
		if got, code := ask(c.args...); code != c.code || !strings.Contains(got, c.want) {
			t.Errorf("%v: %d\n%s", c.args, code, got)
		}
	}
	text, _ := ask("queue", "list", "-o", "json", "--show-empty")
	var queues []struct {
		Name  string
		Tasks []struct{ Hook string }
	}
	if err := json.Unmarshal([]byte(text), &queues); err != nil || len(queues) != 2 || queues[0].Name != "main" || queues[1].Tasks[0].Hook != "stuck.sh" {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestUpstreamLogLevelsAreAccepted: an upstream-only log level does not prevent the start.
func TestUpstreamLogLevelsAreAccepted(t *testing.T) {
	for level, refused := range map[string]bool{"trace": false, "Fatal": false, "warning": false, "info": false, "loud": true} {
		log := &fixture.Buffer{}
		code := operator.RunShellOperator(t.Context(), []string{"start", "--log-level", level, "--kube-config", "/nowhere"}, nil, io.Discard, log)
		if code == 0 || strings.Contains(log.String(), "--log-level") != refused {
			t.Errorf("%s: %d %s", level, code, log)
		}
	}
}

// runningOperator is an operator that listens, by its log.
type runningOperator struct {
	*testing.T
	log     *fixture.Buffer
	address string
}

// listening waits until an operator logs its address.
func listening(t *testing.T, log *fixture.Buffer) runningOperator {
	t.Helper()
	o := runningOperator{T: t, log: log}
	address := regexp.MustCompile(`address=(\S+)`)
	o.until("listening", func() bool { return address.MatchString(log.String()) })
	o.address = address.FindStringSubmatch(log.String())[1]
	return o
}

func (o runningOperator) until(what string, reached func() bool) {
	o.Helper()
	for deadline := time.Now().Add(time.Minute); !reached(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			o.Fatalf("%s: not within a minute\n%s", what, o.log)
		}
	}
}

func (o runningOperator) body(path string) string {
	o.Helper()
	_, body := o.get(path)
	return body
}

func (o runningOperator) get(path string) (code int, body string) {
	o.Helper()
	req, err := http.NewRequestWithContext(o.Context(), http.MethodGet, "http://"+o.address+path, nil)
	if err != nil {
		o.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		o.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		o.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
