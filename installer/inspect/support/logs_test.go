package support

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/host/redact"
)

// collected runs a part of a collection and returns what it added to the bundle.
func collected(t *testing.T, work func(*collection)) string {
	t.Helper()
	c := &collection{Options: Options{Log: slog.New(slog.DiscardHandler)}, dir: t.TempDir(), redactor: redact.New()}
	work(c)
	var all strings.Builder
	err := filepath.WalkDir(c.dir, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		all.WriteString(entry.Name() + ": ")
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// TestLogsOutsideRootAreOmitted has links and pipes that a pod which may write to the folder of logs can make.
func TestLogsOutsideRootAreOmitted(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	link := func(target, name string) error { return os.Symlink(target, filepath.Join(dir, name)) }
	if err := errors.Join(
		os.WriteFile(filepath.Join(outside, "0.log"), []byte("PEARL"), 0o600), os.Mkdir(filepath.Join(dir, "pod"), 0o700),
		os.WriteFile(filepath.Join(dir, "pod", "0.log"), []byte("well"), 0o600), link("0.log", "pod/newest.log"),
		link(outside, "other-pod"), link(outside, "pod/folder"), link(filepath.Join(outside, "0.log"), "pod/1.log"),
		link("/var/lib/docker/containers/../../../.."+outside+"/0.log", "pod/2.log"), unix.Mkfifo(filepath.Join(dir, "pod", "3.log"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	got := collected(t, func(c *collection) { c.podLogs(dir) })
	if strings.Contains(got, "PEARL") || strings.Count(got, "well") != 2 {
		t.Errorf("collected %q", got)
	}
}

// TestSwappedLogsAreOmitted uses a pod that makes a link of its log while logs are collected.
func TestSwappedLogsAreOmitted(t *testing.T) {
	outside, dir := filepath.Join(t.TempDir(), "key"), t.TempDir()
	log, link, file := filepath.Join(dir, "0.log"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := errors.Join(os.WriteFile(outside, []byte("PEARL"), 0o600), os.WriteFile(log, []byte("well"), 0o600)); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := errors.Join(os.Symlink(outside, link), os.Rename(link, log), os.WriteFile(file, []byte("well"), 0o600), os.Rename(file, log)); err != nil {
				done <- err
				return
			}
		}
	}()
	for range 300 {
		if got := collected(t, func(c *collection) { c.tree("logs", dir) }); strings.Contains(got, "PEARL") {
			t.Error("a file from outside got in")
			break
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
