// Package short says which tests a short run leaves out: 'make unit', which has neither root nor the lab.
package short

import "testing"

// Skip skips t under 'go test -short', and says what it needs, such as "a kube-apiserver".
func Skip(t testing.TB, needs string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("needs %s: 'make test' runs it", needs)
	}
}
