package fips

import (
	"crypto/fips140"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// Unapproved is a use of cryptography that FIPS 140-3 does not approve. This is the place that has all of Sealift's.
type Unapproved int

// The uses.
const (
	Snapshots   Unapproved = iota // encryption of snapshots
	Secrets                       // encryption of Secrets in etcd
	PrivateKeys                   // encryption of private keys that sign, with a passphrase
)

// describe returns the name of a use, its algorithms, and what to do instead.
func (u Unapproved) describe() (name, algorithms, instead string) {
	switch u {
	case Snapshots:
		return "age, which encrypts snapshots,", "X25519, scrypt and ChaCha20-Poly1305",
			"copy etcd with etcdctl to a disk that is encrypted with approved algorithms, or save snapshots with a sealift that was built without FIPS=1"
	case Secrets:
		return "secretbox, which encrypts Secrets in etcd,", "XSalsa20 and Poly1305", "encrypt the disk of etcd with approved algorithms, and leave kubernetes.encryptSecrets and kubernetes.cisCompliance out of the Installer, or write encryptSecrets: false beside hardening"
	case PrivateKeys:
		return "cosign's format for private keys", "scrypt, XSalsa20 and Poly1305",
			"use a key without a passphrase on a disk that is encrypted with approved algorithms: openssl ecparam -genkey -name prime256v1 -noout"
	}
	return "", "", ""
}

// Algorithms names the algorithms of a use.
func (u Unapproved) Algorithms() string {
	_, algorithms, _ := u.describe()
	return algorithms
}

// Enforced reports whether this program runs in FIPS mode, and so refuses what is not approved.
func Enforced() bool { return fips140.Enabled() }

// Kernel reports whether the kernel works in FIPS mode. root is the root of the host's file system, with /proc.
func Kernel(root fs.FS) (bool, error) {
	text, err := fs.ReadFile(root, "proc/sys/crypto/fips_enabled")
	if errors.Is(err, fs.ErrNotExist) { // a kernel without that mode
		return false, nil
	}
	return strings.TrimSpace(string(text)) == "1", err
}

// KernelHint says how to put the kernel into FIPS mode.
const KernelHint = "boot it with fips=1"

// Refuse returns an error that names the use and the way out if this program runs in FIPS mode. Call it before data or keys are protected so. What
// only reads what was protected before is not refused, so that nobody loses data.
func (u Unapproved) Refuse() error { return u.refuse(Enforced()) }

func (u Unapproved) refuse(enforced bool) error {
	if !enforced {
		return nil
	}
	name, algorithms, instead := u.describe()
	return fmt.Errorf("%s uses %s, which FIPS 140-3 does not approve, and this program runs in FIPS mode; %s", name, algorithms, instead)
}
