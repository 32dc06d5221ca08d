package runner_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/testing/objects"
)

// called runs a script with kURL's functions in an empty folder, as the runner does, and returns its output.
func called(t *testing.T, script string, variables ...string) (string, error) {
	t.Helper()
	helpers, err := filepath.Abs("testhelpers.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euxo", "pipefail", "-c", "source "+helpers+"\n"+script)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), variables...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestScriptsUseObjectStore(t *testing.T) {
	s := objects.Start(t)
	store := []string{
		"OBJECT_STORE_CLUSTER_IP=" + strings.TrimPrefix(s.Endpoint, "http://"),
		"OBJECT_STORE_ACCESS_KEY=" + os.Getenv("AWS_ACCESS_KEY_ID"), "OBJECT_STORE_SECRET_KEY=" + os.Getenv("AWS_SECRET_ACCESS_KEY"),
	}
	const write = "validate_read_write_object_store rwtest testfile.txt\n"
	for script, want := range map[string]string{
		write + write + "object_store_bucket_exists rwtest; rm testfile.txt; object_store_get_object rwtest testfile.txt; grep made testfile.txt": "",
		write + "echo other >testfile.txt; validate_testfile rwtest testfile.txt":                                                                 "testfile.txt in the bucket rwtest is not what was stored there",
		"validate_testfile rwtest missing.txt":                              "404",
		"OBJECT_STORE_SECRET_KEY=wrong; object_store_create_bucket another": "403",
	} {
		out, err := called(t, script, store...)
		if (err != nil) != (want != "") || !strings.Contains(out, want) {
			t.Errorf("%s\n%v, want %q:\n%s", script, err, want, out)
		}
		if strings.Contains(out, os.Getenv("AWS_SECRET_ACCESS_KEY")) {
			t.Errorf("%s\nthe password is in the log:\n%s", script, out)
		}
	}
}
