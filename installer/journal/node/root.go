package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/bundle/verdict"
	"github.com/sealift/sealift/installer/host/baseline"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/mounts"
	"github.com/sealift/sealift/internal/regularfile"
)

// markName is the file in the state folder that marks an install root as Sealift's. It is written before anything else, and
// removed last. Reset removes nothing from a folder without it.
const markName = "root.json"

// Mark is the content of that file.
type Mark struct {
	// Before are the names that the root had before Sealift. They have another owner.
	Before []string `json:"before"`
}

// rootNames are patterns for the files that Sealift, install.sh and hooks keep directly below an install root.
func rootNames() []string {
	names := []string{
		"state", "host-packages", bundle.IndexName, bundle.SignatureName, verdict.Name, verdict.SignatureName, bundle.InstallerName, ProxySettings, "resolv.conf", "preflights",
		".install-*", ".sealift-preflight-*",
		bundle.IndexName + bundle.Unfinished, bundle.SignatureName + bundle.Unfinished, bundle.InstallerName + bundle.Unfinished,
		verdict.Name + bundle.Unfinished, verdict.SignatureName + bundle.Unfinished,
	}
	for _, folder := range Folders() {
		if path.Dir(folder) == "." {
			names = append(names, folder)
		}
	}
	return names
}

// stateNames are patterns for Sealift's files in the state folder, except the journal and its lock.
func stateNames() []string {
	return []string{
		runName, installerName, apiServersName, preflightName, baselineName, memoryName, undoName, readdressName, shelfName, snapshotsName, quiescedName,
		volumesName, loadBalancerName, acceptedName, lastSnapshotName, lastDrillName, textfileName, imagesName, consoleName, temporaryName + "*",
		"upgrade-*.etcd", // of an earlier Sealift
	}
}

// MarkRoot records that Sealift works below a folder from now on, and its original content.
func MarkRoot(root string) error {
	if _, err := ReadMark(root); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := files.CheckOwn(root); err != nil { // hooks run from there as root
		return err
	}
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	m := Mark{Before: []string{}}
	for _, e := range entries {
		if e.Name() != "state" && !matches(e.Name(), ".install-*", ".sealift-preflight-*") {
			m.Before = append(m.Before, e.Name())
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := files.MkdirAll(StateDir(root), 0o700); err != nil {
		return err
	}
	return files.WriteMode(filepath.Join(StateDir(root), markName), 0o600, text)
}

// ReadMark reads the mark of an install root. An earlier Sealift wrote none: there the record of the host is the mark. The
// error is fs.ErrNotExist where there is neither.
func ReadMark(root string) (Mark, error) {
	name := filepath.Join(StateDir(root), markName)
	text, err := regularfile.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && baseline.Exists(baselineDir(root)) {
		return Mark{}, nil
	}
	if err != nil {
		return Mark{}, err
	}
	var m Mark
	if err := json.Unmarshal(text, &m); err != nil {
		return Mark{}, fmt.Errorf("%s is damaged: %w; write {\"before\": []} into it if everything in %s came with sealift", name, err, root)
	}
	return m, nil
}

func matches(name string, patterns ...string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	})
}

// SweepRoot removes Sealift's files below a marked root, except the journal and the mark. It returns the paths that it left:
// files with other names, files that were there before, and mount points.
func SweepRoot(root string) (left []baseline.Left, err error) {
	m, err := ReadMark(root)
	if err != nil {
		return nil, err
	}
	for _, name := range rootNames() { // a kill may have left one half written
		if err := files.Sweep(root, "."+name+".*"); err != nil {
			return nil, err
		}
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := filepath.Join(root, e.Name())
		switch {
		case e.Name() == "state":
		case !matches(e.Name(), rootNames()...) || slices.Contains(m.Before, e.Name()):
			left = append(left, baseline.Left{What: name, Why: "did not come with sealift, and is kept"})
		default:
			mounted, err := mounts.Empty(name, false)
			if err != nil {
				return left, err
			}
			for _, mount := range mounted {
				left = append(left, LeftMount(mount))
			}
		}
	}
	return left, nil
}

// LeftMount describes a mount that Sealift did not remove.
func LeftMount(name string) baseline.Left {
	return baseline.Left{What: name, Why: "something is mounted there, and is kept with what is in it"}
}

// SweepState removes what Sealift keeps in the state folder of a marked root, and then the folders themselves where nothing is
// left in them. The mark goes last: a reset that is killed before that finds it again. It returns the paths that it left in the state
// folder.
func SweepState(root string, removeJournal func() error) (left []baseline.Left, err error) {
	state := StateDir(root)
	entries, err := os.ReadDir(state)
	if err != nil {
		return nil, err
	}
	if err := removeJournal(); err != nil { // without it, a reset that is killed here goes by the rest of the folder
		return nil, err
	}
	for _, e := range entries {
		if matches(e.Name(), stateNames()...) {
			if _, err := mounts.Empty(filepath.Join(state, e.Name()), false); err != nil {
				return nil, err
			}
		}
	}
	if err := files.SweepAll(state); err != nil {
		return nil, err
	}
	if err := files.Remove(filepath.Join(state, markName)); err != nil {
		return nil, err
	}
	if entries, err = os.ReadDir(state); err != nil {
		return nil, err
	}
	for _, e := range entries {
		left = append(left, baseline.Left{What: filepath.Join(state, e.Name()), Why: "did not come with sealift, and is kept"})
	}
	for _, folder := range []string{state, root} {
		if err := removeIfEmpty(folder); err != nil {
			return left, err
		}
	}
	return left, nil
}

// removeIfEmpty removes a folder that is empty and no mount point.
func removeIfEmpty(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) > 0 {
		return err
	}
	_, err = mounts.Empty(folder, false)
	return err
}
