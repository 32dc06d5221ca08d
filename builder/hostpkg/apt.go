package hostpkg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sealift/sealift/internal/atomicfile"
)

// apt runs apt-get and apt-cache in a private directory, which has their data about one target's archives.
type apt struct {
	dir           string
	get, cacheBin string
	logins        string // at mirrors, as apt_auth.conf(5) has them; they are on the disk only while a tool runs
}

// configuration is apt.conf(5) for a private directory. Everything that apt could read from the machine is redirected, except
// the transport methods and the keyrings that the sources name.
const configuration = `Dir "%[1]s/";
Dir::Etc "etc/";
Dir::Etc::main "none";
Dir::Etc::parts "none.d/";
Dir::Etc::sourcelist "none";
Dir::Etc::sourceparts "sources.list.d/";
Dir::Etc::preferences "none";
Dir::Etc::preferencesparts "none.d/";
Dir::Etc::trusted "none.gpg";
Dir::Etc::trustedparts "none.d/";
Dir::State "state/";
Dir::State::status "%[1]s/status";
Dir::Cache "cache/";
Dir::Log "log/";
Dir::Bin::methods "%[2]s/";
APT::Architecture "%[3]s";
APT::Architectures { "%[3]s"; };
APT::Install-Recommends "false";
APT::Install-Suggests "false";
APT::Sandbox::User "root";
APT::Get::AllowUnauthenticated "false";
APT::Update::Error-Mode "any";
Acquire::AllowInsecureRepositories "false";
Acquire::Languages "none";
Acquire::ForceHash "SHA256";
Acquire::Retries "3";
Acquire::http::Timeout "60";
Acquire::https::Timeout "60";
`

// methods is the directory of apt's transports on every Debian-like system.
const methods = "/usr/lib/apt/methods"

// prepare writes the private directory's own files.
func (a apt) prepare(arch, sources string) error {
	for _, sub := range []string{"etc/none.d", "etc/sources.list.d", "state/lists/partial", "cache/archives/partial", "log"} {
		if err := os.MkdirAll(filepath.Join(a.dir, sub), 0o755); err != nil {
			return err
		}
	}
	if err := atomicfile.Write(filepath.Join(a.dir, "apt.conf"), []byte(fmt.Sprintf(configuration, a.dir, methods, arch))); err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(a.dir, "etc/sources.list.d/target.sources"), []byte(sources)); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(a.dir, "status"), nil)
}

// sourcesFile is sources.list(5) in deb822 form; rewrite applies the mirrors.
func sourcesFile(archives []Archive, rewrite func(string) string) string {
	var b strings.Builder
	for _, s := range archives {
		fmt.Fprintf(&b, "Types: deb\nURIs: %s\nSuites: %s\n", rewrite(s.base()), strings.Join(s.Suites, " "))
		if !s.isFlat() {
			fmt.Fprintf(&b, "Components: %s\n", strings.Join(s.Components, " "))
		}
		fmt.Fprintf(&b, "Signed-By: %s\n\n", s.SignedBy)
	}
	return b.String()
}

// run runs one of the tools and passes its output to read, which may stop before the end.
func (a apt) run(ctx context.Context, tool string, read func(io.Reader) error, args ...string) error {
	if a.logins != "" {
		file, err := temporaryFile(a.logins)
		if err != nil {
			return err
		}
		defer func() { _ = os.Remove(file) }()
		args = append([]string{"-o", "Dir::Etc::netrc=" + file}, args...)
	}
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Env = append(environment(os.Environ()), "APT_CONFIG="+filepath.Join(a.dir, "apt.conf"))
	cmd.Dir = a.dir
	return execute(ctx, cmd, aptMessages, read)
}

// temporaryFile writes a file that only this user can read.
func temporaryFile(content string) (name string, err error) {
	f, err := os.CreateTemp("", "sealift-logins-")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// withoutLogin removes user and password from a URL: the tools store their input, and their folders are in the cache.
func withoutLogin(address string) (string, *url.Userinfo) {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address, nil
	}
	user := u.User
	u.User = nil
	return u.String(), user
}

// aptMessages returns apt's errors, without the letter they start with; without errors, its warnings.
func aptMessages(said []byte) []string {
	for _, prefix := range []string{"E: ", "W: "} {
		var found []string
		for line := range bytes.Lines(said) {
			if message, ok := strings.CutPrefix(strings.TrimSpace(string(line)), prefix); ok {
				found = append(found, message)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}
