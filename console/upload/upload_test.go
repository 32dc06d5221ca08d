package upload_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealift/sealift/console/upload"
)

// gigabyte is 1 GiB.
const gigabyte = 1 << 30

// fixture is a spool whose checker, clock and disk the test decides about.
type fixture struct {
	*upload.Spool
	t       *testing.T
	options upload.Options
	ended   chan upload.Upload

	mu    sync.Mutex
	now   time.Time
	free  uint64
	judge func(ctx context.Context, file string) (upload.Verdict, error)
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir := t.TempDir()
	f := &fixture{t: t, ended: make(chan upload.Upload, 10), now: time.Now(), free: 100 * gigabyte}
	f.judge = func(context.Context, string) (upload.Verdict, error) {
		return upload.Verdict{Digest: "d", Signer: "s"}, nil
	}
	f.options = upload.Options{
		Spool: filepath.Join(dir, "uploads"), Bundles: filepath.Join(dir, "bundles"), Log: slog.New(slog.DiscardHandler),
		Check: func(ctx context.Context, file string) (upload.Verdict, error) { return f.judge(ctx, file) },
		Space: func(string) (uint64, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.free, nil
		},
		Ended: func(u upload.Upload) { f.ended <- u },
		Now: func() time.Time {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.now
		},
	}
	f.restart(t.Context())
	return f
}

// restart opens the folder again, as a console does that starts.
func (f *fixture) restart(ctx context.Context) {
	f.t.Helper()
	var err error
	if f.Spool, err = upload.Open(ctx, f.options); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) create(name string, content []byte, who string) upload.Upload {
	f.t.Helper()
	u, _, err := f.Create(upload.Request{Name: name, Length: int64(len(content)), Who: who})
	if err != nil {
		f.t.Fatal(err)
	}
	return u
}

// send appends one chunk.
func (f *fixture) send(id string, offset int64, chunk []byte) upload.Upload {
	f.t.Helper()
	u, err := f.Append(id, offset, int64(len(chunk)), sum(chunk), bytes.NewReader(chunk))
	if err != nil {
		f.t.Fatal(err)
	}
	return u
}

func (f *fixture) end() upload.Upload {
	f.t.Helper()
	select {
	case u := <-f.ended:
		return u
	case <-time.After(time.Minute):
		f.t.Fatal("the check does not end")
		return upload.Upload{}
	}
}

// files are the names in the folder of uploads.
func (f *fixture) files() (names []string) {
	f.t.Helper()
	entries, err := os.ReadDir(f.options.Spool)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func sum(data []byte) string {
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:])
}

// archive is the content of a file that begins as a bundle does.
func archive(n int) []byte { return append([]byte("\x1f\x8b"), bytes.Repeat([]byte("abcdefg"), n)...) }

func TestUploadResumesAfterRestart(t *testing.T) {
	f := newFixture(t)
	content := archive(1000)
	u := f.create("cluster.tar.gz", content, "jane")
	f.send(u.ID, 0, content[:3000])
	// The console is killed while it writes a chunk.
	part := filepath.Join(f.options.Spool, u.ID+".part")
	if err := os.WriteFile(part, append(bytes.Clone(content[:3000]), "half a chunk"...), 0o600); err != nil {
		t.Fatal(err)
	}
	f.restart(t.Context())
	again, resumes, err := f.Create(upload.Request{Name: "cluster.tar.gz", Length: int64(len(content)), Who: "jane"})
	if err != nil || !resumes || again.ID != u.ID || again.Offset != 3000 {
		t.Fatalf("got %+v, %t, %v", again, resumes, err)
	}
	if tail, err := f.Tail(again); err != nil || tail.Size != 3000 || tail.SHA256 != sum(content[:3000]) {
		t.Errorf("the tail is %+v, %v", tail, err)
	}
	if u := f.send(u.ID, 3000, content[3000:]); u.State != upload.Checking {
		t.Errorf("after the last chunk: %+v", u)
	}
	if u := f.end(); u.State != upload.Ready || u.Verdict.Digest != "d" {
		t.Errorf("at the end: %+v", u)
	}
	if got, err := os.ReadFile(filepath.Join(f.options.Bundles, "cluster.tar.gz")); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the bundle has %d bytes, %v", len(got), err)
	}
	f.restart(t.Context())
	if all := f.List(); len(all) != 1 || all[0].State != upload.Ready {
		t.Errorf("after another restart: %+v", all)
	}
	if err := f.Delete("cluster.tar.gz"); err != nil || len(f.files()) != 0 || len(f.List()) != 0 {
		t.Errorf("after it was deleted: %v, %v", err, f.files())
	}
	if err := f.Delete("cluster.tar.gz"); !errors.Is(err, upload.ErrNone) {
		t.Errorf("delete it twice: %v", err)
	}
}

