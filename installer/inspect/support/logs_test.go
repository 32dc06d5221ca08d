package support

import (
	"bytes"
	"compress/gzip"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/host/redact"
)

// collected runs a part of a collection and returns what it added to the bundle.
func collected(t *testing.T, work func(*collection)) string {
	t.Helper()
	c := &collection{Options: Options{Log: slog.New(slog.DiscardHandler)}, dir: t.TempDir(), room: maxLogs, redactor: redact.New()}
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

// TestCompressedLogsAreMasked has logs as the kubelet and logrotate compress them. One without its end is left out, and so is one that
// nothing here unpacks.
func TestCompressedLogsAreMasked(t *testing.T) {
	dir := t.TempDir()
	packed := func(text string) []byte {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		if _, err := z.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	secret := packed("password=PEARL\nwell\n")
	for name, text := range map[string][]byte{
		"0.log.20260101-120000.gz": secret, "old": secret, "1.log.gz": secret[:len(secret)-9], "2.log.xz": []byte("\xfd7zXZ\x00password=PEARL\n"),
		"3.log.gz": packed("password=PEARL\n" + strings.Repeat("many lines\n", 900_000)),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(got string, errs []string, names ...string) {
		t.Helper()
		for _, name := range names {
			if !strings.Contains(got, name+": password="+redact.Mask+"\nwell\n") {
				t.Errorf("%s is not there: %.500q", name, got)
			}
		}
		if strings.Contains(got, "PEARL") || strings.Contains(got, "\x1f\x8b") || strings.Contains(got, "7zXZ") {
			t.Errorf("collected %.500q", got)
		}
		if len(errs) != 2 || !strings.Contains(strings.Join(errs, "\n"), "1.log.gz: it is compressed") {
			t.Errorf("errors %q", errs)
		}
	}
	var errs []string
	got := collected(t, func(c *collection) {
		c.tree("logs", dir)
		errs = c.summary.Errors
	})
	check(got, errs, "0.log.20260101-120000", "old.unpacked")
	if !strings.Contains(got, "3.log: (the last 8388608 of 9900015 bytes)\nmany lines\n") || strings.Contains(got, "3.log.gz") {
		t.Error("the end of a long log is not there")
	}
	got = collected(t, func(c *collection) { // such files of Troubleshoot's collectors
		c.dir = dir
		if err := c.unpack(); err != nil {
			t.Error(err)
		}
		errs = c.summary.Errors
	})
	check(got, errs, "0.log.20260101-120000", "old.unpacked")
}

// TestNewestLogsAreCollectedWithinRoom has more logs than a small disk has room for.
func TestNewestLogsAreCollectedWithinRoom(t *testing.T) {
	dir := t.TempDir()
	for n, name := range []string{"a/0.log", "b/0.log", "a/1.log", "b/1.log", "b/2.log"} { // the newest first
		name = filepath.Join(dir, name)
		at := time.Now().Add(-time.Duration(n) * time.Hour)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte("ten bytes\n"), 0o600), os.Chtimes(name, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	var errs []string
	got := collected(t, func(c *collection) {
		c.room = 25
		c.podLogs(dir)
		errs = c.summary.Errors
	})
	if got != "0.log: ten bytes\n0.log: ten bytes\n" {
		t.Errorf("collected %q", got)
	}
	if len(errs) != 2 || !strings.HasPrefix(errs[0], dir+"/a: 1 older files are left out") || !strings.HasPrefix(errs[1], dir+"/b: 2 older files are left out") {
		t.Errorf("errors %q", errs)
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
