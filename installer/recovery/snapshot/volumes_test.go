package snapshot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/klauspost/compress/gzip"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/recovery/volume"
	"github.com/sealift/sealift/internal/testing/controlplane"
)

// withVolumes gives a control plane two volumes, one of 9 MiB that a quiesced pod uses, and one of another node.
func withVolumes(t *testing.T, s *Source) {
	t.Helper()
	config := controlplane.ForTest(t)
	if err := controlplane.WriteKubeconfig(s.path(kubeadm.AdminKubeconfig), config); err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	one := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.Node, Labels: map[string]string{"kubernetes.io/hostname": s.Node}}}
	_, err = client.CoreV1().Nodes().Create(t.Context(), one, metav1.CreateOptions{})
	must(err)
	for name, on := range map[string]string{"data": s.Node, "empty": s.Node, "other": "host-2"} {
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/srv/" + name}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpIn, Values: []string{on}},
			}}}}},
		}}
		_, err := client.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{})
		must(err)
		must(os.MkdirAll(s.path("/srv/"+name), 0o755))
	}
	must(os.WriteFile(s.path("/srv/data/large"), bytes.Repeat([]byte("12345678"), 9<<17), 0o640))
	must(os.WriteFile(s.path("/srv/data/small"), []byte("small"), 0o600))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Annotations: map[string]string{"pre.hook.backup.velero.io/command": "freeze", "post.hook.backup.velero.io/command": "thaw"}},
		Spec: corev1.PodSpec{NodeName: s.Node, Containers: []corev1.Container{{Name: "main", Image: "db"}}, Volumes: []corev1.Volume{
			{Name: "files", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
		}},
	}
	pod, err = client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	must(err)
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Image: "db", ContainerID: "containerd://0123"}}}
	_, err = client.CoreV1().Pods("default").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	must(err)
	s.Volumes = true
}

// restored writes the volumes of a snapshot that a folder lacks.
func restored(t *testing.T, r Reader, snapshot []byte, of Index, dir string) error {
	t.Helper()
	return r.Volumes(bytes.NewReader(snapshot), of, func(name string) (*volume.Writer, error) {
		if lacks, err := volume.IsEmpty(filepath.Join(dir, name)); err != nil || !lacks || name == "empty" {
			return nil, err
		}
		return volume.Write(t.Context(), filepath.Join(dir, name))
	})
}

