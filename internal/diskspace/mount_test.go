package diskspace

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"

	"github.com/sealift/sealift/internal/testing/short"
)

// TestMountsOfHostDecide compares what a process sees with the mounts of the host.
func TestMountsOfHostDecide(t *testing.T) {
	const sandbox = "1 0 8:1 / / ro - ext4 /dev/sda1 rw\n2 1 8:1 /state /var/state rw - ext4 /dev/sda1 rw\n3 1 0:30 / /private ro - tmpfs tmpfs rw\n"
	for _, row := range []struct {
		what, path, host string
		want             bool
	}{
		{"the host writes to it", "/usr/bin", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n", true},
		{"the host mounts it read-only", "/usr/bin", "1 0 8:1 / / ro - ext4 /dev/sda1 rw\n", false},
		{"the file system is read-only", "/usr/bin", "1 0 8:1 / / rw - ext4 /dev/sda1 ro\n", false},
		{"the host mounts a part of it read-only", "/usr/bin", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:1 /usr /usr ro - ext4 /dev/sda1 rw\n", false},
		{"a later mount covers an earlier one", "/usr/bin", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:1 /usr /usr ro - ext4 /dev/sda1 rw\n3 2 8:1 /usr /usr rw - ext4 /dev/sda1 rw\n", true},
		{"a folder whose name only begins so", "/usr-bin", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:1 /usr /usr ro - ext4 /dev/sda1 rw\n", true},
		{"the host has another file system there", "/private/x", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n", false},
		{"the host has nothing there", "/usr/bin", "", false},
	} {
		var both [2][]*mountinfo.Info
		for n, text := range []string{sandbox, row.host} {
			var err error
			if both[n], err = mountinfo.GetMountsFromReader(strings.NewReader(text), nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := isWritable(row.path, both[0], both[1]); got != row.want {
			t.Errorf("%s: %t", row.what, got)
		}
	}
}

const childVariable = "SEALIFT_TEST_DISKSPACE"

func TestMain(m *testing.M) {
	if path := os.Getenv(childVariable); path != "" {
		s, err := Of(path)
		fmt.Println(s.ReadOnly, err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestSandboxDoesNotLookLikeReadOnlyDisk asks in mounts of its own, as a service of systemd has them.
func TestSandboxDoesNotLookLikeReadOnlyDisk(t *testing.T) {
	short.AsRoot(t, "mounts of its own")
	const usr = "mount --bind /usr /usr && mount -o remount,bind,ro /usr && ! touch /usr/read-only 2>/dev/null"
	for _, row := range []struct{ mount, path, host, want string }{
		{usr, "/usr/local/none", HostMounts, "false <nil>"},
		{usr, "/usr/local/none", "", "true <nil>"}, // this process is to write there itself
		{"mount -t tmpfs -o ro none /mnt", "/mnt/none", HostMounts, "true <nil>"},
	} {
		cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", row.mount+` && exec "$0"`, os.Args[0])
		cmd.Env = append(os.Environ(), childVariable+"="+row.path, MountsVariable+"="+row.host)
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != row.want {
			t.Errorf("%s: got %q, %v, want %q", row.mount, got, err, row.want)
		}
	}
}
