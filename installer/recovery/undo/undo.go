// Package undo keeps what an upgrade, or another operation, replaces on a node, and puts it back.
//
// A set has copies of files: of the host, such as the kubelet and the manifests of static pods, and of Sealift's own state. It has
// neither images, which the container runtime keeps, nor host packages.
package undo

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/regularfile"
)

// ErrNone says that a node keeps nothing to go back to.
var ErrNone = errors.New("this node keeps nothing to go back to: it was not upgraded, or by an earlier sealift")

// The names in a set.
const (
	recordName = "set.json"
	filesName  = "files"
	etcdName   = "etcd"
)

// Set is what a node keeps to go back to where it was before one upgrade.
type Set struct {
	// Upgrade identifies the upgrade, with all its stops. From is the version of Kubernetes that ran, such as 1.35.4.
	Upgrade string    `json:"upgrade"`
	From    string    `json:"from"`
	Time    time.Time `json:"time"`
	// Number grows with each set, and Records is the length of the node's journal at that moment. Both give the order of what happened,
	// which Time does not where a clock was set. They are 0 in sets of an older sealift.
	Number  int    `json:"number,omitempty"`
	Records int    `json:"records,omitempty"`
	Files   []File `json:"files"`
	// Endpoint is where the node reached the API, as host:port, and CA the hash of the cluster's CA, as kubeadm writes it. Both are empty in
	// sets of an older sealift.
	Endpoint string `json:"endpoint,omitempty"`
	CA       string `json:"ca,omitempty"`
	// Links says that the set has symbolic links too. Sets of an older sealift have regular files only.
	Links bool `json:"links,omitempty"`

	dir string
}

// File is one file of a set.
type File struct {
	Path   string      `json:"path"` // on the host
	Mode   fs.FileMode `json:"mode"`
	Size   int64       `json:"size"`
	SHA256 string      `json:"sha256"`
	Link   string      `json:"link,omitempty"` // where a symbolic link leads; the other fields are about the file there
	Own    bool        `json:"own,omitempty"`  // of Sealift's state
}

// hostFiles are the patterns of files that Kubernetes or its add-on has on a host, and that differ between versions.
func hostFiles() []string {
	return []string{
		"/etc/kubernetes/manifests/[^.]*.yaml", "/etc/kubernetes/*.yaml", "/etc/kubernetes/encryption/*.yaml", "/etc/kubernetes/authentication/*.yaml",
		"/var/lib/kubelet/config.yaml", "/var/lib/kubelet/instance-config.yaml", kubeadm.KubeletFlags,
		"/usr/local/bin/kubeadm", "/usr/local/bin/kubectl", "/usr/local/bin/kubelet", node.Binary,
		"/etc/systemd/system/kubelet.service", "/etc/systemd/system/kubelet.service.d/*", "/etc/systemd/system/sealift-*.service",
		"/etc/containerd/config.toml", "/etc/containerd/conf.d/*",
	}
}

// isKubernetesPath reports whether a file of the host is a program of Kubernetes, or of the kubelet's unit. The first upgrade of a node that
// was adopted puts them over those of the host's packages.
func isKubernetesPath(path string) bool {
	return strings.HasPrefix(path, "/etc/systemd/system/kubelet.service") || slices.Contains([]string{"/usr/local/bin/kubeadm", "/usr/local/bin/kubectl", "/usr/local/bin/kubelet"}, path)
}

// Store is where a node keeps sets. The zero value of Rootfs is /.
type Store struct {
	Root   string
	Rootfs string // folder with the host's files
	// Folder has the sets; empty means that of upgrades. Files are patterns of what is kept; nil means what upgrades replace, and
	// Sealift's own state.
	Folder string
	Files  []string
}

func (s Store) folder() string {
	if s.Folder != "" {
		return s.Folder
	}
	return node.UndoDir(s.Root)
}

// Keep copies what an upgrade may replace, unless that was done for it. Of the sets of other upgrades, the newest stays.
func (s Store) Keep(upgrade, from string, now time.Time) (set Set, err error) {
	sets, err := s.Sets()
	if err != nil {
		return set, err
	}
	if at := slices.IndexFunc(sets, func(o Set) bool { return o.Upgrade == upgrade }); at >= 0 {
		return sets[at], nil
	}
	for n, old := range sets {
		if n > 0 {
			if err := old.Remove(); err != nil {
				return set, err
			}
		}
	}
	if err := s.sweep(); err != nil {
		return set, err
	}
	records, err := lifecycle.ReadJournal(node.StateDir(s.Root))
	if err != nil {
		return set, err
	}
	set = Set{Upgrade: upgrade, From: from, Time: now.UTC(), Number: 1, Records: len(records), Links: true, dir: filepath.Join(s.folder(), upgrade)}
	if len(sets) > 0 {
		set.Number = sets[0].Number + 1
	}
	if err := s.note(&set); err != nil {
		return set, err
	}
	if err := set.Remove(); err != nil {
		return set, err
	}
	if err := files.MkdirAll(filepath.Join(set.dir, filesName), 0o700); err != nil {
		return set, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, set.Remove())
		}
	}()
	found, err := s.find()
	if err != nil {
		return set, err
	}
	for n, f := range found {
		if err := s.copy(&f, set.copyOf(n)); err != nil {
			return set, fmt.Errorf("save %s: %w", f.Path, err)
		}
		set.Files = append(set.Files, f)
	}
	text, err := json.Marshal(set)
	if err != nil {
		return set, err
	}
	return set, files.WriteMode(filepath.Join(set.dir, recordName), 0o600, text)
}

