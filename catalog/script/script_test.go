package script_test

import (
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sealift/sealift/catalog/script"
)

func parse(t testing.TB, text string) *script.Script {
	t.Helper()
	s, err := script.Parse(strings.NewReader(text), script.Name, "cert-manager", "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestText(t *testing.T) {
	const constants = "export IMAGE=app:1\nTWICE=a\nTWICE=b\nFROM=\"$IMAGE-x\"\nOF=$(date)\nf() { TWICE=c; local INNER=d; }\n"
	for word, want := range map[string]struct {
		text  string
		whole bool
	}{
		`plain`: {"plain", true}, `'a b'"c"`: {"a bc", true}, `v$CERT_MANAGER_VERSION`: {"v1.2.3", true}, `"${IMAGE}"`: {"app:1", true},
		`$TWICE`: {"$TWICE", false}, `$FROM`: {"app:1-x", true}, `$OF`: {"$OF", false}, `$INNER`: {"$INNER", false}, `a$(date)`: {"a$()", false},
		`${IMAGE:-b}`: {"$IMAGE", false}, `${#IMAGE}`: {"$IMAGE", false}, `${K8S_DISTRO}_x`: {"kubeadm_x", true}, `$1`: {"$1", false},
	} {
		s := parse(t, constants+"echo "+word)
		call, ok := s.File.Stmts[len(s.File.Stmts)-1].Cmd.(*syntax.CallExpr)
		if !ok {
			t.Fatal(word)
		}
		if text, whole := s.Text(call.Args[1]); text != want.text || whole != want.whole {
			t.Errorf("%s is %q, %v; want %q, %v", word, text, whole, want.text, want.whole)
		}
	}
}

// Any script is read without panic.
func FuzzParse(f *testing.F) {
	f.Add("A=b\nf() { echo $A ${A[0]} ${A:1:2} ${!A} <<EOF\n$A\nEOF\n}")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := script.Parse(strings.NewReader(text), script.Name, "a", "1")
		if err != nil {
			return
		}
		syntax.Walk(s.File, func(n syntax.Node) bool {
			if w, ok := n.(*syntax.Word); ok {
				s.Text(w)
			}
			return true
		})
	})
}
