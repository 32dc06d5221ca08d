package hostpkg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealift/sealift/atomicfile"
)

// apt runs apt-get and apt-cache inside a private directory, which holds what they know of one target's archives.
type apt struct {
	dir           string
	get, cacheBin string
}

// configuration is apt.conf(5) for a private directory. Everything that apt could take from the machine is redirected;
// what is left of the machine are the transport methods and the keyrings that the sources name.
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

// methods is where apt's transports lie on every Debian-like system.
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
		fmt.Fprintf(&b, "Types: deb\nURIs: %s\nSuites: %s\nComponents: %s\nSigned-By: %s\n\n",
			rewrite(s.base()), strings.Join(s.Suites, " "), strings.Join(s.Components, " "), s.SignedBy)
	}
	return b.String()
}

// toolError is what apt itself said when it failed.
type toolError struct {
	command  string
	messages []string
	err      error
}

func (e *toolError) Error() string {
	if len(e.messages) == 0 {
		return fmt.Sprintf("%s: %v", e.command, e.err)
	}
	return fmt.Sprintf("%s: %s", e.command, strings.Join(e.messages, "; "))
}

func (e *toolError) Unwrap() error { return e.err }

// run runs one of the tools and passes its output to read, which may stop before the end.
func (a apt) run(ctx context.Context, tool string, read func(io.Reader) error, args ...string) error {
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Env = append(environment(os.Environ()), "APT_CONFIG="+filepath.Join(a.dir, "apt.conf"), "LC_ALL=C")
	cmd.Dir = a.dir
	// apt's transports are processes of their own; they end with it. It ends with us, also when we are killed: it would
	// keep its lock on the lists and fail the next build. The kernel takes the end of the thread that forked for ours.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	said := &tail{limit: 64 << 10}
	cmd.Stderr = said
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := read(stdout)
	_, drainErr := io.Copy(io.Discard, stdout)
	err = cmd.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return &toolError{command: filepath.Base(tool) + " " + args[0], messages: said.messages(), err: err}
	}
	return errors.Join(readErr, drainErr)
}

// environment keeps what a tool needs to reach the network and nothing that could change its answers.
func environment(all []string) []string {
	kept := []string{"DEBIAN_FRONTEND=noninteractive"}
	for _, v := range all {
		name, _, _ := strings.Cut(v, "=")
		switch strings.ToLower(name) {
		case "path", "home", "tmpdir", "http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy":
			kept = append(kept, v)
		}
	}
	return kept
}

// tail keeps the end of what a tool writes.
type tail struct {
	limit int
	buf   []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if extra := len(t.buf) - t.limit; extra > 0 {
		t.buf = t.buf[extra:]
	}
	return len(p), nil
}

// messages returns apt's errors, without the letter they start with; without errors, its warnings.
func (t *tail) messages() []string {
	for _, prefix := range []string{"E: ", "W: "} {
		var found []string
		for line := range bytes.Lines(t.buf) {
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

// find looks for a tool.
func find(name, given string) (string, error) {
	if given != "" {
		return given, nil
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is needed to find out what packages depend on: %w; install the package apt, or build on a Debian-like system", name, err)
	}
	return found, nil
}

// lock takes the private directory for this process; other processes wait for it.
func lock(ctx context.Context, path string) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
