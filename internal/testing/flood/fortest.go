package flood

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/sealift/sealift/testgrid/lab/daemon"
)

// TestMain is the TestMain of a package whose tests call StartForTest.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "flood" {
		Main()
		return
	}
	os.Exit(m.Run())
}

// StartForTest lets clients flood their servers from another process. ctx ends with the flood's time. strict reports whether the machine
// does nothing else: see floodTime. Call end for the report.
func StartForTest(t *testing.T, clients []Client) (ctx context.Context, strict bool, end func() Report) {
	t.Helper()
	self, err := os.Executable()
	program := filepath.Join(t.TempDir(), "flood")
	if err == nil {
		err = os.Symlink(self, program)
	}
	if err != nil {
		t.Fatal(err)
	}
	f := Flood{Clients: clients}
	if f.Time, strict, err = floodTime(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), f.Time)
	t.Cleanup(cancel)
	wait, err := f.start(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	return ctx, strict, func() Report {
		t.Helper()
		report, err := wait()
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
}

// MemoryForTest starts to measure the memory of this process. The returned function returns how many bytes more it has used at most since.
func MemoryForTest(t *testing.T) (grown func() int64) {
	t.Helper()
	if err := daemon.ForgetPeak(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	peak := func() int64 {
		t.Helper()
		most, err := daemon.PeakMemory(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		return most
	}
	before := peak()
	return func() int64 {
		t.Helper()
		return peak() - before
	}
}
