// Package fips reports what of a host works without a FIPS 140-3 module: its kernel, the Go programs that run on it, in pods too, and the
// encryption of Secrets.
//
// The package only looks. Programs in other languages are counted, since their cryptography comes from the libraries of their distribution.
package fips

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/internal/fips"
	"github.com/sealift/sealift/internal/regularfile"
)

// Finding is one thing that was looked at.
type Finding struct {
	What  string `json:"what"` // such as "process 812 /usr/bin/kubelet"
	Found string `json:"found"`
	// Approved reports whether it has a module for FIPS 140-3 that is active.
	Approved bool `json:"approved"`
}

// Report is what was found on a host.
type Report struct {
	Findings []Finding `json:"findings"`
	// Others is the number of processes or images without a Go program, which are not judged, and Kind is what they are, such as processes.
	Others int    `json:"others"`
	Kind   string `json:"kind"`
}

// Refused counts the findings that are not approved.
func (r Report) Refused() (n int) {
	for _, f := range r.Findings {
		if !f.Approved {
			n++
		}
	}
	return n
}

// Look reports on the host whose root is the folder root, usually "/". It reads the programs of all processes, so it must run as root.
func Look(root string) (Report, error) {
	kernel, err := kernelMode(root)
	if err != nil {
		return Report{}, err
	}
	r := Report{Findings: []Finding{kernel}, Kind: "processes"}
	if err := r.processes(filepath.Join(root, "proc")); err != nil {
		return Report{}, err
	}
	if _, err := os.Stat(filepath.Join(root, cluster.EncryptionFile)); err == nil {
		r.Findings = append(r.Findings, Finding{What: "encryption of Secrets", Found: "secretbox (" + fips.Secrets.Algorithms() + "), which FIPS 140-3 does not approve; the disk of etcd needs an encryption of its own"})
	}
	return r, nil
}

func kernelMode(root string) (Finding, error) {
	on, err := fips.Kernel(os.DirFS(root))
	if on {
		return Finding{What: "kernel", Found: "FIPS mode is on", Approved: true}, err
	}
	return Finding{What: "kernel", Found: "FIPS mode is off; " + fips.KernelHint}, err
}

// processes adds the Go programs that run.
func (r *Report) processes(proc string) error {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return err
	}
	var ids []int
	for _, e := range entries {
		if id, err := strconv.Atoi(e.Name()); err == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		if err := r.process(filepath.Join(proc, strconv.Itoa(id)), id); err != nil && !gone(err) {
			return fmt.Errorf("process %d: %w", id, err)
		}
	}
	return nil
}

// gone reports whether a process ended while it was looked at, or belongs to the kernel, which has no program.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

func (r *Report) process(dir string, id int) error {
	program, err := regularfile.Open(filepath.Join(dir, "exe"))
	if err != nil {
		return err
	}
	defer program.Close()
	info, err := buildinfo.Read(program)
	if err != nil {
		r.Others++
		return nil // any other program has no such record
	}
	environment, err := regularfile.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		return err
	}
	path, err := os.Readlink(filepath.Join(dir, "exe"))
	if err != nil {
		return err
	}
	m := fips.Of(info, strings.Split(string(environment), "\x00")...)
	r.Findings = append(r.Findings, Finding{What: fmt.Sprintf("process %d %s", id, path), Found: "module " + m.String(), Approved: m.Active})
	return nil
}
