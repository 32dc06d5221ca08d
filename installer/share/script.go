package share

import (
	"crypto/sha256"
	"crypto/x509"
	_ "embed"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sealift/sealift/installer/identity"
	"github.com/sealift/sealift/internal/regularfile"
)

//go:embed join.sh
var joinScript string

// Script makes the script that hosts start with. It is the same until sealift on this node, the CA or the address change.
type Script struct {
	CA       *x509.Certificate
	Address  string // host:port of the server
	Platform string // of Binary, such as linux/amd64
	Binary   string // the sealift that hosts run

	mu       sync.Mutex
	modified time.Time
	digest   string
}

// Text gives the script.
func (s *Script) Text() ([]byte, error) {
	digest, err := s.binaryDigest()
	if err != nil {
		return nil, fmt.Errorf("sealift for hosts that join: %w", err)
	}
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return nil, err
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.CA.Raw})
	return []byte(strings.NewReplacer(
		"@HOST@", host, "@PORT@", port, "@PLATFORM@", s.Platform, "@SHA256@", digest,
		"@CA_HASH@", identity.CAHash(s.CA), "@CA@", strings.TrimSpace(string(ca)),
	).Replace(joinScript)), nil
}

// binaryDigest reads the binary again when it was replaced.
func (s *Script) binaryDigest() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := regularfile.Open(s.Binary)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if s.digest != "" && s.modified.Equal(info.ModTime()) {
		return s.digest, nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	s.digest, s.modified = hex.EncodeToString(sum.Sum(nil)), info.ModTime()
	return s.digest, nil
}

// Command is what a person runs on a host as root to make it a node: it fetches the script, checks it, and hands it the
// token, and for a control plane the key of the certificates, without showing them to other users of the host. It needs
// bash and coreutils; curl is used if it is there. A node that falls silent is waited for a minute.
func (s *Script) Command(token, certificateKey string) (string, error) {
	text, err := s.Text()
	if err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	secrets, role := token, ""
	if certificateKey != "" {
		secrets, role = token+" "+certificateKey, " control-plane"
	}
	return fmt.Sprintf(`( curl -fsSkm60 https://%[1]s%[2]s 2>/dev/null || { exec 3<>/dev/tcp/%[3]s/%[4]s && printf 'GET %[2]s HTTP/1.0\r\n\r\n' >&3 && timeout 60 sed '1,/^\r$/d' <&3; } ) >join.sh && echo '%[5]x  join.sh' | sha256sum --check --quiet && echo '%[6]s' | bash join.sh%[7]s`,
		s.Address, scriptPath, host, port, sum, secrets, role), nil
}

// OnlineCommand is the command that an administrator runs as root to join a host online, from the Installer at a server's URL. It
// passes secrets in the environment, where other users of the host cannot read them.
func (s *Script) OnlineCommand(url, token, certificateKey string) (string, error) {
	secrets, role := "SEALIFT_TOKEN="+token, ""
	if certificateKey != "" {
		secrets, role = secrets+" SEALIFT_CERTIFICATE_KEY="+certificateKey, " control-plane"
	}
	source, err := syntax.Quote(strings.TrimSuffix(strings.TrimSuffix(url, "/"), "/install.sh")+"/join.sh", syntax.LangBash)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("curl -fsSL %s | %s bash -s -- --server %s --ca-hash %s%s",
		source, secrets, s.Address, identity.CAHash(s.CA), role), nil
}
