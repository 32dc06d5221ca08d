package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/filelock"
)

// journal records one multipart upload on the disk: its id and the finished parts. It is a file of JSON lines: the first
// line describes the upload, each other line a part. If the process dies, at most the last line is incomplete. A nil
// journal records nothing.
type journal struct {
	file  *os.File
	head  journalHead
	parts map[int32]string // ETags by number
}

// journalHead is the first line. Upload is empty before the upload starts.
type journalHead struct {
	Upload string `json:"upload"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	Part   int64  `json:"part"` // bytes of each part but the last
}

func (h journalHead) sameValue(other journalHead) bool {
	h.Upload = other.Upload
	return h == other
}

// journalPart is one of the other lines: an uploaded part.
type journalPart struct {
	Number int32  `json:"number"`
	ETag   string `json:"etag"`
}

// maxJournal is the maximum size of a journal, in bytes: 10,000 lines of at most 400 bytes.
const maxJournal = 4 << 20

// openJournal opens the journal for a key in a store. It returns nil if folder is empty, or if another process on this
// machine is uploading the same key: then both upload independently.
func openJournal(folder, store, key string) (*journal, error) {
	if folder == "" {
		return nil, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("write the upload journal: %w", err)
	}
	sum := sha256.Sum256([]byte(store + "\x00" + key))
	name := filepath.Join(folder, hex.EncodeToString(sum[:16])+".journal")
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, fmt.Errorf("write the upload journal: %w", err)
		}
		err = filelock.TryLock(f)
		if errors.Is(err, filelock.ErrLocked) {
			return nil, f.Close()
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if filelock.HasName(f, os.Stat) {
			return readJournal(f)
		}
		if err := f.Close(); err != nil { // the process that held the lock has removed it
			return nil, err
		}
	}
}

func readJournal(f *os.File) (*journal, error) {
	data, err := io.ReadAll(io.LimitReader(f, maxJournal))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", f.Name(), err), f.Close())
	}
	j := &journal{file: f}
	var whole int64
	j.head, j.parts, whole = parseJournal(data)
	if err := f.Truncate(whole); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := f.Seek(whole, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// parseJournal reads the complete lines and returns their size in bytes. It ignores everything after a line that cannot be
// read.
func parseJournal(data []byte) (head journalHead, parts map[int32]string, whole int64) {
	parts = make(map[int32]string)
	for first := true; ; first = false {
		line, _, found := bytes.Cut(data[whole:], []byte("\n"))
		if !found {
			return head, parts, whole
		}
		if first {
			if json.Unmarshal(line, &head) != nil || head.Upload == "" || head.Size <= 0 || head.Part <= 0 {
				return journalHead{}, parts, 0
			}
		} else {
			var p journalPart
			if json.Unmarshal(line, &p) != nil || p.Number < 1 || p.Number > maxParts || p.ETag == "" {
				return head, parts, whole
			}
			parts[p.Number] = p.ETag
		}
		whole += int64(len(line)) + 1
	}
}

// kept reports whether a later run can resume the upload.
func (j *journal) kept() bool { return j != nil }

// known returns the upload to resume. Its id is empty if there is none.
func (j *journal) known() journalHead {
	if j == nil {
		return journalHead{}
	}
	return j.head
}

// start begins the journal of another upload.
func (j *journal) start(head journalHead) error {
	if j == nil {
		return nil
	}
	j.forget()
	if err := j.file.Truncate(0); err != nil {
		return err
	}
	if _, err := j.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	j.head = head
	if err := j.write(head); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(j.file.Name()))
}

// forget drops the recorded upload. start records the next one.
func (j *journal) forget() {
	if j != nil {
		j.head, j.parts = journalHead{}, make(map[int32]string)
	}
}

// done records a finished part. It may be called from several goroutines.
func (j *journal) done(n int32, etag string) error {
	if j == nil {
		return nil
	}
	return j.write(journalPart{n, etag})
}

func (j *journal) write(line any) error {
	data, err := json.Marshal(line)
	if err == nil {
		_, err = j.file.Write(append(data, '\n')) // a single write, so that lines of several goroutines do not mix
	}
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("write the upload journal: %w", err)
	}
	return nil
}

// remove deletes the journal after a complete upload.
func (j *journal) remove() error {
	if j == nil {
		return nil
	}
	j.forget()
	return os.Remove(j.file.Name())
}

// close closes the journal. If the upload can be resumed, the file stays.
func (j *journal) close() error {
	if j == nil {
		return nil
	}
	if j.head.Upload == "" {
		if err := atomicfile.Remove(j.file.Name()); err != nil {
			return errors.Join(err, j.file.Close())
		}
	}
	return j.file.Close()
}
