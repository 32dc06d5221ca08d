package isolation_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sealift/sealift/internal/testing/isolation"
)

func TestPowerLossKeepsOnlySyncedData(t *testing.T) {
	d := isolation.NewDisk(t, 32<<20)
	write := func(name string, sync bool) {
		file, err := os.Create(filepath.Join(d.Path(), name))
		if err == nil {
			_, err = file.WriteString("content")
		}
		if err == nil && sync {
			err = file.Sync()
		}
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	write("synced", true)
	write("written", false)
	d.CutPower()
	if err := d.Restore(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(d.Path(), "synced")); err != nil || string(text) != "content" {
		t.Errorf("what was synced is %q, %v", text, err)
	}
	if text, err := os.ReadFile(filepath.Join(d.Path(), "written")); err == nil && len(text) > 0 {
		t.Errorf("what was not synced is there: %q", text)
	}
}

func TestFullDiskRefusesWrites(t *testing.T) {
	d := isolation.NewDisk(t, 32<<20)
	name := filepath.Join(d.Path(), "file")
	free := d.Fill()
	if err := os.WriteFile(name, make([]byte, 1<<16), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
	free()
	if err := os.WriteFile(name, make([]byte, 1<<16), 0o600); err != nil {
		t.Error(err)
	}
}
