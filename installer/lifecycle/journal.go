package lifecycle

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/atomicfile"
)

// Outcome is what a record says of its step.
type Outcome string

// The outcomes of a record.
const (
	Started  Outcome = "started"
	Finished Outcome = "finished"
	Failed   Outcome = "failed"
)

// Record is one line of the journal.
type Record struct {
	Time     time.Time     `json:"time"`
	Step     string        `json:"step"`
	Phase    Phase         `json:"phase"`
	AddOn    string        `json:"addOn,omitempty"`
	Inputs   string        `json:"inputs"`
	Outcome  Outcome       `json:"outcome"`
	Duration time.Duration `json:"duration,omitempty"` // nanoseconds
	Error    string        `json:"error,omitempty"`
	State    State         `json:"state,omitempty"`
}

// Journal is what a node has finished: one JSON record a line, each synced to disk before the work goes on. The file is
// readable by root alone, since hooks may leave secrets in their state.
type Journal struct {
	dir     string
	records []Record
	last    map[string]int // the newest record of each step
	file    *os.File       // nil before the first record of a node that has none
	lock    *os.File
}

// ErrBusy says that another process works on the same node.
var ErrBusy = errors.New("another sealift is at work on this node")

// The files of a journal.
const (
	journalName = "journal.jsonl"
	lockName    = "lock"
)

// OpenJournal opens the journal in dir for one process alone; the lock goes with the process. A last line that was cut
// by a crash is dropped. Where there is no journal nothing is made until Begin, so that looking leaves no trace.
func OpenJournal(dir string) (*Journal, error) {
	j := &Journal{dir: dir, last: map[string]int{}}
	if _, err := os.Stat(filepath.Join(dir, journalName)); errors.Is(err, os.ErrNotExist) {
		return j, nil
	}
	return j, j.open()
}

// Begin makes the journal's folder and takes the lock, if that is not done. Every Run begins with it.
func (j *Journal) Begin() error {
	if j.file != nil {
		return nil
	}
	if err := atomicfile.MkdirAll(j.dir, 0o700); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := j.open(); err != nil {
		return err
	}
	if len(j.records) > 0 {
		return errors.Join(fmt.Errorf("%w: it began after the plan was made; run the command again", ErrBusy), j.Close())
	}
	return nil
}

func (j *Journal) open() (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, j.Close())
		}
	}()
	if j.lock, err = os.OpenFile(filepath.Join(j.dir, lockName), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := unix.Flock(int(j.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("%w; wait for it to end (%s is locked)", ErrBusy, j.lock.Name())
	}
	if j.file, err = os.OpenFile(filepath.Join(j.dir, journalName), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	records, good, err := readRecords(j.file)
	if err != nil {
		return fmt.Errorf("%s: %w", j.file.Name(), err)
	}
	if err := j.file.Truncate(good); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.setRecords(records)
	return atomicfile.SyncDir(j.dir)
}

// Busy says whether another process has the journal in dir open.
func Busy(dir string) bool {
	f, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// ReadJournal reads the records in dir without locking: for showing them while work goes on. No journal is no records.
func ReadJournal(dir string) ([]Record, error) {
	f, err := os.Open(filepath.Join(dir, journalName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	records, _, err := readRecords(f)
	return records, err
}

// readRecords returns all whole records and the length of the file that they fill.
func readRecords(r io.Reader) (records []Record, good int64, err error) {
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return records, good, nil // a line without its end was cut by a crash: its step did not report
		}
		if err != nil {
			return nil, 0, err
		}
		var rec Record
		dec := json.NewDecoder(bytes.NewReader(line))
		if err := dec.Decode(&rec); err != nil || rec.Step == "" {
			return nil, 0, fmt.Errorf("line %d is not a record; the file was changed by hand or damaged: move it away to start anew", n)
		}
		records = append(records, rec)
		good += int64(len(line))
	}
}

func (j *Journal) setRecords(records []Record) {
	j.records, j.last = records, make(map[string]int)
	for i, rec := range records {
		j.last[rec.Step] = i
	}
}

// Records gives all records, oldest first.
func (j *Journal) Records() []Record { return j.records }

// Finished gives the record of a step that was finished with the same inputs.
func (j *Journal) Finished(s Step) (Record, bool) {
	i, ok := j.last[s.ID]
	if !ok || j.records[i].Outcome != Finished || j.records[i].Inputs != s.Inputs {
		return Record{}, false
	}
	return j.records[i], true
}

// Last gives the newest record of a step that was finished, with whatever inputs.
func (j *Journal) Last(id string) (Record, bool) {
	i, ok := j.last[id]
	if !ok || j.records[i].Outcome != Finished {
		return Record{}, false
	}
	return j.records[i], true
}

// Began says whether a step was ever started.
func (j *Journal) Began(id string) bool {
	_, ok := j.last[id]
	return ok
}

// Open gives the step that was running when the last run was killed, "" if none was.
func (j *Journal) Open() string {
	if n := len(j.records); n > 0 && j.records[n-1].Outcome == Started {
		return j.records[n-1].Step
	}
	return ""
}

// append writes one record and returns when it is on the disk.
func (j *Journal) append(rec Record) error {
	line, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	start, err := j.file.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	_, err = j.file.Write(append(line, '\n'))
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil { // a full disk: leave no half line before what may follow
		return fmt.Errorf("journal: %w", errors.Join(err, j.file.Truncate(start)))
	}
	j.records = append(j.records, rec)
	j.last[rec.Step] = len(j.records) - 1
	return nil
}

// Close gives the node free.
func (j *Journal) Close() error {
	var errs []error
	for _, f := range []*os.File{j.file, j.lock} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	j.file, j.lock = nil, nil
	return errors.Join(errs...)
}
