package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/regularfile"
)

// Run is the part of a run that survives it, besides its journal.
type Run struct {
	Installer string         `json:"installer"`
	Bundle    string         `json:"bundle"`
	Log       string         `json:"log"`
	Resume    string         `json:"resume,omitempty"` // the command that resumes it
	Began     time.Time      `json:"began"`
	AddOns    []AddOn        `json:"addOns"`
	Plan      lifecycle.Plan `json:"plan"`
	Address   string         `json:"address,omitempty"`  // of the host, by which other nodes reach it
	Networks  []string       `json:"networks,omitempty"` // of the cluster that the host joins, which no step chooses
	Content   Content        `json:"content,omitzero"`
}

// Content is what all of a bundle takes on a node, in bytes.
type Content struct {
	Files  uint64 `json:"files"`  // below the install root
	Images uint64 `json:"images"` // in containerd, compressed and unpacked, with what the kubelet needs to stay free
}

// AddOn is an add-on that a run brings.
type AddOn struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

func runFile(root string) string { return filepath.Join(StateDir(root), runName) }

// Write makes the run the last one of a node.
func (r Run) Write(root string) error {
	return files.Fill(runFile(root), 0o600, func(w *os.File) error { return json.NewEncoder(w).Encode(r) })
}

// LastRun reads the record of a node's last run. The error is fs.ErrNotExist where there was none.
func LastRun(root string) (r Run, err error) {
	data, err := regularfile.ReadFile(runFile(root))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("read the record of the last run: %w; move %s away, and the next install recreates it", err, runFile(root))
	}
	return r, nil
}

// Made reports whether this host made its cluster, and did not join one.
func Made(root string) (bool, error) {
	records, err := lifecycle.ReadJournal(StateDir(root))
	return slices.ContainsFunc(records, func(r lifecycle.Record) bool { return r.Step == InitStep }), err
}

// Adopted reports whether another installer installed this node, and no upgrade has replaced its kubelet since. An adoption that was
// begun counts: its agent runs before it ends.
func Adopted(root string) (adopted bool, err error) {
	records, err := lifecycle.ReadJournal(StateDir(root))
	for _, rec := range records {
		switch {
		case rec.Operation == lifecycle.Adopting:
			adopted = true
		case rec.Step == KubeletStep && rec.Outcome == lifecycle.Finished:
			adopted = false
		}
	}
	return adopted, err
}
