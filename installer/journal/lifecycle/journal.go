package lifecycle

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/filelock"
	"github.com/sealift/sealift/internal/hostpath"
	"github.com/sealift/sealift/internal/regularfile"
)

// Outcome is the result of a step in a record.
type Outcome string

// The outcomes of a record.
const (
	Started  Outcome = "started"
	Finished Outcome = "finished"
	Failed   Outcome = "failed"
	// Stopped is a step that did not finish because another failed, or because its process was killed.
	Stopped Outcome = "stopped"
	// Waiting is the outcome of events alone, and of no record: see Note.
	Waiting Outcome = "waiting"
)

// Operation is what a run does to the node.
type Operation string

// The operations. A node has at most one journal, which all of them share.
const (
	Installing Operation = "install"
	Joining    Operation = "join"
	Upgrading  Operation = "upgrade"
	Resetting  Operation = "reset"
	Renewing   Operation = "renew" // of certificates
	Restoring  Operation = "restore"
	Adopting   Operation = "adopt" // a node that another installer made
	// Readdressing changes the address of the node.
	Readdressing Operation = "readdress"
	Rotating     Operation = "rotate" // of keys for Secrets
	// RotatingCAs replaces the CAs of the cluster, and its service-account key.
	RotatingCAs Operation = "rotate-ca"
	// MovingAPI changes the load balancer of the cluster's API.
	MovingAPI Operation = "load-balancer"
)

// Record is one line of the journal.
type Record struct {
	Time      time.Time     `json:"time"`
	Operation Operation     `json:"operation,omitempty"` // "" in a journal of an earlier sealift
	Step      string        `json:"step"`
	Phase     Phase         `json:"phase"`
	AddOn     string        `json:"addOn,omitempty"`
	Inputs    string        `json:"inputs"`
	Options   string        `json:"options,omitempty"` // digest of the add-on's options, see Step
	Outcome   Outcome       `json:"outcome"`
	Duration  time.Duration `json:"duration,omitempty"` // nanoseconds
	Error     string        `json:"error,omitempty"`
	State     State         `json:"state,omitempty"`
}

// Journal lists what a node has finished: one JSON record per line, each synced to disk before the work continues. Only root
// can read the file, since hooks may leave secrets in their state.
type Journal struct {
	dir   string
	file  *os.File // nil before the first record of a node that has none
	lock  *os.File
	whole int64 // length of the file without a last line that a crash cut

	mu      sync.Mutex // guards the fields below: steps may run side by side
	records []Record
	last    map[string]int // the newest record of each step
}

// ErrBusy means that another process works on the same node.
var ErrBusy = errors.New("another sealift is at work on this node")

// The files of a journal.
const (
	journalName = "journal.jsonl"
	lockName    = "lock"
)

// JournalFile is the file with the records of a journal in dir.
func JournalFile(dir string) string { return filepath.Join(dir, journalName) }

// OpenJournal opens the journal in dir exclusively; the lock ends with the process. It changes nothing on the disk before
// Begin, so that looking leaves no trace. A last line that was cut by a crash is passed over.
func OpenJournal(dir string) (*Journal, error) {
	j := &Journal{dir: dir, last: map[string]int{}}
	if _, err := os.Stat(filepath.Join(dir, journalName)); errors.Is(err, os.ErrNotExist) {
		return j, nil
	}
	if err := j.acquire(0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return j, err
	}
	return j, j.open(0)
}

// Begin creates the journal and acquires the lock, if necessary, and drops a last line truncated by a crash. Every Run begins
// with it.
func (j *Journal) Begin() error {
	if err := files.MkdirAll(j.dir, 0o700); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if j.lock == nil {
		if err := j.acquire(os.O_CREATE); err != nil {
			return err
		}
	}
	if j.file == nil {
		if err := j.open(os.O_CREATE); err != nil {
			return err
		}
		if len(j.records) > 0 {
			return errors.Join(fmt.Errorf("%w: it began after the plan was made; run the command again", ErrBusy), j.Close())
		}
	}
	info, err := j.file.Stat()
	if err == nil && info.Size() > j.whole {
		err = j.file.Truncate(j.whole)
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return files.SyncDir(j.dir)
}

// acquire acquires the lock. flags has os.O_CREATE where its file may be created.
func (j *Journal) acquire(flags int) (err error) {
	if j.lock, err = regularfile.OpenFile(filepath.Join(j.dir, lockName), os.O_RDWR|flags, 0o600); err != nil {
		j.lock = nil
		return fmt.Errorf("journal: %w", err)
	}
	if err := filelock.TryLock(j.lock); err != nil {
		return errors.Join(fmt.Errorf("%w; wait for it to end (%s is locked)", ErrBusy, j.lock.Name()), j.Close())
	}
	return nil
}

// open reads the records. flags has os.O_CREATE where the file may be made.
func (j *Journal) open(flags int) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, j.Close())
		}
	}()
	if j.file, err = regularfile.OpenFile(filepath.Join(j.dir, journalName), os.O_RDWR|flags, 0o600); err != nil {
		j.file = nil
		return fmt.Errorf("journal: %w", err)
	}
	if j.records, j.whole, err = readRecords(j.file); err != nil {
		return fmt.Errorf("%s: %w", j.file.Name(), err)
	}
	for i, rec := range j.records {
		j.last[rec.Step] = i
	}
	return nil
}

