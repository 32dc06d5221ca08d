package platform

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// machine is a kind of host that sealift runs on.
type machine struct {
	platform string
	uname    string // what 'uname -s -m' prints there
	elf      uint16 // e_machine in the header of its programs (System V ABI, ELF header)
}

// machines is the table that scripts, programs and bundles share.
func machines() []machine {
	return []machine{
		{"linux/amd64", "Linux x86_64", 62},
		{"linux/arm64", "Linux aarch64", 183},
	}
}

// OfHosts lists the platforms of hosts that sealift runs on.
func OfHosts() (list []string) {
	for _, m := range machines() {
		list = append(list, m.platform)
	}
	return list
}

// OfArch returns the platform of an architecture in the spelling of Debian, amd64, or of Red Hat and uname, x86_64. It reports whether it
// is one of OfHosts: all and noarch are not.
func OfArch(name string) (platform string, ok bool) {
	for _, m := range machines() {
		if m.platform == "linux/"+name || m.uname == "Linux "+name {
			return m.platform, true
		}
	}
	return "", false
}

// ErrNoProgram means that a file is not an ELF program, but for instance a script.
var ErrNoProgram = errors.New("not an ELF program")

// OfProgram returns the platform of an ELF program by its header. It fails for machines that sealift does not run on.
func OfProgram(r io.ReaderAt) (string, error) {
	var header [20]byte
	if n, err := r.ReadAt(header[:], 0); n < len(header) {
		if err == nil || errors.Is(err, io.EOF) {
			err = ErrNoProgram
		}
		return "", err
	}
	if string(header[:4]) != "\x7fELF" {
		return "", ErrNoProgram
	}
	var order binary.ByteOrder = binary.LittleEndian
	if header[5] == 2 { // EI_DATA: big-endian
		order = binary.BigEndian
	}
	number := order.Uint16(header[18:])
	for _, m := range machines() {
		if m.elf == number {
			return m.platform, nil
		}
	}
	return "", fmt.Errorf("a program for ELF machine %d; sealift runs on %s", number, strings.Join(OfHosts(), " and "))
}

// Program is a program for the hosts of one platform, in the form that scripts need.
type Program struct {
	Platform string
	Path     string // in a bundle or below a server
	SHA256   string // lower-case hex
	Size     int64  // bytes
}

// Cases returns the branches of a shell's case statement on what 'uname -s -m' prints, one for each program that hosts run. A branch sets
// the variables program, digest and size. It inserts the path unquoted, so that must have nothing that a shell interprets.
func Cases(programs []Program) string {
	var text strings.Builder
	for _, p := range programs {
		for _, m := range machines() {
			if Same(m.platform, p.Platform) {
				fmt.Fprintf(&text, "    '%s') program=%s digest=%s size=%d ;;\n", m.uname, p.Path, p.SHA256, p.Size)
			}
		}
	}
	return text.String()
}
