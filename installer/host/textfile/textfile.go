// Package textfile keeps a file with metrics in a folder that the textfile collector of node_exporter reads. It remembers the file and the
// folders that it made, so that a reset can remove them.
package textfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/regularfile"
)

// DefaultFolder is the one of node_exporter's own systemd unit and of its RPM packages. node_exporter has no default of its own. Debian's
// package reads /var/lib/prometheus/node-exporter.
const DefaultFolder = "/var/lib/node_exporter/textfile_collector"

// Name is the name of the file in the folder. The collector reads names that end in .prom.
const Name = "sealift.prom"

// Place is where a node writes its metrics.
type Place struct {
	// Memory is the file that names the written file and the folders that were made for it.
	Memory string
}

// memory is the content of that file.
type memory struct {
	File string   `json:"file"`
	Made []string `json:"made"` // folders, a parent before its children
}

// Write replaces the file in a folder, and removes one that was written to another folder before. Everybody may read it.
func (p Place) Write(folder string, text []byte) error {
	was, err := p.read()
	if err != nil {
		return err
	}
	file := filepath.Join(folder, Name)
	if was.File != file {
		if err := p.Remove(); err != nil {
			return err
		}
		if err := p.remember(memory{file, missing(folder)}); err != nil {
			return err
		}
	}
	if err := files.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return files.Write(file, text)
}

// Remove removes the file, and the folders that were made for it if nothing else is in them.
func (p Place) Remove() error {
	was, err := p.read()
	if err != nil || was.File == "" {
		return err
	}
	if err := files.Remove(was.File); err != nil {
		return err
	}
	for _, folder := range slices.Backward(was.Made) {
		if err := files.Remove(folder); err != nil && !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
	}
	return files.Remove(p.Memory)
}

func (p Place) read() (m memory, err error) {
	text, err := regularfile.ReadFile(p.Memory)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return m, fmt.Errorf("the record of the file with metrics: %w; remove %s, and %s in the folder of node_exporter", err, p.Memory, Name)
	}
	return m, nil
}

func (p Place) remember(m memory) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return files.WriteMode(p.Memory, 0o600, text)
}

// missing lists the folders of a path that do not exist, a parent before its children.
func missing(folder string) (list []string) {
	for at := filepath.Clean(folder); ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
			slices.Reverse(list)
			return list
		}
		list = append(list, at)
	}
}
