package node_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
)

func TestLogHasNoSecrets(t *testing.T) {
	t.Parallel()
	var terminal bytes.Buffer
	log := node.NewLog(t.TempDir(), lifecycle.Installing, &terminal)
	log.Hide("correct horse")
	const text = "kubeadm join 10.0.0.1:6443 --token abcdef.0123456789abcdef\nGRAFANA_PASSWORD=hunter22\nit is correct horse\nno end of line"
	for _, part := range strings.SplitAfter(text, "o") {
		if n, err := log.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(log.Name())
	if err != nil {
		t.Fatal(err)
	}
	const want = "kubeadm join 10.0.0.1:6443 --token ***HIDDEN***\nGRAFANA_PASSWORD=***HIDDEN***\nit is ***HIDDEN***\nno end of line"
	if string(got) != want {
		t.Errorf("the file has\n%s\nwant\n%s", got, want)
	}
	if terminal.String() != text {
		t.Errorf("the terminal has\n%s", terminal.String())
	}
	if info, err := os.Stat(log.Name()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
