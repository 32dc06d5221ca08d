package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/regularfile"
)

// Last is the last snapshot that a node saved into a store.
type Last struct {
	Store string `json:"store"`
	Kept
}

// remember keeps the last snapshot for ReadLast, on a host that sealift installed.
func (s Source) remember(last Last) error {
	file := s.path(node.LastSnapshotFile(s.Root))
	if _, err := os.Stat(filepath.Dir(file)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	text, err := json.Marshal(last)
	if err != nil {
		return err
	}
	return files.WriteMode(file, 0o600, text)
}

// ReadLast returns the last snapshot that this node saved into a store; nil if there was none. It does not look into the store, which may
// be a disk that does not answer, or want credentials.
func ReadLast(root string) (*Last, error) { return readLast(node.LastSnapshotFile(root)) }

func readLast(file string) (*Last, error) {
	text, err := regularfile.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there was none
	}
	if err != nil {
		return nil, err
	}
	last := new(Last)
	if err := json.Unmarshal(text, last); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; the next snapshot rewrites it", file, err)
	}
	return last, nil
}
