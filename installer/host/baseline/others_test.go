package baseline_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/host/baseline"
	"github.com/sealift/sealift/internal/testing/short"
)

// user is a local user who owns a folder in each of the folders that are watched.
const user = 4242

// watchedFolders are those of package baseline.
var watchedFolders = []string{"/etc", "/usr/lib/systemd/system", "/usr/local", "/opt", "/root/.kube"}

// shared is a host on which a step of an install removed and changed a user's files.
type shared struct {
	host
	app, victim string
}

// removed and changed are the step's changes, below app/sub.
var (
	removed = []string{"file", "link", "folder"}
	changed = []string{"edited", "relinked", "taken"}
)

func newShared(t *testing.T, watched string) shared {
	t.Helper()
	short.AsRoot(t, "a folder of another user")
	h := shared{newHost(t), watched + "/app", "/victim"}
	h.write(h.victim+"/secret", "secret")
	h.write(h.app+"/sub/file", "content of the user")
	h.write(h.app+"/sub/edited", "content of the user")
	h.folder(h.app + "/sub/folder")
	h.folder(h.app + "/sub/taken")
	h.link("/etc/shadow", h.app+"/sub/link")
	h.link("/etc/shadow", h.app+"/sub/relinked")
	h.give("", "/sub", "/sub/file", "/sub/edited", "/sub/folder", "/sub/taken", "/sub/link", "/sub/relinked")
	r := h.begin("")
	h.asLeft()
	h.note(r, "a/install")
	return h
}

// asLeft creates the step's result.
func (h shared) asLeft() {
	h.t.Helper()
	for _, name := range slices.Concat(removed, changed[:2]) {
		h.must(os.RemoveAll(h.path(h.app + "/sub/" + name)))
	}
	h.write(h.app+"/sub/edited", "content of the step")
	h.write(h.app+"/sub/made", "content of the step")
	h.link("/", h.app+"/sub/relinked")
	h.must(os.Lchown(h.path(h.app+"/sub/taken"), 0, 0))
	h.must(os.Chmod(h.path(h.app+"/sub/taken"), 0o700))
}

func (h shared) path(name string) string { return filepath.Join(h.root, name) }

func (h shared) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h shared) folder(name string) { h.t.Helper(); h.must(os.MkdirAll(h.path(name), 0o755)) }

func (h shared) link(target, name string) {
	h.t.Helper()
	h.must(os.RemoveAll(h.path(name)))
	h.must(os.Symlink(target, h.path(name)))
}

func (h shared) give(names ...string) {
	h.t.Helper()
	for _, name := range names {
		h.must(os.Lchown(h.path(h.app+name), user, user))
	}
}

// replace moves the user's files away, and puts something else there.
func (h shared) replace(name string) {
	h.t.Helper()
	h.must(os.Rename(h.path(name), h.path(name)+"-moved"))
}

// checkVictim checks that the folder of root is unchanged.
func (h shared) checkVictim(want ...string) {
	h.t.Helper()
	var got []string
	for _, line := range h.tree() {
		if strings.HasPrefix(line, h.victim) {
			path, _, _ := strings.Cut(line, " ")
			var stat unix.Stat_t
			h.must(unix.Lstat(h.path(path), &stat))
			if stat.Uid != 0 || stat.Mode&0o777 != 0o755 && stat.Mode&0o777 != 0o644 {
				h.t.Errorf("%s belongs to %d with mode %o", path, stat.Uid, stat.Mode)
			}
			got = append(got, path)
		}
	}
	if want = append([]string{h.victim, h.victim + "/secret"}, want...); !slices.Equal(got, want) {
		h.t.Errorf("root's folder has %q, want %q", got, want)
	}
}

func (h shared) plan() baseline.Undo {
	h.t.Helper()
	before := h.tree()
	u, err := h.open().PlanUndo()
	h.must(err)
	if after := h.tree(); !slices.Equal(before, after) {
		h.t.Error("the plan changed the host")
	}
	return u
}

