package restore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/recovery/snapshot"
)

// DrillOptions configure a drill.
type DrillOptions struct {
	// Dir is the folder in which the drill makes its own; it needs room for etcd's data and two programs. Empty is /var/tmp.
	Dir string
	// Program takes the programs out of images; nil takes them out of those that this host's containerd has.
	Program Programs
	// Say is called with what begins; nil for nobody. Output receives the programs' output; nil for nobody.
	Say    func(string)
	Output io.Writer
}

// Programs writes a program of an image to a file. path is its path in the image.
type Programs func(ctx context.Context, image, path, to string) error

// BundlePrograms takes programs out of the images of a bundle.
func BundlePrograms(archive *bundle.Archive) Programs {
	return func(ctx context.Context, image, name, to string) error {
		for _, p := range archive.Index.Packages {
			layout, err := runtime.OpenLayout(archive, path.Join(p.Dir(), "images"))
			if err != nil {
				return err
			}
			if err := layout.Program(ctx, image, name, to); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return fmt.Errorf("the bundle has no image %s with %s; use one with the cluster's version: %w", image, name, fs.ErrNotExist)
	}
}

// Drill is the result of a drill.
type Drill struct {
	Objects int            `json:"objects"` // of the snapshot
	Kinds   map[string]int `json:"kinds"`   // how many objects of each kind, as etcd's keys name it
	// Differ are objects whose content in the restored etcd differs from the snapshot. Unserved are those that the API server
	// cannot read. Both must be empty.
	Differ   []string `json:"differ"`
	Unserved []string `json:"unserved"`
	// Unlisted are the kinds that the API server could not list, and why.
	Unlisted []string `json:"unlisted"`
	// Seconds until etcd's data was made, until etcd answered, until the API server was ready, and until all objects were read.
	Data      float64 `json:"dataSeconds"`
	Etcd      float64 `json:"etcdSeconds"`
	API       float64 `json:"apiSeconds"`
	Whole     float64 `json:"seconds"`
	Encrypted bool    `json:"encrypted"` // Secrets are encrypted in etcd, and the API server has decrypted them
}

// ErrDrill means that a restore of the snapshot would not restore its content.
var ErrDrill = errors.New("the restored cluster differs from the snapshot")

// Err returns ErrDrill unless everything was restored.
func (d Drill) Err() error {
	if len(d.Differ)+len(d.Unserved) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d objects differ, %d cannot be read by the API server", ErrDrill, len(d.Differ), len(d.Unserved))
}

// drillPattern names the folder of a drill. A folder whose process was killed is removed by the next drill.
const drillPattern = "sealift-drill.*"

// RunDrill restores a snapshot isolated from everything on this host. etcd and the API server run as children of this process, in a
// temporary folder, and in a separate network without a way out: no cluster is affected. They end with this process, however it
// ends.
func RunDrill(ctx context.Context, o DrillOptions, from *snapshot.Content) (d Drill, err error) {
	if os.Geteuid() != 0 {
		return Drill{}, errors.New("a drill needs its own network, which only root can create; run the command as root")
	}
	if o.Dir == "" {
		o.Dir = "/var/tmp"
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.Output == nil {
		o.Output = io.Discard
	}
	if o.Program == nil {
		r, failed := runtime.Connect(ctx, runtime.Socket)
		if failed != nil {
			return Drill{}, fmt.Errorf("this host has no container runtime; give the cluster's bundle with --bundle: %w", failed)
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		o.Program = r.Program
	}
	if err := files.Sweep(o.Dir, drillPattern); err != nil {
		return Drill{}, err
	}
	folder, err := files.TempFolder(o.Dir, drillPattern)
	if err != nil {
		return Drill{}, err
	}
	s := &sandbox{dir: folder.Path, from: from, output: o.Output}
	defer func() {
		s.stop()
		err = errors.Join(err, folder.Remove())
	}()
	return s.drill(ctx, o)
}

func (s *sandbox) drill(ctx context.Context, o DrillOptions) (d Drill, err error) {
	was, err := readDigests(fmt.Sprintf("/proc/self/fd/%d", s.from.Etcd.Fd()))
	if err != nil {
		return d, fmt.Errorf("the snapshot: %w", err)
	}
	d = Drill{Objects: len(was), Kinds: map[string]int{}, Differ: []string{}, Unserved: []string{}, Unlisted: []string{}}
	for key := range was {
		d.Kinds[kindOf(key)]++
	}
	if err := s.read(); err != nil {
		return d, fmt.Errorf("the snapshot: %w", err)
	}
	o.Say(fmt.Sprintf("taking etcd and the API server from %s and %s", s.member.Image, s.server.image))
	if err := s.programs(ctx, o.Program); err != nil {
		return d, err
	}
	began := time.Now()
	o.Say(fmt.Sprintf("restoring %d objects", d.Objects))
	if err := s.makeData(ctx); err != nil {
		return d, err
	}
	d.Data = time.Since(began).Seconds()
	if err := s.startEtcd(ctx); err != nil {
		return d, err
	}
	d.Etcd = time.Since(began).Seconds()
	if d.Differ, err = s.differ(ctx, was); err != nil {
		return d, err
	}
	o.Say("starting the API server")
	if err := s.startServer(ctx); err != nil {
		return d, err
	}
	d.API = time.Since(began).Seconds()
	_, _, d.Encrypted = s.from.Encryption()
	o.Say("reading every object")
	if d.Unserved, d.Unlisted, err = s.unserved(ctx, was); err != nil {
		return d, err
	}
	d.Whole = time.Since(began).Seconds()
	return d, nil
}

// kindOf is the kind of an object as its key begins: secrets, or apps.example.com/things.
func kindOf(key string) string {
	parts := strings.Split(strings.TrimPrefix(key, objectPrefix), "/")
	if len(parts) > 2 && (strings.Contains(parts[0], ".") || parts[0] == "services") {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// readDigests reads the digest of the newest value of each object in a database of etcd.
func readDigests(path string) (map[string][sha256.Size]byte, error) {
	d, err := data{digests: map[string][sha256.Size]byte{}}.read(path)
	maps.DeleteFunc(d.digests, func(key string, _ [sha256.Size]byte) bool { return internal(key) })
	return d.digests, err
}

// makeData makes etcd's data of the snapshot.
func (s *sandbox) makeData(ctx context.Context) error {
	if _, err := s.from.Etcd.Seek(0, io.SeekStart); err != nil {
		return err
	}
	m := member{Name: sandboxName, Peers: sandboxPeer}
	d := dataFolder{path: s.file("etcd"), generation: "drill"}
	if err := d.make(ctx, etcdutl{s.file("bin/etcdutl"), m, s.output}, s.from.Etcd, true); err != nil {
		return err
	}
	return d.exchange()
}

func (s *sandbox) client() (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + s.file("etcd.sock")}, Logger: zap.NewNop()})
}

// differ compares the restored etcd with the snapshot, before an API server changes anything.
func (s *sandbox) differ(ctx context.Context, was map[string][sha256.Size]byte) (names []string, err error) {
	client, err := s.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	names, seen := []string{}, 0
	err = cluster.EachValue(ctx, client, objectPrefix, func(key, value []byte) error {
		digest, there := was[string(key)]
		if internal(string(key)) {
			return nil
		}
		if there {
			seen++
		}
		if !there || digest != sha256.Sum256(value) {
			names = append(names, strings.TrimPrefix(string(key), objectPrefix))
		}
		return nil
	})
	if err != nil || seen == len(was) {
		return names, err
	}
	missing := map[string]bool{}
	for key := range was {
		missing[key] = true
	}
	err = cluster.EachValue(ctx, client, objectPrefix, func(key, _ []byte) error {
		delete(missing, string(key))
		return nil
	})
	for key := range missing {
		names = append(names, strings.TrimPrefix(key, objectPrefix))
	}
	slices.Sort(names)
	return names, err
}

// unserved names the objects of the snapshot that etcd has and the API server does not return, and the kinds that it cannot list.
// An object is known by the revision of its last change, which is unique.
func (s *sandbox) unserved(ctx context.Context, was map[string][sha256.Size]byte) (names, unlisted []string, err error) {
	client, err := s.client()
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	for range servedTries {
		served, failed, err := s.served(ctx)
		if err != nil {
			return nil, nil, err
		}
		names, unlisted = []string{}, failed
		found, err := client.Get(ctx, objectPrefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return nil, nil, fmt.Errorf("read the restored etcd: %w", err)
		}
		for _, kv := range found.Kvs {
			key := string(kv.Key)
			_, ofSnapshot := was[key]
			if ofSnapshot && !served[kv.ModRevision] {
				names = append(names, strings.TrimPrefix(key, objectPrefix))
			}
		}
		if len(names) == 0 {
			break
		}
		select { // the API server itself may have written an object in between
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(servedPause):
		}
	}
	slices.Sort(names)
	return names, unlisted, nil
}

// How often objects are listed that the API server seems not to return.
const (
	servedTries = 3
	servedPause = time.Second
)

// internal reports whether a key is one of the API server's own, and not an object.
func internal(key string) bool {
	name := strings.TrimPrefix(key, objectPrefix)
	return slices.ContainsFunc([]string{"ranges/", "masterleases/", "peerserverleases/", "health"}, func(p string) bool { return strings.HasPrefix(name, p) })
}

// programs extracts the programs from the images that the snapshot's own manifests name.
func (s *sandbox) programs(ctx context.Context, program Programs) error {
	for _, folder := range []string{"bin", "pki"} {
		if err := files.MkdirAll(s.file(folder), 0o700); err != nil {
			return err
		}
	}
	for _, p := range []struct{ image, path string }{
		{s.member.Image, "/usr/local/bin/etcd"}, {s.member.Image, etcdutlPath}, {s.server.image, "/usr/local/bin/kube-apiserver"},
	} {
		if err := program(ctx, p.image, p.path, s.file("bin/"+path.Base(p.path))); err != nil {
			return fmt.Errorf("the program %s of the snapshot's version: %w", path.Base(p.path), err)
		}
	}
	return nil
}