func TestSnapshotHasQuiescedVolumes(t *testing.T) {
	s := controlPlane(t)
	withVolumes(t, &s)
	var ran []string
	s.execute = func(_ context.Context, container string, command []string, _ io.Writer) error {
		ran = append(ran, container+" "+strings.Join(command, " "))
		return nil
	}
	var said bytes.Buffer
	s.Output = &said
	to, keys := pair(t)
	name := filepath.Join(t.TempDir(), "snapshot")
	saved, err := s.Save(t.Context(), name, to...)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(ran, ", "); got != "0123 freeze, 0123 thaw" {
		t.Error(got)
	}
	if got := said.String(); got != "volume data default/data: reads /srv/data\nvolume empty default/empty: reads /srv/empty\n" {
		t.Error(got)
	}
	if len(saved.VolumesLeftOut) != 1 || saved.VolumesLeftOut[0] != (volume.LeftOut{Name: "other", Claim: "default/other", Why: "it is on another node"}) {
		t.Error(saved.VolumesLeftOut)
	}
	index, err := s.reader(t, keys).Verify(bytes.NewReader(read(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	if index.Format != Format || len(index.Volumes) != 2 || !slices.Equal(index.Volumes, saved.Volumes) || index.Volumes[0].Size < 9<<20 {
		t.Errorf("verified %+v, saved %+v", index.Volumes, saved.Volumes)
	}
	dir := t.TempDir()
	if err := restored(t, s.reader(t, keys), read(t, name), index, dir); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"large", "small"} {
		if !bytes.Equal(read(t, filepath.Join(dir, "data", file)), read(t, s.path("/srv/data/"+file))) {
			t.Errorf("%s is another", file)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "empty")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a volume that was to be skipped is there", err)
	}
	content, err := s.reader(t, keys).Load(bytes.NewReader(read(t, name)))
	if err != nil || !slices.Equal(content.Volumes, saved.Volumes) {
		t.Error(err)
	}
	if err := content.Close(); err != nil {
		t.Error(err)
	}

	out := filepath.Join(t.TempDir(), "unpacked")
	if _, err := s.reader(t, keys).Unpack(bytes.NewReader(read(t, name)), out); err != nil {
		t.Fatal(err)
	}
	list, err := exec.Command("tar", "--list", "--file", filepath.Join(out, "volumes", "data.tar")).CombinedOutput()
	if err != nil || !strings.Contains(string(list), "./large\n") {
		t.Errorf("%s %v", list, err)
	}
}

func TestUnreadableVolumeStopsSave(t *testing.T) {
	s := controlPlane(t)
	withVolumes(t, &s)
	refused := errors.New("refused")
	var ran []string
	s.execute = func(_ context.Context, _ string, command []string, _ io.Writer) error {
		ran = append(ran, command...)
		if command[0] == "freeze" {
			return refused
		}
		return nil
	}
	to, _ := pair(t)
	name := filepath.Join(t.TempDir(), "snapshot")
	if _, err := s.Save(t.Context(), name, to...); !errors.Is(err, refused) {
		t.Error(err)
	}
	if got := strings.Join(ran, ", "); got != "freeze, thaw" {
		t.Error(got)
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a snapshot without its volumes is there", err)
	}
}

func TestNextSaveResumesQuiescedPods(t *testing.T) {
	s := controlPlane(t)
	record := s.path(node.QuiescedFile(node.DefaultRoot))
	if err := os.WriteFile(record, []byte(`[{"pod":"shop/db","container":"main","id":"0123","command":["thaw"],"timeout":30000000000}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	var ran []string
	s.execute = func(_ context.Context, container string, command []string, _ io.Writer) error {
		ran = append(ran, container+" "+strings.Join(command, " "))
		return nil
	}
	to, _ := pair(t)
	if _, err := s.Save(t.Context(), filepath.Join(t.TempDir(), "snapshot"), to...); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(record); !slices.Equal(ran, []string{"0123 thaw"}) || !errors.Is(err, fs.ErrNotExist) {
		t.Error(ran, err)
	}
}

// TestFailingHookOfEarlierSaveStopsNoSave has a hook that fails for ever.
func TestFailingHookOfEarlierSaveStopsNoSave(t *testing.T) {
	s := controlPlane(t)
	record := s.path(node.QuiescedFile(node.DefaultRoot))
	if err := os.WriteFile(record, []byte(`[{"pod":"shop/db","container":"main","id":"0123","command":["thaw"],"timeout":30000000000}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.execute = func(context.Context, string, []string, io.Writer) error { return errors.New("refused") }
	var said bytes.Buffer
	s.Output = &said
	to, keys := pair(t)
	name := filepath.Join(t.TempDir(), "snapshot")
	if _, err := s.Save(t.Context(), name, to...); err != nil {
		t.Error(err)
	}
	if _, err := s.reader(t, keys).Verify(bytes.NewReader(read(t, name))); err != nil {
		t.Error(err)
	}
	if got := said.String(); !strings.Contains(got, "warning: pods stay quiesced") || !strings.Contains(got, "shop/db") {
		t.Errorf("said %q", got)
	}
	if _, err := os.Stat(record); err != nil {
		t.Error("the next save does not try again", err)
	}
}

func TestFailingPostHookIsToldAfterVolumesAreSaved(t *testing.T) {
	s := controlPlane(t)
	withVolumes(t, &s)
	refused := errors.New("refused")
	fails := map[string]error{"thaw": refused}
	s.execute = func(_ context.Context, _ string, command []string, _ io.Writer) error { return fails[command[0]] }
	to, keys := pair(t)
	for range 2 { // the second has the hook that the first left, too
		name := filepath.Join(t.TempDir(), "snapshot")
		saved, err := s.Save(t.Context(), name, to...)
		if !errors.Is(err, ErrNotResumed) || !errors.Is(err, refused) {
			t.Error(err)
		}
		index, err := s.reader(t, keys).Verify(bytes.NewReader(read(t, name)))
		if err != nil || len(index.Volumes) != 2 || !slices.Equal(index.Volumes, saved.Volumes) {
			t.Errorf("verified %+v, saved %+v, %v", index.Volumes, saved.Volumes, err)
		}
	}
	delete(fails, "thaw")
	if _, err := s.Save(t.Context(), filepath.Join(t.TempDir(), "snapshot"), to...); err != nil {
		t.Error(err)
	}
}

// forged is a snapshot whose archive a holder of the public key has replaced.
func forged(t *testing.T, snapshot []byte, keys []age.Identity, to []age.Recipient, was, is string) []byte {
	t.Helper()
	decrypted, err := age.Decrypt(bytes.NewReader(snapshot), keys...)
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(decrypted)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(content, []byte(was)) {
		t.Fatalf("the snapshot has no %q", was)
	}
	var b bytes.Buffer
	encrypted, err := age.Encrypt(&b, to...)
	if err != nil {
		t.Fatal(err)
	}
	packed := gzip.NewWriter(encrypted)
	_, err = packed.Write(bytes.Replace(content, []byte(was), []byte(is), 1))
	if err = errors.Join(err, packed.Close(), encrypted.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDamagedVolumesAreNotWritten(t *testing.T) {
	s := controlPlane(t)
	withVolumes(t, &s)
	s.execute = func(context.Context, string, []string, io.Writer) error { return nil }
	to, keys := pair(t)
	name := filepath.Join(t.TempDir(), "snapshot")
	if _, err := s.Save(t.Context(), name, to...); err != nil {
		t.Fatal(err)
	}
	whole, r := read(t, name), s.reader(t, keys)
	index, err := r.Verify(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		damaged := slices.Clone(whole)
		damaged[len(damaged)*(n+79)/100] ^= 1
		dir := t.TempDir()
		if err := restored(t, r, damaged, index, dir); err == nil {
			t.Errorf("byte %d of %d is flipped, and the volumes are restored", len(damaged)*(n+79)/100, len(damaged))
		}
	}
	dir := t.TempDir()
	if err := restored(t, r, whole[:len(whole)-1<<10], index, dir); err == nil {
		t.Error("a snapshot that was cut is restored")
	}
	if err := restored(t, r, whole, index, dir); err != nil {
		t.Errorf("the same command does not go on: %v", err)
	}
	if _, err := s.reader(t, keys).Verify(bytes.NewReader(forged(t, whole, keys, to, "12345678", "12345679"))); err == nil || !strings.Contains(err.Error(), "volume data has") {
		t.Errorf("another content of a volume: %v", err)
	}
}
