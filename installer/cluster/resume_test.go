package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealift/sealift/internal/testing/fixture"
)

func TestStartedControlPlaneHasTheSameConfiguration(t *testing.T) {
	k := work(t, nil)
	objects, err := k.render("init", nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := k.initConfig()
	if err != nil {
		t.Fatal(err)
	}
	k = work(t, map[string]string{"slow.yaml": slowPatch(t, k, 5)})
	slow, err := k.initConfig()
	if err != nil || slow == text {
		t.Fatalf("a slow host has the same file, %v", err)
	}
	_, rest, _ := strings.Cut(text, "kubernetesAPICall: ")
	limit, _, _ := strings.Cut(rest, "\n")
	for behaviour, row := range map[string]struct {
		earlier string
		same    bool
	}{
		"the file itself":                  {text, true},
		"limits of a host that was busier": {strings.Replace(text, "kubernetesAPICall: "+limit, "kubernetesAPICall: 59m0s", 1), true},
		"limits of a host that was slower": {slow, true},
		"other arguments":                  {strings.Replace(slow, "terminated-pod-gc-threshold", "terminated-pod-gc", 1), false},
		"another release":                  {strings.Replace(text, "v1.36.3", "v1.35.4", 1), false},
		"a document less":                  {text[:strings.LastIndex(text, "---\n")], false},
		"a file without its end":           {text[:len(text)-20], false},
		"a file that is not YAML":          {text + "\t:", false},
		"an empty file":                    {"", false},
	} {
		if same, err := sameConfig([]byte(row.earlier), objects); err != nil || same != row.same {
			t.Errorf("%s: same is %t, %v; want %t", behaviour, same, err, row.same)
		}
	}
}

func TestFileEmptiedByPowerLossIsNotStarted(t *testing.T) {
	dir := t.TempDir()
	full, empty := filepath.Join(dir, "full"), filepath.Join(dir, "empty")
	for name, text := range map[string]string{full: "text", empty: ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for want, names := range map[bool][]string{true: {full, full}, false: {full, empty}} {
		if got, err := allHaveContent(names...); err != nil || got != want {
			t.Errorf("%v: %t, %v", names, got, err)
		}
	}
	if got, err := allHaveContent(full, filepath.Join(dir, "none")); err != nil || got {
		t.Errorf("with a file that is not there: %t, %v", got, err)
	}
}

func TestControlPlaneWithEndedCertificateIsNotAwaited(t *testing.T) {
	file := filepath.Join(t.TempDir(), "apiserver.crt")
	if hasEnded(file, time.Now()) {
		t.Error("a file that is not there has ended")
	}
	certificate, _ := fixture.ServerCertificate(t, "kube-apiserver") // valid for an hour
	if err := os.WriteFile(file, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	for later, want := range map[time.Duration]bool{-24 * time.Hour: false, 0: false, 2 * time.Hour: true} {
		if got := hasEnded(file, time.Now().Add(later)); got != want {
			t.Errorf("with a clock %v later it has ended: %t", later, got)
		}
	}
}