// note records what else has to be as before when an upgrade is undone. Another operation that keeps files needs none of it.
func (s Store) note(set *Set) (err error) {
	if s.Files != nil {
		return nil
	}
	if set.Endpoint, err = cluster.Endpoint(s.Rootfs); err != nil {
		return err
	}
	ca, err := identity.ReadCA(s.onDisk(File{Path: kubeadm.PKI + "/ca.crt"}))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		set.CA = identity.CAHash(ca)
	}
	return err
}

// find lists the existing files to keep.
func (s Store) find() (found []File, err error) {
	patterns := s.Files
	if patterns == nil {
		patterns = hostFiles()
	}
	for _, pattern := range patterns {
		names, err := filepath.Glob(s.onDisk(File{Path: pattern}))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
				found = append(found, File{Path: files.Host{Rootfs: s.Rootfs}.Name(name)})
			}
		}
	}
	if s.Files != nil {
		return found, nil
	}
	for _, below := range node.StateFiles(s.Root) {
		err := filepath.WalkDir(below, func(name string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				found = append(found, File{Path: name, Own: true})
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return found, nil
}

// onDisk is where a file of the host lies.
func (s Store) onDisk(f File) string {
	if f.Own {
		return f.Path
	}
	return files.Host{Rootfs: s.Rootfs}.Path(f.Path)
}

// copy copies a file and records its mode and digest.
func (s Store) copy(f *File, to string) error {
	src, err := regularfile.Open(s.onDisk(*f))
	if err != nil {
		return err
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return err
	}
	if f.Link, err = linkOf(src.Name()); err != nil {
		return err
	}
	sum := sha256.New()
	f.Mode = info.Mode().Perm()
	err = files.Fill(to, 0o600, func(w *os.File) (err error) {
		f.Size, err = io.Copy(w, io.TeeReader(src, sum))
		return err
	})
	f.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return err
}

// After reports whether a record of the node's journal was written after the set was kept. n is the record's place in the journal.
func (s Set) After(n int, r lifecycle.Record) bool {
	if s.Records == 0 {
		return r.Time.After(s.Time)
	}
	return n >= s.Records
}

// Sets are those that are whole, the newest first.
func (s Store) Sets() (sets []Set, err error) {
	records, err := filepath.Glob(filepath.Join(s.folder(), "*", recordName))
	if err != nil {
		return nil, err
	}
	for _, name := range records {
		text, err := regularfile.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var set Set
		if err := json.Unmarshal(text, &set); err != nil {
			return nil, fmt.Errorf("%s is damaged: %w; remove %s", name, err, filepath.Dir(name))
		}
		set.dir = filepath.Dir(name)
		sets = append(sets, set)
	}
	slices.SortStableFunc(sets, func(a, b Set) int { return cmp.Or(cmp.Compare(b.Number, a.Number), b.Time.Compare(a.Time)) })
	return sets, nil
}

// sweep removes what is left of sets that are none any more.
func (s Store) sweep() error {
	all, err := filepath.Glob(filepath.Join(s.folder(), "*"))
	for _, dir := range all {
		if _, none := os.Stat(filepath.Join(dir, recordName)); errors.Is(none, fs.ErrNotExist) {
			err = errors.Join(err, files.RemoveAll(dir))
		}
	}
	return err
}

// Newest is the set of the last upgrade that was begun. It is ErrNone where there is none.
func (s Store) Newest() (Set, error) {
	sets, err := s.Sets()
	if err == nil && len(sets) == 0 {
		err = ErrNone
	}
	if err != nil {
		return Set{}, err
	}
	return sets[0], nil
}

// Of returns the set of an upgrade, or ErrNone.
func (s Store) Of(upgrade string) (Set, error) {
	sets, err := s.Sets()
	at := slices.IndexFunc(sets, func(o Set) bool { return o.Upgrade == upgrade })
	if err == nil && at < 0 {
		err = ErrNone
	}
	if err != nil {
		return Set{}, err
	}
	return sets[at], nil
}

// Read returns the copy of a file, by its path on the host. What the set lacks is fs.ErrNotExist.
func (s Set) Read(path string) ([]byte, error) {
	at := slices.IndexFunc(s.Files, func(f File) bool { return f.Path == path })
	if at < 0 {
		return nil, fmt.Errorf("the copy of %s in %s: %w", path, s.dir, fs.ErrNotExist)
	}
	var data bytes.Buffer
	err := s.check(at, s.Files[at], &data)
	return data.Bytes(), err
}

// Remove gives the set up. Its record goes first: a set without it is none, and its rest is swept when the next one is kept.
func (s Set) Remove() error {
	err := files.Remove(filepath.Join(s.dir, recordName))
	if err == nil {
		err = files.SyncDir(s.dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return files.RemoveAll(s.dir)
}

// copyOf is where the copy of a file lies, by its number.
func (s Set) copyOf(n int) string { return filepath.Join(s.dir, filesName, strconv.Itoa(n)) }

// Etcd is the file for the snapshot of etcd that the upgrade takes. It may be missing.
func (s Set) Etcd() string { return filepath.Join(s.dir, etcdName) }

// Check compares all copies with their digests.
func (s Set) Check() error {
	for n, f := range s.Files {
		if err := s.check(n, f, io.Discard); err != nil {
			return err
		}
	}
	return nil
}

func (s Set) check(n int, f File, to io.Writer) error {
	src, err := regularfile.Open(s.copyOf(n))
	if err != nil {
		return fmt.Errorf("the copy of %s: %w", f.Path, err)
	}
	defer src.Close()
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(to, sum), src); err != nil {
		return fmt.Errorf("the copy of %s: %w", f.Path, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("the copy of %s in %s is damaged", f.Path, s.dir)
	}
	return nil
}
