package host

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/sealift/sealift/installer/host/command"
	"github.com/sealift/sealift/installer/host/files"
)

// trustStore names the folder for certificates that an administrator adds, and the command that makes programs see them.
type trustStore struct {
	folder, extension string
	update            []string
}

// hostTrustStore is that of this host. If the host has no update program, the folder is one that Go programs such as containerd
// read.
func hostTrustStore() trustStore {
	for _, s := range []trustStore{
		{"/etc/pki/ca-trust/source/anchors", ".pem", []string{"update-ca-trust", "extract"}},
		{"/usr/local/share/ca-certificates", ".crt", []string{"update-ca-certificates"}},
	} {
		if _, err := exec.LookPath(s.update[0]); err == nil {
			return s
		}
	}
	return trustStore{"/etc/ssl/certs", ".pem", nil}
}

// TrustCAs makes the programs of this host trust certificates, each in a separate PEM file. They replace those of an earlier call.
// TrustCAs changes files in /etc and /usr/local.
func TrustCAs(ctx context.Context, output io.Writer, certificates [][]byte) error {
	return hostTrustStore().trust(ctx, output, certificates)
}

func (s trustStore) trust(ctx context.Context, output io.Writer, certificates [][]byte) error {
	old, err := filepath.Glob(filepath.Join(s.folder, "sealift-*"+s.extension))
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := files.Remove(name); err != nil {
			return fmt.Errorf("trust CAs: %w", err)
		}
	}
	if err := files.MkdirAll(s.folder, 0o755); err != nil {
		return fmt.Errorf("trust CAs: %w", err)
	}
	for n, certificate := range certificates {
		if err := files.Write(filepath.Join(s.folder, "sealift-"+strconv.Itoa(n+1)+s.extension), certificate); err != nil {
			return fmt.Errorf("trust CAs: %w", err)
		}
	}
	if s.update == nil {
		return nil
	}
	if err := command.Run(ctx, output, s.update[0], s.update[1:]...); err != nil {
		return fmt.Errorf("trust CAs: %w", err)
	}
	return nil
}