func TestUndoFollowsNoLinkOfUser(t *testing.T) {
	for _, watched := range watchedFolders {
		for name, replace := range map[string]func(shared){
			"the folder is a link": func(h shared) { h.replace(h.app + "/sub"); h.link(h.path(h.victim), h.app+"/sub") },
			"its parent is a link": func(h shared) {
				h.replace(h.app)
				h.folder(h.victim + "/sub")
				h.link(h.path(h.victim), h.app)
			},
			"the folder is another one, of root": func(h shared) { h.replace(h.app + "/sub"); h.must(os.Rename(h.path(h.victim), h.path(h.app+"/sub"))) },
		} {
			t.Run(watched+" "+name, func(t *testing.T) {
				h := newShared(t, watched)
				replace(h)
				before := h.tree()
				plan := h.plan()
				left, err := h.open().UndoFiles()
				h.must(err)
				if len(plan.Written)+len(plan.Removed) > 0 || !slices.Equal(plan.Left, left) {
					t.Errorf("the plan was %+v, and %+v was left", plan, left)
				}
				var failed []string
				for _, l := range left {
					if l.Failed && strings.Contains(l.Why, "run 'sealift reset' again") {
						failed = append(failed, filepath.Base(l.What))
					}
				}
				want := []string{"edited", "file", "folder", "link", "made", "relinked", "taken"}
				if !slices.Equal(failed, want) {
					t.Errorf("failed %q, want %q: %+v", failed, want, left)
				}
				if after := h.tree(); !slices.Equal(before, after) {
					t.Errorf("before\n%s\nafter\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
				}
			})
		}
	}
}

func TestUndoResumesWhenFolderReturns(t *testing.T) {
	h := newShared(t, "/opt")
	h.replace(h.app + "/sub")
	h.link(h.path(h.victim), h.app+"/sub")
	if left, err := h.open().UndoFiles(); err != nil || len(left) != 7 {
		t.Errorf("%v, %v", left, err)
	}
	h.must(os.Remove(h.path(h.app + "/sub")))
	h.must(os.Rename(h.path(h.app+"/sub-moved"), h.path(h.app+"/sub")))
	plan := h.plan()
	if got := len(plan.Written); got != 6 || len(plan.Removed) != 1 || len(plan.Left) != 0 {
		t.Errorf("plan %+v", plan)
	}
	h.wantLeft()
	for _, name := range slices.Concat(removed, changed) {
		var stat unix.Stat_t
		h.must(unix.Lstat(h.path(h.app+"/sub/"+name), &stat))
		if stat.Uid != user || stat.Gid != user {
			t.Errorf("%s belongs to %d:%d", name, stat.Uid, stat.Gid)
		}
	}
	if text, err := os.ReadFile(h.path(h.app + "/sub/file")); err != nil || string(text) != "content of the user" {
		t.Errorf("%q, %v", text, err)
	}
	h.checkVictim()
}

func TestUndoWritesNothingIntoMissingFolder(t *testing.T) {
	h := newShared(t, "/opt")
	h.must(os.RemoveAll(h.path(h.app + "/sub")))
	plan := h.plan()
	if len(plan.Written)+len(plan.Removed) > 0 {
		t.Errorf("plan %+v", plan)
	}
	removed := "removed by someone else"
	h.wantLeft("edited: "+removed, "file: its folder was "+removed, "folder: its folder was "+removed, "link: its folder was "+removed, "relinked: "+removed, "taken: "+removed)
	if _, err := os.Lstat(h.path(h.app + "/sub")); err == nil {
		t.Error("the folder was made again")
	}
}

// TestUndoChownsNoOtherFolder has a user swap a folder that the install took for another one of root with the same mode.
func TestUndoChownsNoOtherFolder(t *testing.T) {
	h := newShared(t, "/opt")
	h.replace(h.app + "/sub/taken")
	h.must(os.Mkdir(h.path(h.app+"/sub/taken"), 0o700))
	h.wantLeft("/opt/app/sub/taken: changed by someone else")
}

// TestUndoIgnoresSwappedFolder has the user swap his folder for a link to root's all the time.
func TestUndoIgnoresSwappedFolder(t *testing.T) {
	short.Root(t, "mounting")
	h := newShared(t, "/opt")
	h.link(h.path(h.victim), h.app+"/other")
	sub, other := h.path(h.app+"/sub"), h.path(h.app+"/other")
	kept := sub + "-kept" // a second way to the user's folder, for the test
	h.must(os.Mkdir(kept, 0o755))
	h.must(unix.Mount(sub, kept, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(kept, unix.MNT_DETACH) })
	var stop atomic.Bool
	swaps := make(chan int)
	go func() {
		n := 0
		for ; !stop.Load(); n++ {
			_ = unix.Renameat2(unix.AT_FDCWD, sub, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
		}
		swaps <- n
	}()
	back, failed, r := 0, 0, h.open()
	for range 1000 {
		for _, name := range removed {
			h.must(os.RemoveAll(filepath.Join(kept, name)))
		}
		left, err := r.UndoFiles()
		if err != nil {
			t.Error(err)
			break
		}
		failed += len(left)
		for _, name := range removed {
			if _, err := os.Lstat(filepath.Join(kept, name)); err == nil {
				back++
			}
		}
	}
	stop.Store(true)
	t.Logf("%d put back, %d left, %d swaps", back, failed, <-swaps)
	if back == 0 || failed == 0 {
		t.Error("the folder was not swapped while it was restored")
	}
	h.checkVictim()
}
