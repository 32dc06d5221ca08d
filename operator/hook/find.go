// Package hook finds hooks in a folder and runs them as processes.
//
// A hook is any executable file (S-1). It reads its input from files and writes its answers into files, whose paths are in its
// environment (S-7). The files of a run are in a private folder that nobody else can read, and are removed afterwards. The
// package knows neither bindings nor the meaning of the files.
package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// noHooks are the extensions of files beside hooks that are not hooks, executable or not.
var noHooks = []string{".yaml", ".json", ".md", ".txt"}

// Find returns the paths of the hooks below a folder, relative to it and sorted. Hidden files and folders and folders named
// lib hold no hooks. Links to files are followed, links to folders are not, except for dir itself. A file that looks like a hook and is not
// executable is named in a warning.
func Find(dir string, log *slog.Logger) (paths []string, err error) {
	root := dir + "/." // WalkDir follows no links, and this is none
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == root:
			return nil
		case entry.IsDir() && (entry.Name() == "lib" || strings.HasPrefix(entry.Name(), ".")):
			return filepath.SkipDir
		case entry.IsDir() || strings.HasPrefix(entry.Name(), ".") || slices.Contains(noHooks, filepath.Ext(entry.Name())):
			return nil
		}
		info, err := os.Stat(path) // of a link's target, as in a mounted ConfigMap
		if errors.Is(err, fs.ErrNotExist) {
			log.Warn("a link in the hooks folder leads nowhere; it is not a hook", "file", path)
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case !info.Mode().IsRegular():
		case info.Mode().Perm()&0o111 == 0:
			log.Warn("a file in the hooks folder is not executable, so it is not a hook; run chmod +x, or move it to a folder lib", "file", path)
		default:
			relative, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			paths = append(paths, relative)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find hooks in %s: %w", dir, err)
	}
	slices.Sort(paths)
	return paths, nil
}