func TestCheckResumesAfterRestart(t *testing.T) {
	f := newFixture(t)
	content := archive(10)
	ctx, cancel := context.WithCancel(t.Context())
	began := make(chan struct{})
	f.judge = func(ctx context.Context, _ string) (upload.Verdict, error) {
		close(began)
		<-ctx.Done()
		return upload.Verdict{}, ctx.Err()
	}
	f.restart(ctx)
	u := f.create("a.tar.gz", content, "jane")
	f.send(u.ID, 0, content)
	<-began
	cancel()
	f.judge = func(context.Context, string) (upload.Verdict, error) { return upload.Verdict{}, nil }
	f.restart(t.Context())
	if u := f.end(); u.State != upload.Ready {
		t.Errorf("got %+v", u)
	}
}

func TestRefusedBundleIsRemoved(t *testing.T) {
	f := newFixture(t)
	content := archive(10)
	f.judge = func(_ context.Context, file string) (upload.Verdict, error) {
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, content) {
			t.Errorf("the checker got %d bytes, %v", len(got), err)
		}
		return upload.Verdict{}, errors.New("not signed with a given key")
	}
	u := f.create("forged.tar.gz", content, "jane")
	f.send(u.ID, 0, content)
	if u := f.end(); u.State != upload.Refused || u.Reason != "not signed with a given key" {
		t.Errorf("got %+v", u)
	}
	if names := f.files(); len(names) != 1 || names[0] != u.ID+".json" {
		t.Errorf("it left %v", names)
	}
	if _, err := os.Stat(filepath.Join(f.options.Bundles, "forged.tar.gz")); !os.IsNotExist(err) {
		t.Errorf("it is usable: %v", err)
	}
	f.restart(t.Context())
	if again := f.List(); len(again) != 1 || again[0].Reason == "" {
		t.Errorf("the reason is gone: %+v", again)
	}
	f.now = f.now.Add(upload.Lifetime)
	if again := f.List(); len(again) != 0 {
		t.Errorf("a day later: %+v", again)
	}
	changed, _, err := f.Create(upload.Request{Name: "b.tar.gz", Length: int64(len(content)), SHA256: strings.Repeat("0", 64), Who: "jane"})
	if err != nil {
		t.Fatal(err)
	}
	f.send(changed.ID, 0, content)
	if u := f.end(); u.State != upload.Refused || !strings.Contains(u.Reason, "the client announced 0000") {
		t.Errorf("another digest than announced: %+v", u)
	}
}

func TestChunkIsKeptWholeOrNotAtAll(t *testing.T) {
	f := newFixture(t)
	content := archive(1000)
	u := f.create("a.tar.gz", content, "jane")
	f.send(u.ID, 0, content[:1000])
	broken := errors.New("connection reset")
	for name, row := range map[string]struct {
		offset, size int64
		sum          string
		from         io.Reader
		want         error
	}{
		"cut":                   {1000, 1000, "", bytes.NewReader(content[1000:1500]), upload.ErrCorrupt},
		"reset":                 {1000, 1000, "", io.MultiReader(bytes.NewReader(content[1000:1500]), errorReader{broken}), broken},
		"changed on its way":    {1000, 1000, sum(content[:1000]), bytes.NewReader(content[1000:2000]), upload.ErrCorrupt},
		"sent twice":            {0, 1000, "", bytes.NewReader(content[:1000]), upload.ErrOffset},
		"before its turn":       {2000, 1000, "", bytes.NewReader(content[2000:3000]), upload.ErrOffset},
		"longer than announced": {1000, int64(len(content)), "", bytes.NewReader(content), upload.ErrInvalid},
		"empty":                 {1000, 0, "", bytes.NewReader(nil), upload.ErrInvalid},
		"too long":              {1000, upload.MaxChunk + 1, "", bytes.NewReader(content), upload.ErrInvalid},
	} {
		if _, err := f.Append(u.ID, row.offset, row.size, row.sum, row.from); !errors.Is(err, row.want) {
			t.Errorf("%s: got %v", name, err)
		}
		if info, err := os.Stat(filepath.Join(f.options.Spool, u.ID+".part")); err != nil || info.Size() != 1000 {
			t.Errorf("%s: the file has %d bytes, %v", name, info.Size(), err)
		}
	}
	f.send(u.ID, 1000, content[1000:])
	if u := f.end(); u.State != upload.Ready {
		t.Errorf("got %+v", u)
	}
	other := f.create("b.tar.gz", content, "jane")
	if _, err := f.Append(other.ID, 0, 4, "", strings.NewReader("#!/b")); !errors.Is(err, upload.ErrInvalid) {
		t.Errorf("a file that is not a bundle: %v", err)
	}
	if _, err := f.Find(other.ID); !errors.Is(err, upload.ErrNone) {
		t.Errorf("a file that is not a bundle takes a slot: %v", err)
	}
	if _, err := f.Append("../../etc/passwd", 0, 4, "", strings.NewReader("x")); !errors.Is(err, upload.ErrNone) {
		t.Errorf("another ID: %v", err)
	}
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }

