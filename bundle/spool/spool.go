// Package spool keeps files that take long to make in a folder, each with a description beside it.
//
// A file is complete and has the digest of its description, or it is recreated. The package knows nothing about what is in the files.
package spool

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/sha256hex"
)

// Description describes a file. It is kept as JSON.
type Description interface {
	Digest() string // sha256 of the file, lower-case hex
}

// Read returns the description of a file. A file that is missing or damaged is an error.
func Read[D Description](name string) (d D, err error) {
	data, err := os.ReadFile(name + ".json")
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return d, err
	}
	f, err := os.Open(name)
	if err != nil {
		return d, err
	}
	defer f.Close()
	digest, _, err := sha256hex.Read(f)
	if err == nil && digest != d.Digest() {
		err = fmt.Errorf("%s is damaged", name)
	}
	return d, err
}

// Write makes a file and its folder. write writes the content and returns its description. The file has its name only if write succeeds.
func Write[D Description](name string, write func(*os.File) (D, error)) (d D, err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return d, err
	}
	if err := atomicfile.Remove(name + ".json"); err != nil {
		return d, err
	}
	err = atomicfile.Fill(name, 0o644, func(w *os.File) error {
		d, err = write(w)
		return err
	})
	if err != nil {
		return d, err
	}
	data, err := json.Marshal(d)
	if err != nil {
		return d, err
	}
	return d, atomicfile.Write(name+".json", data)
}
