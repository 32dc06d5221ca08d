package host

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/sealift/sealift/internal/testing/fixture"
	"github.com/sealift/sealift/testgrid/lab/qemu"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// machineIn returns a virtual machine that was never switched on.
func machineIn(t *testing.T, s MachineSpec, usb ...string) virtualMachine {
	t.Helper()
	address := gateway(network4).Next()
	h := &Host{rack: &Rack{dir: t.TempDir(), id: "abc123", progress: func(string) {}}, dir: t.TempDir(), state: state{Name: "vm-1", Address: address, USB: usb}}
	h.state.makeMachine(s)
	return virtualMachine{h}
}

// seedFiles returns the files of a machine's seed, in their order.
func seedFiles(t *testing.T, h virtualMachine) (names []string, content map[string]string) {
	t.Helper()
	f, err := os.Open(filepath.Join(h.dir, seedDisk))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	content = map[string]string{}
	for archive := tar.NewReader(f); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names, content
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		content[header.Name] = string(text)
	}
}

func TestSeedLetsThisMachineLogIn(t *testing.T) {
	h := machineIn(t, MachineSpec{}, "/one", "/two")
	if err := h.writeSeed(); err != nil {
		t.Fatal(err)
	}
	names, content := seedFiles(t, h)
	if last := names[len(names)-1]; last != "etc/sealift-lab/setup" {
		t.Errorf("the last file is %s, so that a power cut could leave a part of the others", last)
	}
	key, err := os.ReadFile(filepath.Join(h.dir, keyFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range []struct{ private, public string }{
		{string(key), content["etc/sealift-lab/authorized_keys"]},
		{content["etc/sealift-lab/host_key"], strings.TrimPrefix(read(t, filepath.Join(h.dir, knownFile)), "vm-1 ")},
	} {
		signer, err := ssh.ParsePrivateKey([]byte(pair.private))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(ssh.MarshalAuthorizedKey(signer.PublicKey())); got != pair.public {
			t.Errorf("the keys differ: %s%s", got, pair.public)
		}
	}
	for _, want := range []string{"address add 10.90.0.2/16 dev host0", h.cableCard() + ") ip link", "virtio-usb /media/usb\n", "virtio-usb2 /media/usb2\n"} {
		if !strings.Contains(content["etc/sealift-lab/setup"], want) {
			t.Errorf("the setup lacks %q:\n%s", want, content["etc/sealift-lab/setup"])
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMachineHasNoWayOut(t *testing.T) {
	h := machineIn(t, MachineSpec{})
	h.state.Machine.Port = 2222
	var cards []string
	args := h.qemuArgs("/system", qemu.Emulated, time.Now())
	for at, arg := range args {
		if arg == "-netdev" {
			cards = append(cards, args[at+1])
		}
	}
	want := []string{"tap,id=cable,script=no,downscript=no,ifname=slv-abc123-0002", "user,id=shell,restrict=on,hostfwd=tcp:127.0.0.1:2222-:22"}
	if diff := cmp.Diff(want, cards); diff != "" {
		t.Error(diff)
	}
	if len(h.tap()) > 15 {
		t.Errorf("%s is too long for the name of an interface", h.tap())
	}
}

func TestClockRunsWhileMachineIsOff(t *testing.T) {
	clock := time.Now().AddDate(5, 0, 0)
	h := machineIn(t, MachineSpec{Clock: clock})
	base := func(now time.Time) string {
		args := h.qemuArgs("/system", qemu.Emulated, now)
		return args[slices.Index(args, "-rtc")+1]
	}
	later := time.Now().Add(time.Hour)
	for _, second := range []int{-1, 0, 1} {
		if base(later) == "base="+clock.Add(time.Hour).Add(time.Duration(second)*time.Second).UTC().Format("2006-01-02T15:04:05") {
			return
		}
	}
	t.Errorf("an hour after %s the clock is at %s", clock.UTC(), base(later))
}

// TestProbeEndsWhereKVMHangs uses a QEMU that does what each row says.
func TestProbeEndsWhereKVMHangs(t *testing.T) {
	for _, tt := range []struct{ behaviour, script, want string }{
		{"a kernel that boots", "echo 'Kernel panic - not syncing: Attempted to kill init!'", ""},
		{"a kernel that hangs", "echo Booting; exec sleep 60", "did not start a program within 500ms"},
		{"no right to use it", "echo 'Could not access KVM kernel module'; exit 1", "Could not access KVM kernel module"},
	} {
		t.Run(tt.behaviour, func(t *testing.T) {
			dir := t.TempDir()
			if err := fixture.WriteProgram(filepath.Join(dir, "qemu-system-x86_64"), "#!/bin/sh\n"+tt.script+"\n"); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			most := time.Minute
			if strings.Contains(tt.want, "500ms") {
				most = 500 * time.Millisecond
			}
			err := probeKVM(t.Context(), qemu.BoardOf("amd64"), "/system", most)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestUSBDiskHasRoomForItsFolder(t *testing.T) {
	folder := t.TempDir()
	for i := range 3000 {
		if err := os.WriteFile(filepath.Join(folder, strconv.Itoa(i)), []byte("small"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "large"), make([]byte, 40<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	size, err := diskSizeFor(folder)
	if err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(t.TempDir(), "usb.img")
	if err := upstream.MakeDisk(t.Context(), folder, image, size, "usb"); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(image); err != nil || info.Size() > 100<<20 {
		t.Errorf("%+v, %v", info, err)
	}
}
