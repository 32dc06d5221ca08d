package audit_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/sealift/sealift/console/audit"
)

func TestAuditRotates(t *testing.T) {
	name := filepath.Join(t.TempDir(), "logs", "audit.jsonl")
	log := audit.New(name, 1000)
	const entries = 200
	for n := range entries {
		if err := log.Write(audit.Entry{Time: time.Unix(int64(n), 0), Who: "jane", From: "192.0.2.1", What: strconv.Itoa(n), Result: "done"}); err != nil {
			t.Fatal(err)
		}
	}
	found, err := filepath.Glob(name + "*")
	if err != nil || len(found) != 5 {
		t.Errorf("files %v, %v", found, err)
	}
	for _, file := range found {
		if info, err := os.Stat(file); err != nil || info.Size() > 1000 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has %d bytes, mode %s, %v", file, info.Size(), info.Mode(), err)
		}
	}
	last, err := log.Last(20)
	if err != nil || len(last) != 20 {
		t.Fatal(len(last), err)
	}
	for i, e := range last {
		if e.What != strconv.Itoa(entries-1-i) {
			t.Errorf("entry %d is %s", i, e.What)
		}
	}
}

// TestProgramsRotateOneByOne uses two logs of the same files, as the console and its unit for changes have. A file that two rotate at once is
// replaced before it is full.
func TestProgramsRotateOneByOne(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.jsonl")
	const writers, entries, size = 4, 100, 1000
	var group errgroup.Group
	for range writers {
		log := audit.New(name, size)
		group.Go(func() (err error) {
			for n := 0; n < entries && err == nil; n++ {
				err = log.Write(audit.Entry{Time: time.Unix(int64(n), 0), What: "login", Result: "done"})
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 4; n++ {
		if info, err := os.Stat(name + "." + strconv.Itoa(n)); err != nil || info.Size() > size || info.Size() < size-200 {
			t.Errorf("file %d: %+v, %v", n, info, err)
		}
	}
}

func TestCutLineIsLeftOut(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.jsonl")
	log := audit.New(name, 0)
	if err := log.Write(audit.Entry{Time: time.Unix(1, 0), What: "login"}); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"time":"2026-`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if last, err := log.Last(10); err != nil || len(last) != 1 || last[0].What != "login" {
		t.Errorf("got %v, %v", last, err)
	}
}

// TestLongTextsKeepAuditReadable has texts of clients that are longer than a line of most readers.
func TestLongTextsKeepAuditReadable(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.jsonl")
	log := audit.New(name, 0)
	before := `{"time":"2026-01-02T03:04:05Z","who":"joe","from":"","what":"of an earlier release","result":"` + strings.Repeat("x", 1<<20) + `"}` + "\n"
	if err := os.WriteFile(name, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("ä", 100_000)
	if err := log.Write(audit.Entry{Time: time.Unix(1, 0), Who: long, Role: long, Session: long, From: long, What: long, Result: long, Detail: strings.Repeat("\x01", 100_000)}); err != nil {
		t.Fatal(err)
	}
	if err := log.Write(audit.Entry{Time: time.Unix(2, 0), What: "login"}); err != nil {
		t.Fatal(err)
	}
	last, err := log.Last(10)
	if err != nil || len(last) != 3 || last[0].What != "login" || last[2].What != "of an earlier release" {
		t.Fatalf("%d entries, %v", len(last), err)
	}
	for i, text := range []string{last[1].Who, last[1].Role, last[1].Session, last[1].From, last[1].What, last[1].Result, last[1].Detail, last[2].Result} {
		if len(text) > 4096 || len(text) < 4000 || !utf8.ValidString(text) || !strings.HasSuffix(text, "…") {
			t.Errorf("text %d has %d bytes: %.20q", i, len(text), text)
		}
	}
	if info, err := os.Stat(name); err != nil || info.Size() > int64(len(before))+64<<10 {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
}
