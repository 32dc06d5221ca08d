package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sealift/sealift/addon"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/kube"
)

// The files of a memory: NAME.json has the objects with which the add-on was healthy. NAME.json.new has the objects applied
// since, which are not known to be healthy yet.
const (
	memorySuffix = ".json"
	newSuffix    = ".json.new"
)

// remembered is the content of such a file. It may have secrets.
type remembered struct {
	Applied addon.Applied                `json:"applied"`
	Whole   bool                         `json:"whole"` // all of it was applied
	Objects []*unstructured.Unstructured `json:"objects"`
}

// remember records applied objects; whole means that they are complete.
func (a AddOn) remember(objects []*unstructured.Unstructured, whole bool) error {
	if a.Memory == "" {
		return nil
	}
	if err := files.MkdirAll(a.Memory, 0o700); err != nil {
		return err
	}
	text, err := json.Marshal(remembered{a.Applied, whole, objects})
	if err != nil {
		return err
	}
	return files.WriteMode(filepath.Join(a.Memory, a.Name+newSuffix), 0o600, text)
}

// Remember records that all applied add-ons are healthy. From now on, GoBack returns to that.
func Remember(memory string) error {
	names, err := unproven(memory)
	for _, name := range names {
		err = errors.Join(err, prove(memory, name))
	}
	return err
}

func prove(memory, name string) error {
	return files.Rename(filepath.Join(memory, name+newSuffix), filepath.Join(memory, name+memorySuffix))
}

func read(file string) (r remembered, err error) {
	text, err := regularfile.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		err = fmt.Errorf("the record of an add-on: %w", err)
	}
	return r, err
}

// unproven names the applied add-ons that were not yet seen healthy.
func unproven(memory string) (names []string, err error) {
	entries, err := os.ReadDir(memory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), newSuffix); ok {
			names = append(names, name)
		}
	}
	return names, err
}

// Back describes what became of an unhealthy add-on.
type Back struct {
	AddOn string
	Why   string // it was unhealthy
	To    string // the version that was restored; "" if none of it was recorded, so that it does not change
}

// String says it in words.
func (b Back) String() string {
	if b.To == "" {
		return fmt.Sprintf("add-on %s is not healthy, and is not rolled back, because its earlier objects are not known: %s", b.AddOn, b.Why)
	}
	return fmt.Sprintf("add-on %s went back to version %s, since it was not well: %s", b.AddOn, b.To, b.Why)
}

// How long an add-on is watched before it is rolled back, and how long it may take to recover.
const (
	lookTime = 2 * time.Minute
	backTime = 5 * time.Minute
)

// GoBack rolls back the add-ons that were applied since the last Remember and are not healthy: their objects become those that
// were remembered, and later objects go. Healthy add-ons are remembered.
func GoBack(ctx context.Context, memory string, output io.Writer) (gone []Back, err error) {
	here, err := administrator()
	if err != nil {
		return nil, err
	}
	return here.rollBack(ctx, memory, speed.Patience(lookTime), output)
}

func (m *applier) rollBack(ctx context.Context, memory string, look time.Duration, output io.Writer) (gone []Back, err error) {
	names, err := unproven(memory)
	if err != nil {
		return nil, err
	}
	records, err := m.records.List(ctx)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, name := range names {
		members, err := m.engine.Members(ctx, setOf(name, records))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		applied, err := read(filepath.Join(memory, name+newSuffix))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		ill := errors.New("not all of it was applied")
		if applied.Whole {
			ill = m.engine.Wait(ctx, members, kube.WaitOptions{Timeout: look})
		}
		if ill == nil {
			errs = append(errs, prove(memory, name))
			continue
		}
		back, err := m.restore(ctx, memory, name, output)
		back.Why = ill.Error()
		gone, errs = append(gone, back), append(errs, err)
	}
	return gone, errors.Join(errs...)
}

// restore applies the recorded objects of an add-on.
func (m *applier) restore(ctx context.Context, memory, name string, output io.Writer) (back Back, err error) {
	back.AddOn = name
	before, err := read(filepath.Join(memory, name+memorySuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return back, nil
	}
	if err != nil {
		return back, err
	}
	back.To = before.Applied.Version
	a := AddOn{Name: name, Applied: before.Applied}
	err = m.alone(ctx, output, func(ctx context.Context) error {
		_, err := m.applyObjects(ctx, a, slices.Clone(before.Objects), output)
		return err
	})
	if err == nil {
		err = files.Remove(filepath.Join(memory, name+newSuffix))
	}
	if err == nil {
		err = waitFor(ctx, m.engine, before.Objects, speed.Patience(backTime), output)
	}
	if err != nil {
		err = fmt.Errorf("roll add-on %s back to version %s: %w", name, before.Applied.Version, err)
	}
	return back, err
}
