//go:build grid

package airgap_test

import (
	"fmt"
	"strings"
)

// outOfDisk gives a host separate file systems for the install's folders, and fills each of them at some time.
func outOfDisk(n node) {
	const state = "/var/lib/sealift/state"
	disks := map[string]string{"/var/lib/sealift": "1g", state: "256m", "/var/lib/containerd": "6g", "/var/lib/etcd": "6g"}
	for _, path := range []string{"/var/lib/sealift", state, "/var/lib/containerd", "/var/lib/etcd"} {
		n.must(fmt.Sprintf("mkdir -p %s && mount -t tmpfs -o size=%s,mode=0700 none %s", path, disks[path], path))
	}
	for _, row := range []struct{ step, disk, told string }{
		{"kubernetes/files", "/var/lib/sealift", "no space left"},
		{"node/packages", "/var/lib/sealift", "no space left"},
		{"kubernetes/host", state, "no space left"},
		{"kubernetes/images", "/var/lib/containerd", "no space left"},
		{"flannel/install", "/var/lib/etcd", "too little space"},
	} {
		if n.finished(row.step) { // before the disk was full, the last time
			continue
		}
		// a disk shrunk to its content is full at once; freed space is used up, too
		fill := fmt.Sprintf(`seen=$(cat %[1]s/journal.jsonl 2>/dev/null | wc -l)
(
	until tail -n +$((seen + 1)) %[1]s/journal.jsonl | grep -q '"step":"%[2]s".*"outcome":"started"'; do sleep 0.02; done
	while mount -o remount,size=$(df --block-size=1 --output=used %[3]s | tail -n 1) %[3]s || :; do sleep 0.05; done
) >/dev/null 2>&1 &
`, state, row.step, row.disk)
		out, code := n.run(fill + install + " 2>&1; code=$?; kill $!; wait; exit $code")
		if code != 1 || !strings.Contains(out, row.told) || !strings.Contains(out, row.disk+" has ") {
			n.t.Errorf("%s full in step %s: exit %d\n%s", row.disk, row.step, code, out)
		}
		n.t.Logf("%s full in step %s:\n%s", row.disk, row.step, out[max(0, len(out)-1200):])
		n.must(fmt.Sprintf("mount -o remount,size=%s %s; sealift status -o json | grep -q '\"state\": \"\\(failed\\|interrupted\\)\"'", disks[row.disk], row.disk))
	}
}
