package hook_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/operator/hook"
)

// withLibrary runs a hook in bash that sources shell_lib.sh, and returns its output in $METRICS_PATH.
func withLibrary(t *testing.T, script, contexts string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	if err := hook.WriteShellLibrary(dir); err != nil {
		t.Fatal(err)
	}
	path := file(t, dir, "hook.sh", "#!/bin/bash\nsource \"$FRAMEWORK_DIR/shell_lib.sh\"\n"+script+"\nhook::run \"$@\"\n")
	r := hook.Runner{TempDir: dir, Set: []string{hook.FrameworkDir + "=" + dir}}
	result, err := r.Run(t.Context(), hook.Command{
		Name: "hook.sh", Path: path, Dir: dir, In: map[string][]byte{"BINDING_CONTEXT_PATH": []byte(contexts)}, Out: []string{"METRICS_PATH"},
	})
	return string(result.Out["METRICS_PATH"]), err
}

func TestShellLibraryCallsBestFunction(t *testing.T) {
	const every = `[{"binding":"onStartup"},{"binding":"pods","type":"Synchronization","objects":[]},
		{"binding":"pods","type":"Event","watchEvent":"Added"},{"binding":"pods","type":"Event","watchEvent":"Modified"},{"binding":"pods","type":"Event","watchEvent":"Deleted"},
		{"binding":"every","type":"Schedule"},{"binding":"pods","type":"Group","groupName":"g","snapshots":{}},
		{"binding":"a.b.c","type":"Validating","review":{}},{"binding":"a.b.c","type":"Mutating","review":{}},{"binding":"up","type":"Conversion","fromVersion":"stable.example.com/v1","toVersion":"v2","review":{}}]`
	define := func(names ...string) (script string) {
		for _, name := range names {
			script += "function " + name + "() { echo -n '" + name + " ' >> $METRICS_PATH; }\n"
		}
		return script
	}
	for _, c := range []struct{ name, script, want string }{
		{"each has its own", define("__on_startup", "__on_kubernetes::pods::synchronization", "__on_kubernetes::pods::added", "__on_kubernetes::pods::modified", "__on_kubernetes::pods::deleted",
			"__on_schedule::every", "__on_group::g", "__on_validating::a.b.c", "__on_mutating::a.b.c", "__on_conversion::up::stable.example.com.v1::v2", "__main__"),
			"__on_startup __on_kubernetes::pods::synchronization __on_kubernetes::pods::added __on_kubernetes::pods::modified __on_kubernetes::pods::deleted " +
				"__on_schedule::every __on_group::g __on_validating::a.b.c __on_mutating::a.b.c __on_conversion::up::stable.example.com.v1::v2 "},
		{"names of bindings", define("__on_group::pods", "__on_conversion::up", "__main__"),
			"__main__ __main__ __main__ __main__ __main__ __main__ __on_group::pods __main__ __main__ __on_conversion::up "},
		{"general ones", define("__on_kubernetes::pods", "__on_kubernetes::pods::added_or_modified", "__on_conversion::up", "__main__"),
			"__main__ __on_kubernetes::pods __on_kubernetes::pods::added_or_modified __on_kubernetes::pods::added_or_modified __on_kubernetes::pods " +
				"__main__ __main__ __main__ __main__ __on_conversion::up "},
	} {
		if got, err := withLibrary(t, c.script, every); err != nil || got != c.want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", c.name, err, got, c.want)
		}
	}
	if _, err := withLibrary(t, define("__on_startup"), every); err == nil || !strings.Contains(err.Error(), "define one of: __on_kubernetes::pods::synchronization") {
		t.Errorf("no function: %v", err)
	}
	if got, err := withLibrary(t, `function __main__() { echo -n "$BINDING_CONTEXT_CURRENT_INDEX$BINDING_CONTEXT_CURRENT_BINDING${left:-} " >> $METRICS_PATH; left=x; cat > /dev/null; [[ $BINDING_CONTEXT_CURRENT_INDEX != 2 ]]; }`,
		`[{"binding":"a"},{"binding":"b"},{"binding":"c"},{"binding":"d"}]`); err == nil || got != "0a 1b 2c " {
		t.Errorf("a failure ends the run, and nothing is left of the call before: %q, %v", got, err)
	}
}

