package hook

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// explain returns why a file cannot be started. The kernel's own words for it, "exec format error" and "no such file or
// directory", do not help.
func explain(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("start %s: %w; run chmod +x, and look whether the file system is mounted with noexec", path, err)
	case !errors.Is(err, syscall.ENOEXEC) && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("start %s: %w", path, err)
	}
	head, readErr := beginning(path)
	if readErr != nil {
		return fmt.Errorf("start %s: %w", path, err)
	}
	if strings.HasPrefix(string(head), elf.ELFMAG) && len(head) >= 20 {
		machine := elf.Machine(binary.LittleEndian.Uint16(head[18:]))
		if elf.Data(head[elf.EI_DATA]) == elf.ELFDATA2MSB {
			machine = elf.Machine(binary.BigEndian.Uint16(head[18:]))
		}
		return fmt.Errorf("start %s: %w; it is a program for %s, not for this machine", path, err, strings.TrimPrefix(machine.String(), "EM_"))
	}
	first, _, _ := strings.Cut(string(head), "\n")
	interpreter, ok := strings.CutPrefix(first, "#!")
	switch {
	case len(head) == 0:
		return fmt.Errorf("start %s: %w; the file is empty", path, err)
	case strings.HasPrefix(first, "\uFEFF"):
		return fmt.Errorf("start %s: %w; it begins with a byte order mark: save it without one", path, err)
	case !ok:
		return fmt.Errorf("start %s: %w; it has no first line such as #!/usr/bin/env bash", path, err)
	case strings.HasSuffix(first, "\r"):
		return fmt.Errorf("start %s: %w; its lines end in CRLF: convert it with dos2unix", path, err)
	default:
		return fmt.Errorf("start %s: %w; its interpreter %s does not exist", path, err, strings.Fields(interpreter + " ?")[0])
	}
}

// beginning reads as much as the header of a program takes.
func beginning(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 4096))
}
