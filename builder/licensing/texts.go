package licensing

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// maxTexts is how much the texts of one bundle may have together, in bytes.
const maxTexts = 1 << 30

// The names in an archive of texts.
const (
	reportName = "licenses.json"
	textsDir   = "texts/"
)

// Texts keeps texts of licenses, each content once, in a temporary file without a name. Several goroutines may use it.
type Texts struct {
	mu   sync.Mutex
	file *os.File
	at   map[string]int64 // offsets, by sha256 in hex
	end  int64
}

// NewTexts returns an empty store. Close it.
func NewTexts() (*Texts, error) {
	f, err := os.CreateTemp("", "sealift-licenses-")
	if err != nil {
		return nil, fmt.Errorf("temporary file for texts of licenses: %w; TMPDIR names another folder for it", err)
	}
	return &Texts{file: f, at: make(map[string]int64)}, os.Remove(f.Name())
}

// Close frees the space on the disk.
func (t *Texts) Close() error { return t.file.Close() }

// Keep keeps a text. It is for inventory.Options.
func (t *Texts) Keep(sha256 string, text []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.at[sha256]; known {
		return nil
	}
	if t.end+int64(len(text)) > maxTexts {
		return fmt.Errorf("they have more than %d MiB together", maxTexts>>20)
	}
	if _, err := t.file.WriteAt(text, t.end); err != nil {
		return err
	}
	t.at[sha256] = t.end
	t.end += int64(len(text))
	return nil
}

// WriteArchive writes a .tar.gz with the report, licenses.json, and each of its texts once, texts/<sha256>.txt. The same report and texts
// give the same bytes.
func (t *Texts) WriteArchive(w io.Writer, r *Report) error {
	z := gzip.NewWriter(w)
	out := tar.NewWriter(z)
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("encode the licenses: %w", err)
	}
	if err := header(out, reportName, int64(len(data))); err != nil {
		return err
	}
	if _, err := out.Write(data); err != nil {
		return err
	}
	for _, text := range r.Texts {
		at, known := t.at[text.SHA256]
		if !known {
			return fmt.Errorf("the text %s was not kept", text.SHA256)
		}
		if err := header(out, textsDir+text.SHA256+".txt", text.Size); err != nil {
			return err
		}
		if _, err := io.Copy(out, io.NewSectionReader(t.file, at, text.Size)); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), z.Close())
}

// header begins a file. Its time is that of every file in an archive of Sealift.
func header(out *tar.Writer, name string, size int64) error {
	return out.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, Typeflag: tar.TypeReg, ModTime: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)})
}