// TestFailingCommandEndsHandler covers what upstream's shell_lib.sh sets: set -Eeuo pipefail, inherit_errexit, failglob, and a trace. Without
// them a kubectl that fails in the middle of a handler counts as success, and the event is lost.
func TestFailingCommandEndsHandler(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"a command", "false", "line 4, in __main__\n    false"},
		{"a command of a function of its own", "step", "in step\n    step() { echo step; kubectl-absent get pods; echo lost >> $METRICS_PATH; }"},
		{"a command that is not there", "kubectl-absent get pods", "kubectl-absent: command not found"},
		{"the first command of a pipe", "false | cat", "in __main__\n    false | cat"},
		{"a substitution", "x=$(false; echo x)", "in __main__\n    x=$(false; echo x)"},
		{"a substitution in a substitution", "x=$(echo $(exit 3))x; x=$(y=$(exit 3); echo $y)", "exit status 3"},
		{"an unset variable", "echo $NAME_THAT_NOBODY_SET", "NAME_THAT_NOBODY_SET: unbound variable"},
		{"a pattern without files", "cat /nothing-here/*.yaml", "no match: /nothing-here/*.yaml"},
		{"a list of which the last command fails", "true && false", "in __main__\n    true && false"},
		{"jq", "context::jq .a.b.c.", "jq: error"},
		{"context::get", "x=$(context::get 'binding | nothing')", "nothing/0 is not defined"},
		{"a subshell", "(cd /nothing-here; echo lost >> $METRICS_PATH)", "/nothing-here: No such file or directory"},
		{"its own status", "exit 4", "exit status 4"},
	} {
		got, err := withLibrary(t, "function __main__() {\n"+c.body+"\necho after >> $METRICS_PATH\n}\nstep() { echo step; kubectl-absent get pods; echo lost >> $METRICS_PATH; }\n"+
			"trap 'echo left >> $METRICS_PATH' EXIT", `[{"binding":"a"},{"binding":"b"}]`)
		if err == nil || !strings.Contains(err.Error(), c.want) || got != "left\n" {
			t.Errorf("%s: %q, %v\nwant %s", c.name, got, err, c.want)
		}
	}
	for _, c := range []struct{ name, script, want string }{
		{"a condition may fail", "function __main__() { if ! false; then echo -n yes; fi >> $METRICS_PATH; false || echo -n ' or' >> $METRICS_PATH; }", "yes or"},
		{"a hook turns them off", "set +e +u; shopt -u failglob; function __main__() { false; cat /nothing-here/*.yaml; echo -n \"on $NAME_THAT_NOBODY_SET\" >> $METRICS_PATH; }", "on "},
		{"a variable with a default", `function __main__() { echo -n "${NAME_THAT_NOBODY_SET:-default}" >> $METRICS_PATH; }`, "default"},
	} {
		if got, err := withLibrary(t, c.script, `[{"binding":"a"}]`); err != nil || got != c.want {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
	if got, err := withLibrary(t, "set +e; function __main__() { echo -n $BINDING_CONTEXT_CURRENT_BINDING >> $METRICS_PATH; return 1; }", `[{"binding":"a"},{"binding":"b"}]`); err == nil || got != "a" {
		t.Errorf("without set -e, a handler's status still counts: %q, %v", got, err)
	}
	if got, err := withLibrary(t, "function __main__() { echo -n main >> $METRICS_PATH; }", `[]`); err != nil || got != "" {
		t.Errorf("no contexts: %q, %v", got, err)
	}
}

// TestShellLibrarySourcesAddedFiles: images add their own files below /frameworks/shell, and replace functions of the library.
func TestShellLibrarySourcesAddedFiles(t *testing.T) {
	dir := t.TempDir()
	if err := hook.WriteShellLibrary(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "frameworks/shell/site"), 0o755); err != nil {
		t.Fatal(err)
	}
	file(t, dir, "frameworks/shell/site/own.sh", "own() { echo -n own; }\n")
	link := filepath.Join(t.TempDir(), "link.sh") // a hook may find the library by a link
	if err := os.Symlink(filepath.Join(dir, "shell_lib.sh"), link); err != nil {
		t.Fatal(err)
	}
	script := `source "$1"; own; [[ -z ${SHELL_LIB_FILE:-} ]] && hook::_run_first_available_handler "absent own"`
	out, err := exec.CommandContext(t.Context(), "bash", "-c", script, "hook", link).CombinedOutput()
	if err != nil || string(out) != "ownown" {
		t.Errorf("%v: %s", err, out)
	}
}