func TestOneRequestWritesToAnUpload(t *testing.T) {
	f := newFixture(t)
	content := archive(1000)
	u := f.create("a.tar.gz", content, "jane")
	slow, feed := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := f.Append(u.ID, 0, 1000, "", slow)
		ended <- err
	}()
	if _, err := feed.Write(content[:500]); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Append(u.ID, 0, 1000, "", bytes.NewReader(content)); !errors.Is(err, upload.ErrInUse) {
		t.Errorf("a second request: %v", err)
	}
	if err := f.Cancel(u.ID); !errors.Is(err, upload.ErrInUse) {
		t.Errorf("cancel it meanwhile: %v", err)
	}
	if _, err := feed.Write(content[500:1000]); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := f.Cancel(u.ID); err != nil || len(f.files()) != 0 {
		t.Errorf("cancel it: %v, %v", err, f.files())
	}
}

func TestUploadsAreBounded(t *testing.T) {
	f := newFixture(t)
	content := archive(1000)
	first := f.create("a.tar.gz", content, "jane")
	f.create("b.tar.gz", content, "john")
	refused := func(r upload.Request, want error, says string) {
		t.Helper()
		if _, _, err := f.Create(r); !errors.Is(err, want) || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	refused(upload.Request{Name: "c.tar.gz", Length: 10, Who: "jane"}, upload.ErrBusy, "2 uploads are open, which is the limit (a.tar.gz by jane, b.tar.gz by john)")
	refused(upload.Request{Name: "b.tar.gz", Length: int64(len(content)), Who: "jane"}, upload.ErrBusy, "john is sending a b.tar.gz")
	f.now = f.now.Add(upload.Lifetime)
	if _, err := f.Append(first.ID, 0, 10, "", bytes.NewReader(content)); !errors.Is(err, upload.ErrNone) {
		t.Errorf("a chunk after a day: %v", err)
	}
	c := f.create("c.tar.gz", content, "jane") // the others have expired
	if names := f.files(); len(names) != 1 {
		t.Errorf("expired uploads left %v", names)
	}
	f.send(c.ID, 0, content)
	f.end()
	refused(upload.Request{Name: "c.tar.gz", Length: 10, Who: "jane"}, upload.ErrExists, "delete that bundle first")
	for _, r := range []upload.Request{
		{Name: "../c.tar.gz", Length: 1}, {Name: "-c.tar.gz", Length: 1}, {Name: "c.zip", Length: 1}, {Name: "c\n.tar.gz", Length: 1}, {Name: "d.tar.gz"}, {Name: "d.tar.gz", Length: -1},
		{Name: "d.tar.gz", Length: upload.MaxLength + 1}, {Name: "d.tar.gz", Length: 1, SHA256: "x"},
	} {
		refused(r, upload.ErrInvalid, "")
	}
}

func TestDiskIsNotFilled(t *testing.T) {
	f := newFixture(t)
	f.free = 9 * gigabyte // 4 have to stay free
	if _, _, err := f.Create(upload.Request{Name: "a.tar.gz", Length: 6 * gigabyte, Who: "jane"}); !errors.Is(err, upload.ErrSpace) || !strings.Contains(err.Error(), "have to stay free for pods") {
		t.Errorf("6 GiB: %v", err)
	}
	first, _, err := f.Create(upload.Request{Name: "a.tar.gz", Length: 4 * gigabyte, Who: "jane"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Create(upload.Request{Name: "b.tar.gz", Length: 2 * gigabyte, Who: "jane"}); !errors.Is(err, upload.ErrSpace) {
		t.Errorf("2 GiB beside 4 that are promised: %v", err)
	}
	content := archive(1000)
	f.send(first.ID, 0, content)
	f.mu.Lock()
	f.free = 4*gigabyte + 10 // somebody else filled it
	f.mu.Unlock()
	if _, err := f.Append(first.ID, int64(len(content)), 1000, "", bytes.NewReader(content)); !errors.Is(err, upload.ErrSpace) {
		t.Errorf("a chunk on a full disk: %v", err)
	}
}

func TestDamagedRecordsAreRemoved(t *testing.T) {
	f := newFixture(t)
	u := f.create("a.tar.gz", archive(10), "jane")
	for name, text := range map[string]string{u.ID + ".json": "{", "other.json": `{"id":"x","name":"a.tar.gz"}`, "orphan.part": "x", u.ID + ".part": "x"} {
		if err := os.WriteFile(filepath.Join(f.options.Spool, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.restart(t.Context())
	if names := f.files(); len(names) != 0 {
		t.Errorf("they left %v", names)
	}
}

func TestLongNameIsNotRepeated(t *testing.T) {
	longest := strings.Repeat("a", 201) + ".tar.gz"
	for name, ok := range map[string]bool{longest: true, "a" + longest: false, strings.Repeat("\x01", 1<<20): false, "a b.tgz": false} {
		err := upload.CheckName(name)
		if ok != (err == nil) || err != nil && (!errors.Is(err, upload.ErrInvalid) || len(err.Error()) > 300) {
			t.Errorf("a name of %d bytes: %.300v", len(name), err)
		}
	}
}
