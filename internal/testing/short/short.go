// Package short says which tests a short run leaves out: 'make unit', which has neither root nor the lab.
package short

import (
	"os"
	"testing"
)

// Skip skips t under 'go test -short', and names what it needs, such as "a kube-apiserver".
func Skip(t testing.TB, needs string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("needs %s: 'make test' runs it", needs)
	}
}

// Root skips t in a short run, and without root. what names what needs root, such as "mounting".
func Root(t testing.TB, what string) {
	t.Helper()
	Skip(t, "root for "+what)
	AsRoot(t, what)
}

// AsRoot skips t without root, even in a short run, since it needs nothing else.
func AsRoot(t testing.TB, what string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip(what + " needs root")
	}
}
