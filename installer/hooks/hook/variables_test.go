package hook_test

import (
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/hooks/hook"
)

// resume starts a shell that has a state.
func resume(t *testing.T, state hook.Variables) *hook.Shell {
	t.Helper()
	s, err := hook.Start(hook.Options{Dir: t.TempDir(), Env: []string{"PATH=" + os.Getenv("PATH")}, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Restore(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	return s
}

// changes returns the changes that a body makes in a shell with a state.
func changes(t *testing.T, state hook.Variables, body string) hook.Variables {
	t.Helper()
	s, _ := shell(t, "run() {\n"+body+"\n}")
	if err := s.Restore(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	before, err := s.Variables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Call(t.Context(), "run"); err != nil {
		t.Fatal(err)
	}
	after, err := s.Variables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return after.Since(before)
}

func TestHookChangesAreData(t *testing.T) {
	for name, row := range map[string]struct {
		before hook.Variables
		body   string
		want   hook.Variables
	}{
		"a scalar":                      {nil, `A="x y"`, hook.Variables{"A": "x y"}},
		"a scalar that ends our talk":   {nil, `A=done B="exit 0"`, hook.Variables{"A": "done", "B": "exit 0"}},
		"code in a value":               {nil, `A='$(touch x)` + "`y`" + `"'`, hook.Variables{"A": "$(touch x)`y`\""}},
		"an array with holes":           {nil, `A=(a "b c"); A[7]='d"e'`, hook.Variables{"A[]": `{"0":"a","1":"b c","7":"d\"e"}`}},
		"an array without elements":     {nil, `A=()`, hook.Variables{"A[]": `{}`}},
		"elements with ends of lines":   {nil, "A=($'x\\ny' z)", hook.Variables{"A[]": `{"0":"x\ny","1":"z"}`}},
		"an associative array":          {nil, `declare -gA A=([k]=v [']$(x)']=w)`, hook.Variables{"A{}": `{"]$(x)":"w","k":"v"}`}},
		"an array one element longer":   {hook.Variables{"A[]": `{"0":"a"}`}, `A+=(b)`, hook.Variables{"A[]": `{"0":"a","1":"b"}`}},
		"an array that becomes a value": {hook.Variables{"A[]": `{"0":"a"}`}, `unset A; A=1`, hook.Variables{"A": "1"}},
		"a value that becomes an array": {hook.Variables{"A": "a"}, `unset A; A=(1)`, hook.Variables{"A[]": `{"0":"1"}`}},
		"an export":                     {hook.Variables{"A": "a"}, `export A`, hook.Variables{"export A": ""}},
		"a variable that is unset":      {hook.Variables{"A": "a", "B[]": `{"0":"x"}`}, `unset A B`, hook.Variables{"unset A": "", "unset B": ""}},
		"locals and the shell's own":    {nil, `local A=1; REPLY=x; cd /; true | false || :`, hook.Variables{}},
		"integers and read-only ones":   {nil, `declare -gi A=3; declare -gr B=x`, hook.Variables{"A": "3", "B": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := changes(t, row.before, row.body)
			if !maps.Equal(got, row.want) {
				t.Errorf("got %q, want %q", got, row.want)
			}
			state := hook.Variables{}
			state.Add(row.before)
			state.Add(got)
			again, err := resume(t, state).Variables(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range row.want {
				if gone, ok := strings.CutPrefix(name, "unset "); ok {
					if again.Since(hook.Variables{gone: "x"})["unset "+gone] != "" || again.Scalars()[gone] != "" {
						t.Errorf("%s is back", gone)
					}
				} else if again[name] != value {
					t.Errorf("after a resume %s is %q, want %q", name, again[name], value)
				}
			}
		})
	}
}

func TestStepChangesAccumulate(t *testing.T) {
	state := hook.Variables{"A": "1", "B[]": `{"0":"x"}`, "export A": ""}
	state.Add(hook.Variables{"A[]": `{"0":"2"}`, "unset B": ""})
	state.Add(hook.Variables{"B": "3", "unset A": ""})
	if want := (hook.Variables{"B": "3", "unset A": ""}); !maps.Equal(state, want) {
		t.Errorf("got %v, want %v", state, want)
	}
	if want := map[string]string{"B": "3"}; !maps.Equal(state.Scalars(), want) {
		t.Errorf("scalars %v", state.Scalars())
	}
}

func TestRestoreRefusesInvalidVariables(t *testing.T) {
	s := resume(t, nil)
	for _, name := range []string{"A;x", "A[0]", "A[$(touch x)]", "unset A[0]", "export A=1", "A-b[]", "", "[]", "unset "} {
		if err := s.Restore(t.Context(), hook.Variables{name: "{}"}); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
	for name, value := range map[string]string{"A[]": `{"$(touch x)":"1"}`, "B[]": "no JSON", "C{}": `{"":"1"}`, "D[]": `{"0":"\u0000"}`} {
		if err := s.Restore(t.Context(), hook.Variables{name: value}); err == nil {
			t.Errorf("%s=%s was taken", name, value)
		}
	}
}
