package capacity_test

import (
	"testing"
	"testing/fstest"

	"github.com/sealift/sealift/internal/capacity"
)

func files(pairs ...string) fstest.MapFS {
	root := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		root[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return root
}

func TestLimitsOfContainersCount(t *testing.T) {
	const meminfo = "MemTotal:        8000000 kB\nMemFree: 1 kB\n"
	for name, row := range map[string]struct {
		root   fstest.MapFS
		cpus   float64
		memory uint64
	}{
		"a machine":               {files("proc/meminfo", meminfo), 4, 8000000 << 10},
		"version 2 without any":   {files("proc/meminfo", meminfo, "sys/fs/cgroup/cpu.max", "max 100000\n", "sys/fs/cgroup/memory.max", "max\n"), 4, 8000000 << 10},
		"version 2":               {files("proc/meminfo", meminfo, "sys/fs/cgroup/cpu.max", "150000 100000\n", "sys/fs/cgroup/memory.max", "2147483648\n"), 1.5, 2 << 30},
		"version 2 with too much": {files("proc/meminfo", meminfo, "sys/fs/cgroup/cpu.max", "900000 100000\n", "sys/fs/cgroup/memory.max", "21474836480000\n"), 4, 8000000 << 10},
		"version 1 without any": {files("proc/meminfo", meminfo, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"), 4, 8000000 << 10},
		"version 1": {files("proc/meminfo", meminfo, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "20000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n"), 0.2, 1 << 30},
		"nonsense": {files("proc/meminfo", meminfo, "sys/fs/cgroup/cpu.max", "NaN 0\n", "sys/fs/cgroup/memory.max", "-5\n"), 4, 8000000 << 10},
	} {
		memory, err := capacity.Memory(row.root)
		if cpus := capacity.Processors(row.root, 4); err != nil || memory != row.memory || cpus != row.cpus {
			t.Errorf("%s: %v processors, %d bytes, %v; want %v and %d", name, cpus, memory, err, row.cpus, row.memory)
		}
	}
	if _, err := capacity.Memory(files("proc/meminfo", "MemFree: 1 kB\n")); err == nil {
		t.Error("memory without MemTotal")
	}
}

func TestStolenTimeIsCounted(t *testing.T) {
	const first, second = "cpu  100 10 50 9000 800 3 2 40 0 0\ncpu0 1 1\n", "cpu  200 10 60 9900 900 4 3 640 0 0\ncpu0 1 1\n"
	before, after := capacity.Spent(files("proc/stat", first)), capacity.Spent(files("proc/stat", second))
	if want := (capacity.Ticks{Used: 165, Stolen: 40}); before != want {
		t.Errorf("%+v, want %+v", before, want)
	}
	if got, want := after.Since(before), (capacity.Ticks{Used: 112, Stolen: 600}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, text := range []string{"", "cpu  1 2 3\n", "cpu  a b c d e f g h\n", "intr 1 2 3 4 5 6 7 8 9\n"} {
		if got := capacity.Spent(files("proc/stat", text)); got != (capacity.Ticks{}) {
			t.Errorf("%q: %+v", text, got)
		}
	}
	if got := before.Since(after); got != (capacity.Ticks{}) {
		t.Errorf("a counter that went back: %+v", got)
	}
}
