package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	containerdclient "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/opencontainers/image-spec/identity"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/installer/cluster/runtime"
	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/internal/testing/containerd"
)

// bundleVariable and socketVariable make this test a program that loads the images of a bundle, so that it can be killed.
const bundleVariable, socketVariable = "SEALIFT_TEST_BUNDLE", "SEALIFT_TEST_SOCKET"

func TestMain(m *testing.M) {
	if name := os.Getenv(bundleVariable); name != "" {
		if err := loadFile(context.Background(), name, os.Getenv(socketVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func loadFile(ctx context.Context, name, socket string) error {
	a, err := bundle.Open(name)
	if err != nil {
		return err
	}
	r, err := runtime.Connect(ctx, socket)
	if err != nil {
		return err
	}
	layout, err := runtime.OpenLayout(a, dir)
	if err != nil {
		return err
	}
	_, err = r.Load(ctx, layout, func(string) {})
	return err
}

// slowImage has a lean layer that takes long to unpack.
func slowImage(t *testing.T) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(leanImage(t), layerOf(t, "large", string(make([]byte, 400<<20))), layerOf(t, "last", "x"))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// unpacked returns the complete snapshots of a containerd, and those of layers that are being unpacked, or were when something was killed.
func unpacked(ctx context.Context, c *containerdclient.Client) (committed, unpacking []string, err error) {
	err = c.SnapshotService("overlayfs").Walk(ctx, func(_ context.Context, info snapshots.Info) error {
		if info.Kind == snapshots.KindCommitted {
			committed = append(committed, info.Name)
		} else if strings.HasPrefix(info.Name, snapshots.UnpackKeyPrefix) {
			unpacking = append(unpacking, info.Name)
		}
		return nil
	})
	return committed, unpacking, err
}

// TestKilledUnpackingIsRepeated kills the program that loads a lean image, and then containerd, while a layer is being unpacked.
func TestKilledUnpackingIsRepeated(t *testing.T) {
	c := containerd.StartForTest(t)
	name := filepath.Join(t.TempDir(), "bundle.tar.gz")
	a := leanBundleFile(t, archive(t, map[string]v1.Image{leanRef: slowImage(t)}), name)
	ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
	for _, kill := range []func(loader *os.Process) error{
		func(loader *os.Process) error { return loader.Kill() },
		func(*os.Process) error { return c.Kill(t.Context()) },
	} {
		client, err := containerdclient.New(c.Socket)
		if err != nil {
			t.Fatal(err)
		}
		_, before, err := unpacked(ctx, client)
		if err != nil {
			t.Fatal(err)
		}
		loader := exec.CommandContext(t.Context(), os.Args[0])
		loader.Env = append(os.Environ(), bundleVariable+"="+name, socketVariable+"="+c.Socket)
		loader.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := loader.Start(); err != nil {
			t.Fatal(err)
		}
		bounded, cancel := context.WithTimeout(ctx, time.Minute)
		err = poll.Until(bounded, time.Millisecond, nil, func(ctx context.Context) (bool, error) {
			committed, unpacking, err := unpacked(ctx, client)
			begun := slices.ContainsFunc(unpacking, func(name string) bool { return !slices.Contains(before, name) })
			return begun && len(committed) == 3, err // the layer on top of these is the slow one
		})
		cancel()
		if err == nil {
			err = kill(loader.Process)
		}
		if err := errors.Join(err, client.Close()); err != nil {
			t.Fatal(err)
		}
		if err := loader.Wait(); err == nil {
			t.Fatal("the load ended before the kill")
		}
	}
	r, err := runtime.Connect(t.Context(), c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	wantLoad(t, r, a, runtime.Result{Loaded: 1})
	wantLoad(t, r, a, runtime.Result{Present: 1})
	wantFiles(ctx, t, c.Socket, map[string]int64{"large": 400 << 20, "usr/local/bin/tool": 1_600_000, "last": 1})
}

// wantFiles compares the sizes of files in the image.
func wantFiles(ctx context.Context, t *testing.T, socket string, want map[string]int64) {
	t.Helper()
	client, err := containerdclient.New(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	image, err := client.GetImage(ctx, leanRef)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := image.RootFS(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if committed, unpacking, err := unpacked(ctx, client); err != nil || len(committed) != len(ids) {
		t.Errorf("snapshots %q, unpacking %q, %v", committed, unpacking, err)
	}
	service := client.SnapshotService("overlayfs")
	mounts, err := service.View(ctx, "look", identity.ChainID(ids).String())
	if err != nil {
		t.Fatal(err)
	}
	err = mount.WithTempMount(ctx, mounts, func(root string) error {
		for name, size := range want {
			info, err := os.Stat(filepath.Join(root, name))
			if err != nil {
				return err
			}
			if info.Size() != size {
				t.Errorf("%s has %d of %d bytes", name, info.Size(), size)
			}
		}
		return nil
	})
	if err := errors.Join(err, service.Remove(ctx, "look")); err != nil {
		t.Fatal(err)
	}
}
