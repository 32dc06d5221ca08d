package testgrid_test

import (
	"os"
	"strings"
	"testing"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/manifest"
)

func TestConformanceRefusesBeforeFirstTest(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	for behaviour, row := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no report":            {[]string{"--quick"}, app.ExitUsage, "--out is missing"},
		"two focuses":          {[]string{"--out", out, "--quick", "--focus", "x"}, app.ExitUsage, "choose one of --quick and --focus"},
		"a broken focus":       {[]string{"--out", out, "--focus", "("}, app.ExitUsage, "--focus is not a regular expression"},
		"a broken skip":        {[]string{"--out", out, "--skip", "("}, app.ExitUsage, "--skip is not a regular expression"},
		"nothing at one time":  {[]string{"--out", out, "--parallel", "0"}, app.ExitUsage, "--parallel must be 1 or more"},
		"an argument":          {[]string{"--out", out, "ConfigMap"}, app.ExitUsage, "flags of e2e.test go behind --"},
		"no program":           {[]string{"--out", out, "--e2e", "/does/not/exist"}, app.ExitFailed, "name it with --e2e"},
		"no cluster":           {[]string{"--out", out, "--e2e", "/bin/true", "--kubeconfig", "/does/not/exist"}, app.ExitFailed, "/does/not/exist"},
		"no program of tests":  {[]string{"--list", "--e2e", "/bin/true"}, app.ExitFailed, "e2e.test wrote no report"},
		"no program of images": {[]string{"images", "--e2e", "/bin/false"}, app.ExitFailed, "exit status 1"},
	} {
		code, _, errOut := command(t, append([]string{"conformance"}, row.args...)...)
		if code != row.code || !strings.Contains(errOut, row.says) {
			t.Errorf("%s: code %d, want %d and %q in\n%s", behaviour, code, row.code, row.says, errOut)
		}
	}
}

// TestTestImagesAreWrittenAsManifest uses a script instead of e2e.test, which prints one image per line.
func TestTestImagesAreWrittenAsManifest(t *testing.T) {
	t.Parallel()
	program := write(t, "e2e.test", "#!/bin/sh\n[ \"$*\" = --list-images ] && printf '%s\\n' registry.k8s.io/e2e-test-images/agnhost:2.63.0 "+
		"registry.k8s.io/e2e-test-images/agnhost:2.55 registry.k8s.io/e2e-test-images/volume/nfs:1.6.0\n")
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := command(t, "conformance", "images", "--e2e", program)
	const want = "image agnhost registry.k8s.io/e2e-test-images/agnhost:2.55\nimage agnhost-2 registry.k8s.io/e2e-test-images/agnhost:2.63.0\nimage nfs registry.k8s.io/e2e-test-images/volume/nfs:1.6.0\n"
	if code != app.ExitDone || out != want {
		t.Errorf("code %d: %s%s", code, out, errOut)
	}
	if file, err := manifest.Parse("Manifest", strings.NewReader(out)); err != nil || len(file.Images()) != 3 {
		t.Errorf("the lines are no Manifest: %v", err)
	}
}
