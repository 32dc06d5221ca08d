package platform_test

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/sealift/sealift/internal/platform"
)

func TestProgramTellsItsPlatform(t *testing.T) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	if got, err := platform.OfProgram(self); err != nil || got != "linux/"+runtime.GOARCH {
		t.Errorf("this test is for %q, %v", got, err)
	}
	header := func(order, low, high byte) string {
		return "\x7fELF\x02" + string(order) + strings.Repeat("\x00", 12) + string([]byte{low, high})
	}
	for text, want := range map[string]string{header(1, 62, 0): "linux/amd64", header(1, 183, 0): "linux/arm64", header(2, 0, 183): "linux/arm64"} {
		if got, err := platform.OfProgram(strings.NewReader(text)); got != want {
			t.Errorf("%q is for %q, %v; want %s", text, got, err, want)
		}
	}
	if _, err := platform.OfProgram(strings.NewReader(header(1, 243, 0))); err == nil || !strings.Contains(err.Error(), "ELF machine 243; sealift runs on linux/amd64 and linux/arm64") {
		t.Errorf("a program for RISC-V: %v", err)
	}
	for _, text := range []string{"", "#!/bin/sh\n", "#!/bin/sh\necho longer than the header\n", header(1, 62, 0)[:19]} {
		if _, err := platform.OfProgram(strings.NewReader(text)); !errors.Is(err, platform.ErrNoProgram) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestArchitecturesOfDistributionsAreKnown(t *testing.T) {
	for arch, want := range map[string]string{"amd64": "linux/amd64", "x86_64": "linux/amd64", "arm64": "linux/arm64", "aarch64": "linux/arm64", "all": "", "noarch": "", "i386": ""} {
		if got, ok := platform.OfArch(arch); got != want || ok != (want != "") {
			t.Errorf("%s is of %q, %t", arch, got, ok)
		}
	}
}

func TestShellChoosesByUname(t *testing.T) {
	got := platform.Cases([]platform.Program{
		{Platform: "linux/amd64", Path: "bin/sealift", SHA256: "00", Size: 7}, {Platform: "linux/arm64/v8", Path: "bin/linux-arm64/sealift", SHA256: "ff", Size: 8},
		{Platform: "plan9/mips", Path: "x", SHA256: "aa", Size: 9},
	})
	want := "    'Linux x86_64') program=bin/sealift digest=00 size=7 ;;\n    'Linux aarch64') program=bin/linux-arm64/sealift digest=ff size=8 ;;\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
