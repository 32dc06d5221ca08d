// Package snapshot saves what a control plane needs to recover from lost data: etcd's database, the cluster's keys, the
// Installer, and on request the local volumes of the host.
//
// A snapshot is one file: a tar archive, compressed with gzip and encrypted with age. 'age --decrypt' and tar read it, too.
// The package streams: no part of a snapshot touches the disk unencrypted, and memory does not grow with etcd.
package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/installer/recovery/volume"
)

// Format is the version of the layout that this package writes. It also reads earlier formats.
const Format = 3

// Earlier formats, without signatures.
const (
	firstFormat  = 1
	volumeFormat = 2 // volumes follow the database
)

// The entries of the archive that are not files of the host, in addition to signatures. The index is the first entry. The database
// follows the files.
const (
	indexName = "snapshot.json"
	etcdName  = "etcd.db"
)

// The limits of a snapshot, besides etcd's own of 8 GiB.
const (
	maxFile     = 1 << 20  // bytes of a file of the host
	maxAllFiles = 64 << 20 // bytes of all of them
	maxFiles    = 4096
	maxIndex    = 4 << 20 // bytes
)

// Index describes the content of a snapshot.
type Index struct {
	Format     int       `json:"format"`
	Time       time.Time `json:"time"`
	Node       string    `json:"node"`
	Cluster    string    `json:"cluster"`              // sha256: and the hash of the CA's public key, as kubeadm prints it
	Kubernetes string    `json:"kubernetes,omitempty"` // version, such as 1.36.3
	Etcd       Etcd      `json:"etcd"`
	Files      []File    `json:"files"`
	LeftOut    []string  `json:"leftOut,omitempty"` // names of files that are too large, and of entries that are not regular files
	Volumes    []Volume  `json:"volumes,omitempty"`
	// VolumesLeftOut is nil if no volumes were requested.
	VolumesLeftOut []volume.LeftOut `json:"volumesLeftOut,omitempty"`

	summary string // of the index and its signature, if it was read
}

// Signed reports whether a snapshot of this format has signatures.
func (i Index) Signed() bool { return i.Format > volumeFormat }

// File is a file of the host.
type File struct {
	Name   string      `json:"name"` // its path without the first slash
	Mode   fs.FileMode `json:"mode"`
	Size   int64       `json:"size"`   // bytes
	SHA256 string      `json:"sha256"` // lower-case hex
}

// check refuses an index that this package did not write.
func (i Index) check() error {
	switch {
	case i.Format > Format:
		return fmt.Errorf("the snapshot has format %d, and this sealift reads up to format %d; use the sealift that wrote it, or a newer one", i.Format, Format)
	case i.Format < firstFormat || i.Etcd.Size <= 0 || i.Time.IsZero() || i.Format == firstFormat && len(i.Volumes) > 0:
		return errors.New("its index is not one of sealift's")
	case len(validation.IsDNS1123Subdomain(i.Node)) > 0:
		return fmt.Errorf("its index has the node %q", i.Node)
	}
	if _, err := identity.ParseCAHash(i.Cluster); err != nil {
		return fmt.Errorf("its index: %w", err)
	}
	if err := i.checkFiles(); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, v := range i.Volumes {
		if len(validation.IsDNS1123Subdomain(v.Name)) > 0 || names[v.Name] || volume.CheckPath(v.Path) != nil {
			return fmt.Errorf("its index has a volume that sealift does not save: %q in %q", v.Name, v.Path)
		}
		names[v.Name] = true
	}
	return i.checkTexts()
}

// checkTexts refuses texts that could act on a terminal.
func (i Index) checkTexts() error {
	texts := append([]string{i.Kubernetes, i.Etcd.Cluster, i.Etcd.Version}, i.LeftOut...)
	for _, v := range i.Volumes {
		texts = append(texts, v.Claim, v.Path)
	}
	for _, v := range i.VolumesLeftOut {
		texts = append(texts, v.Name, v.Claim, v.Why)
	}
	for _, text := range texts {
		if !printable(text) {
			return fmt.Errorf("its index has a text that sealift does not save: %q", text)
		}
	}
	return nil
}

func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// Name is the name of a snapshot's file: the cluster, the node and the time can be read without a key.
type Name struct {
	Cluster string    `json:"cluster"` // the first eight digits of the CA's hash
	Node    string    `json:"node"`
	Time    time.Time `json:"time"` // to the second
}

const (
	nameTime  = "20060102T150405Z"
	extension = ".tar.gz.age"
)

var namePattern = regexp.MustCompile(`^snapshot-([0-9a-f]{8})-([a-z0-9.-]+)-([0-9]{8}T[0-9]{6}Z)\.tar\.gz\.age$`)

func (n Name) String() string {
	return "snapshot-" + n.Cluster + "-" + n.Node + "-" + n.Time.UTC().Format(nameTime) + extension
}

// name is the name that a snapshot with this index has in a store.
func (i Index) name() Name {
	return Name{Cluster: strings.TrimPrefix(i.Cluster, "sha256:")[:8], Node: i.Node, Time: i.Time}
}

// ParseName reads the name of a snapshot's file. Other files are not ok.
func ParseName(s string) (n Name, ok bool) {
	parts := namePattern.FindStringSubmatch(s)
	if parts == nil {
		return Name{}, false
	}
	at, err := time.Parse(nameTime, parts[3])
	return Name{Cluster: parts[1], Node: parts[2], Time: at}, err == nil
}