func TestShellLibraryReadsContexts(t *testing.T) {
	const contexts = `[{"binding":"x"},{"binding":"pods","object":{"metadata":{"name":"a","labels":{"app.kubernetes.io/name":"web"},
		"annotations":{"say-\"hi\"":"a\\b","80":"http"}},"on":true,"off":false,"none":null,"n":3},"objects":[{}],
		"snapshots":{"pods":[{"filterResult":"x"},{"filterResult":{"name":"y","on":true}}],"a.b":[{"filterResult":"z"}]}}]`
	for _, c := range []struct{ command, want string }{
		{"context::get object.metadata.name", "a\n"},
		{"context::get object.metadata.labels", "{\n  \"app.kubernetes.io/name\": \"web\"\n}\n"},
		{`context::get '.object.metadata.labels["app.kubernetes.io/name"]'`, "web\n"},
		{"context::get object.nothing", "null\n"},
		{"context::jq -r .object.n", "3\n"},
		{"context::global::jq -r '.[0].binding'", "x\n"},
		{"context::has object.none && echo yes", "yes\n"},
		{"context::has object.nothing || echo no", "no\n"},
		{"context::get snapshots.pods.0.filterResult", "x\n"},
		{"context::get 'snapshots.pods | length'", "2\n"},
		{"context::get 'snapshots.pods[].filterResult | objects | .name'", "y\n"},
		{"context::get 'snapshots.pods | map(.filterResult) | .[0]'", "x\n"},
		{"context::get 'snapshots.\"a.b\" | map(.filterResult) | join(\",\")'", "z\n"},
		{"context::get 'snapshots.no-pods // \"none\"'", "none\n"},
		{"context::get 'object.nothing//\"none\"'", "none\n"},
		{"context::get \"snapshots.pods | map(.filterResult | strings | . + '-1') | .[]\"", "x-1\n"},
		{"context::get 'object.n == .object.n + 0'", "true\n"},
		{"context::get 'object.n+1'", "4\n"},
		{"context::get 'object.metadata.name.deeper?'", ""},
		{"context::get 'object | .metadata.name'", "a\n"},
		{"context::get '.object | .metadata.name'", "a\n"},
		{"context::get 'object.metadata | {name}'", "{\n  \"name\": \"a\"\n}\n"},
		{"context::get '| keys[0]'", "binding\n"},
		{"context::get | jq -r .binding", "pods\n"},
		{"context::get --required 'snapshots.pods | length'", "2\n"},
		{"context::is_true 'snapshots.pods | length == 2' && ! context::is_true 'snapshots.pods | length == 3' && echo yes", "yes\n"},
		{"context::is_null 'object.metadata.name?.a?' || echo no", "no\n"},
		{"context::has 'snapshots.pods[] | .filterResult | objects' && ! context::has 'object.nothing | values' && echo yes", "yes\n"},
		{"context::get snapshots.pods.1.filterResult.name", "y\n"},
		{"context::get 'snapshots.pods[1].filterResult.name'", "y\n"},
		{"context::get 'snapshots[\"a.b\"].0.filterResult'", "z\n"},
		{"context::get objects.1", "null\n"},
		{"context::get 'object.metadata.labels.\"app.kubernetes.io/name\"'", "web\n"},
		{"context::get \"object.metadata.labels.'app.kubernetes.io/name'\"", "web\n"},
		{`context::get object.metadata.annotations.say-\"hi\"`, "a\\b\n"},
		{"context::get object.metadata.annotations.80", "http\n"},
		{"context::get --required object.none", "null\n"},
		{"context::get --required object.metadata.name", "a\n"},
		{"{ context::get --required object.nothing 2>&1 || echo no; }", "context::get: the binding context has no object.nothing, which is required\nno\n"},
		{"context::has snapshots.pods.0 && context::has 'snapshots.pods[1].filterResult.name' && context::has snapshots && echo yes", "yes\n"},
		{"context::has 'snapshots.\"a.b\".0' && context::has '.snapshots[\"a.b\"]' && context::has object.metadata.annotations.80 && echo yes", "yes\n"},
		{"{ context::has snapshots.pods.2 || context::has snapshots.pods.name || context::has snapshots.nothing.0 || context::has nothing.0; } 2>&1 || echo no", "no\n"},
		{"context::is_true snapshots.pods.1.filterResult.on && context::is_null snapshots.pods.2 && echo yes", "yes\n"},
		{"context::has object.metadata.name.deeper || echo no", "no\n"},
		{"context::is_true object.on && ! context::is_true object.off && echo yes", "yes\n"},
		{"context::is_false object.off && ! context::is_false object.none && echo yes", "yes\n"},
		{"context::is_null object.none && ! context::is_null object.on && echo yes", "yes\n"},
	} {
		got, err := withLibrary(t, "function __main__() { [[ $BINDING_CONTEXT_CURRENT_BINDING == x ]] || { "+c.command+" >> $METRICS_PATH; }; }", contexts)
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v", c.command, got, err)
		}
	}
}
