package share

import (
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"sync"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/internal/platform"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/sha256hex"
)

//go:embed join.sh
var joinScript string

// Script makes the script that hosts start with. It is the same until sealift on this node, the CA or the address change.
type Script struct {
	CA       *x509.Certificate
	Address  string // host:port of the server
	Programs Programs

	mu   sync.Mutex
	read map[string]program // by path
}

// program is a file that was read.
type program struct {
	modified time.Time
	digest   string
	size     int64
}

// Text returns the script.
func (s *Script) Text() ([]byte, error) {
	var programs []platform.Program
	for _, p := range s.Programs.platforms() {
		digest, size, err := s.binary(s.Programs.file(p))
		if errors.Is(err, fs.ErrNotExist) && p != s.Programs.Platform {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("sealift for hosts that join: %w", err)
		}
		programs = append(programs, platform.Program{Platform: p, Path: s.Programs.url(p), SHA256: digest, Size: size})
	}
	var names []string
	for _, p := range programs {
		names = append(names, p.Platform)
	}
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return nil, err
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.CA.Raw})
	return []byte(strings.NewReplacer(
		"@HOST@", host, "@PORT@", port, "@PLATFORMS@", strings.Join(names, ", "), programsMark, platform.Cases(programs),
		"@CA_HASH@", identity.CAHash(s.CA), "@CA@", strings.TrimSpace(string(ca)),
	).Replace(joinScript)), nil
}

// programsMark is the line of join.sh that is replaced by the choice of a program.
const programsMark = "    # @PROGRAMS@\n"

// binary returns the digest and the size of a program. It reads the program again when it was replaced.
func (s *Script) binary(path string) (digest string, size int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := regularfile.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	if had, ok := s.read[path]; ok && had.modified.Equal(info.ModTime()) {
		return had.digest, had.size, nil
	}
	if digest, _, err = sha256hex.Read(f); err != nil {
		return "", 0, err
	}
	if s.read == nil {
		s.read = make(map[string]program)
	}
	s.read[path] = program{info.ModTime(), digest, info.Size()}
	return digest, info.Size(), nil
}

// joinCommand fetches the script into a variable, checks that variable, and runs it: no file that another user could replace in between.
// Words behind the command are words for the script. It is quoted with ' and so has none.
const joinCommand = `s=$(curl -fsSkm60 https://@SERVER@@PATH@ 2>/dev/null || { exec 3<>/dev/tcp/@HOST@/@PORT@ && printf "GET @PATH@ HTTP/1.0\r\n\r\n" >&3 && timeout 60 sed "1,/^\r\$/d" <&3; }); ` +
	`case $s in *"@END@") ;; *) echo "join.sh: @SERVER@ did not send it whole; run this command again" >&2; exit 1 ;; esac; ` +
	`[ "$(printf "%s\n" "$s" | sha256sum)" = "@SHA256@  -" ] || { echo "join.sh: @SERVER@ sent another one than this command was made for; get a new command from: sealift token create" >&2; exit 1; }; ` +
	`exec bash -c "$s" join.sh "$@"`

// scriptEnd is the last line of the script.
const scriptEnd = "# end of join.sh"

// Command is run as root on a host to make it a node: it fetches the script, verifies it, and passes it the token, and for a
// control plane the key of the certificates, hidden from other users of the host. It needs bash and coreutils; curl is used if
// installed. A node that falls silent is waited for a minute.
func (s *Script) Command(token, certificateKey string) (string, error) {
	text, err := s.Text()
	if err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return "", err
	}
	secrets, role := token, ""
	if certificateKey != "" {
		secrets, role = token+" "+certificateKey, " control-plane"
	}
	command := strings.NewReplacer("@SERVER@", s.Address, "@HOST@", host, "@PORT@", port, "@PATH@", scriptPath, "@END@", scriptEnd,
		"@SHA256@", sha256hex.Of(text)).Replace(joinCommand)
	return fmt.Sprintf("echo '%s' | bash -c '%s' join.sh%s", secrets, command, role), nil
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
