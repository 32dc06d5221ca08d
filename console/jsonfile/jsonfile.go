// Package jsonfile keeps values of the console in files that root alone reads. A file is replaced as a whole, or not at all.
package jsonfile

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/regularfile"
)

// ErrDamaged means that a file has no JSON of the value that is read.
var ErrDamaged = errors.New("is damaged; remove it")

// Write writes a value to a file.
func Write(name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return atomicfile.WriteMode(name, 0o600, append(text, '\n'))
}

// Read reads a file into a value. A missing file is fs.ErrNotExist, and another one that cannot be decoded ErrDamaged.
func Read(name string, into any) error {
	text, err := regularfile.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s %w: %w", name, ErrDamaged, err)
	}
	return nil
}