// Busy reports whether another process has the journal in dir open.
func Busy(dir string) bool {
	f, err := regularfile.Open(filepath.Join(dir, lockName))
	if err != nil {
		return false
	}
	defer f.Close()
	locked, err := filelock.IsLocked(f)
	return locked && err == nil
}

// ReadJournal reads the records in dir without locking: for showing them while work is in progress. A missing journal has no
// records.
func ReadJournal(dir string) ([]Record, error) {
	f, err := regularfile.Open(filepath.Join(dir, journalName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("%w; it is readable only for root, %s", err, hostpath.WithSudo())
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	records, _, err := readRecords(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return records, nil
}

// readRecords returns all complete records and the length of the file that they fill.
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
			return nil, 0, fmt.Errorf("line %d is not a record; the file was changed by hand or damaged: move it away, run 'sealift reset', and install again", n)
		}
		records = append(records, rec)
		good += int64(len(line))
	}
}

// Records returns all records, oldest first.
func (j *Journal) Records() []Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.records)
}

// newest returns the newest record of a step.
func (j *Journal) newest(id string) (Record, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	i, ok := j.last[id]
	if !ok {
		return Record{}, false
	}
	return j.records[i], true
}

// Finished returns the record of a step that was finished with the same inputs, and does not have to run again.
func (j *Journal) Finished(s Step) (Record, bool) {
	rec, ok := j.Last(s.ID)
	if !ok || s.Again || rec.Inputs != s.Inputs {
		return Record{}, false
	}
	return rec, true
}

// Last returns the newest record of a finished step, with any inputs.
func (j *Journal) Last(id string) (Record, bool) {
	rec, ok := j.newest(id)
	if !ok || rec.Outcome != Finished {
		return Record{}, false
	}
	return rec, true
}

// Began reports whether a step was ever started.
func (j *Journal) Began(id string) bool {
	_, ok := j.newest(id)
	return ok
}

// Open returns the steps that were running when the last run was killed.
func (j *Journal) Open() []string {
	var steps []string
	for _, rec := range OpenIn(j.Records()) {
		steps = append(steps, rec.Step)
	}
	return steps
}

// OpenIn returns the records of unfinished steps: those that run, or ran when the last run was killed.
func OpenIn(records []Record) []Record {
	open := make(map[string]int)
	for i, rec := range records {
		delete(open, rec.Step)
		if rec.Outcome == Started {
			open[rec.Step] = i
		}
	}
	var found []Record
	for _, i := range slices.Sorted(maps.Values(open)) {
		found = append(found, records[i])
	}
	return found
}

// LastFailure returns the failure that ended the last run, if one did: no step was started after it. Where several failed, it is
// the first.
func LastFailure(records []Record) (failure Record, failed bool) {
	for _, rec := range slices.Backward(records) {
		switch rec.Outcome {
		case Started:
			return failure, failed
		case Failed:
			failure, failed = rec, true
		}
	}
	return failure, failed
}

// closeOpen records that the unfinished steps of the last run no longer run.
func (j *Journal) closeOpen() error {
	for _, rec := range OpenIn(j.Records()) {
		rec.Time, rec.Outcome, rec.Error = time.Now().UTC(), Stopped, "its process was killed"
		if err := j.append(rec); err != nil {
			return err
		}
	}
	return nil
}

// append writes one record and returns when it is on the disk.
func (j *Journal) append(rec Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
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
	j.whole = start + int64(len(line)) + 1
	j.records = append(j.records, rec)
	j.last[rec.Step] = len(j.records) - 1
	return nil
}

// Remove removes the records and the lock from the disk. The lock is held until Close.
func (j *Journal) Remove() error {
	for _, name := range []string{journalName, lockName} {
		if err := files.Remove(filepath.Join(j.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// Close releases the lock.
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
