package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/internal/atomicfile"
)

// pastName is the file with a report's data of earlier runs.
const pastName = "past.json"

// Past has the results of earlier runs, the oldest first, by PastKey.
type Past map[string][]Earlier

// PastKey names a test on a system.
func PastKey(test, system string) string { return test + "/" + system }

// Earlier is the result of a test in an earlier run.
type Earlier struct {
	Began    time.Time         `json:"began"`
	Verdict  Verdict           `json:"verdict"`
	Seconds  Seconds           `json:"seconds"`
	Digest   string            `json:"digest,omitempty"`
	Packages map[string]string `json:"packages,omitempty"`
}

// SavePast writes the data of earlier runs, for all later pages.
func (f Folder) SavePast(p Past) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(f.Path, pastName), data)
}

// remember adds past results to cells.
func (f Folder) remember(cells []Cell) error {
	data, err := os.ReadFile(filepath.Join(f.Path, pastName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	past := Past{}
	if err == nil {
		err = json.Unmarshal(data, &past)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", pastName, err)
	}
	for i, c := range cells {
		cells[i].past = past[PastKey(c.Test, c.System)]
	}
	return nil
}

// Change says when a test broke, and which package broke it.
type Change struct {
	Test    string    `json:"test"`
	System  string    `json:"system"`
	Verdict Verdict   `json:"verdict"`
	Since   time.Time `json:"since"` // begin of the first run in which it was broken
	Good    time.Time `json:"good"`  // begin of the last run in which it passed; zero if it never did
	// By names what differs between the two, such as "kubernetes 1.36.3 instead of 1.35.4".
	By []string `json:"by"`
}

func (c Change) String() string {
	text := "broken since " + c.Since.UTC().Format(time.DateTime)
	if c.Good.IsZero() {
		return text + ", the first run that is known"
	}
	return text + " by " + strings.Join(c.By, ", ")
}

// Broke says since when a test is broken, or returns nil if its last run passed.
func Broke(runs []Earlier) *Change {
	if len(runs) == 0 || runs[len(runs)-1].Verdict == Passed {
		return nil
	}
	first := len(runs) - 1
	for first > 0 && runs[first-1].Verdict != Passed {
		first--
	}
	bad := runs[first]
	change := &Change{Verdict: runs[len(runs)-1].Verdict, Since: bad.Began}
	if first == 0 {
		return change
	}
	good := runs[first-1]
	change.Good, change.By = good.Began, differences(good.Packages, bad.Packages)
	if len(change.By) == 0 && good.Digest != bad.Digest {
		change.By = []string{"the test itself: its packages are the same"}
	} else if len(change.By) == 0 {
		change.By = []string{"nothing that went in: test and packages are the same"}
	}
	return change
}

// differences names the packages that differ. The keys are names and versions, such as "kubernetes 1.36.3".
func differences(before, after map[string]string) (lines []string) {
	versions := func(packages map[string]string, name string) (list []string) {
		for _, key := range slices.Sorted(maps.Keys(packages)) {
			if n, version, _ := strings.Cut(key, " "); n == name {
				list = append(list, version)
			}
		}
		return list
	}
	names := map[string]bool{}
	for _, packages := range []map[string]string{before, after} {
		for key := range packages {
			name, _, _ := strings.Cut(key, " ")
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		old, now := strings.Join(versions(before, name), " and "), strings.Join(versions(after, name), " and ")
		switch {
		case old == "":
			lines = append(lines, name+" "+now+", which is new")
		case now == "":
			lines = append(lines, "the removal of "+name+" "+old)
		case old != now:
			lines = append(lines, name+" "+now+" instead of "+old)
		case slices.ContainsFunc(versions(after, name), func(v string) bool { return before[name+" "+v] != after[name+" "+v] }):
			lines = append(lines, name+" "+now+", which was built again")
		}
	}
	return lines
}

// shownRuns is how many earlier runs a page shows.
const shownRuns = 20

// Earlier lists the earlier runs that a page shows.
func (c Cell) Earlier() []Earlier { return c.past[max(0, len(c.past)-shownRuns):] }

// Slower compares the time of a passed test with that of its last run, such as "+12s". It is "" if one of them did not pass.
func (c Cell) Slower() string {
	if len(c.past) == 0 || c.Verdict != Passed || c.past[len(c.past)-1].Verdict != Passed {
		return ""
	}
	difference := c.Took() - c.past[len(c.past)-1].Seconds
	if difference < 0 {
		return "−" + (-difference).String()
	}
	return "+" + difference.String()
}

// Broke says since when the test is broken, or returns nil.
func (c Cell) Broke() *Change {
	if len(c.past) == 0 || !c.Broken() {
		return nil
	}
	now := Earlier{Verdict: c.Verdict}
	for _, a := range c.Attempts {
		now.Began, now.Digest, now.Packages = a.Started, a.Digest, a.Packages
	}
	return Broke(append(slices.Clone(c.past), now))
}
