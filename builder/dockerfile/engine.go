package dockerfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/builder/tool"
	"github.com/sealift/sealift/internal/trust"
)

// Engines lists the supported engines, in the order in which they are tried.
func Engines() []string { return []string{"buildah", "podman", "docker", "buildctl"} }

// FindEngine returns the engine with this name or, for an empty name, the first installed one that answers.
func FindEngine(ctx context.Context, name string) (string, error) {
	if name != "" {
		if !slices.Contains(Engines(), name) {
			return "", fmt.Errorf("%q is not an engine for Dockerfiles; use one of %s", name, strings.Join(Engines(), ", "))
		}
		if _, err := exec.LookPath(name); err != nil {
			return "", fmt.Errorf("engine %s: %w; install it, or choose another with --engine", name, err)
		}
		return name, nil
	}
	for _, engine := range Engines() {
		path, err := exec.LookPath(engine)
		if err != nil {
			continue
		}
		// A client may be installed without its daemon.
		cmd := exec.CommandContext(ctx, path, probes()[engine]...)
		if err := tool.Run(ctx, cmd, discard); err == nil {
			return engine, nil
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
	}
	return "", fmt.Errorf("no engine can build a Dockerfile: none of %s is installed and answers; install buildah, or leave the target out with --target", strings.Join(Engines(), ", "))
}

// probes are commands that succeed when an engine can build.
func probes() map[string][]string {
	return map[string][]string{
		"buildah": {"--version"}, "podman": {"--version"}, "docker": {"version", "--format", "{{.Server.Version}}"}, "buildctl": {"debug", "workers"},
	}
}

func discard(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// job is one build by an engine.
type job struct {
	engine    string
	directory string // a private one, for everything that the build needs besides its results
	running   string // the same for files that exist only while it runs; podman limits the path to 50 characters
	content   []byte // of the Dockerfile
	args      map[string]string
	platform  string
	context   *Context
	cas       trust.CAs
	plainHTTP bool // a base image comes from a registry without TLS; it is pinned by digest
}

// run builds and returns the directory with the files of the result.
func (j job) run(ctx context.Context) (string, error) {
	file, files, out := filepath.Join(j.directory, "Dockerfile"), filepath.Join(j.directory, "context"), filepath.Join(j.directory, "out")
	if err := os.MkdirAll(files, 0o755); err != nil {
		return "", err
	}
	if j.context != nil {
		if err := j.context.copyTo(ctx, files); err != nil {
			return "", fmt.Errorf("context %s: %w", j.context.Dir, err)
		}
	}
	if err := os.WriteFile(file, j.content, 0o644); err != nil {
		return "", err
	}
	args := j.arguments(file, files, out)
	cmd := exec.CommandContext(ctx, j.engine, args...)
	cmd.Dir = j.directory
	cmd.Env = append(append(os.Environ(), "DOCKER_BUILDKIT=1", "BUILDX_NO_DEFAULT_ATTESTATIONS=1"), j.cas.Environment()...)
	err := tool.Run(ctx, cmd, discard)
	if failed, ok := errors.AsType[*tool.Error](err); ok {
		// The build's own output is on standard error; its end names the failure.
		return "", fmt.Errorf("%s: %w:\n%s", j.engine, failed.Err, lastLines(failed.Said, 20))
	}
	return out, err
}

func (j job) arguments(file, files, out string) []string {
	var args, option []string
	switch j.engine {
	case "buildctl":
		args = []string{"build", "--frontend", "dockerfile.v0", "--progress", "plain", "--no-cache", "--local", "context=" + files,
			"--local", "dockerfile=" + filepath.Dir(file), "--opt", "platform=" + j.platform, "--output", "type=local,dest=" + out}
		option = []string{"--opt", "build-arg:"}
	case "docker":
		args = []string{"build", "--progress", "plain", "--no-cache", "--platform", j.platform, "--file", file, "--output", "type=local,dest=" + out}
		option = []string{"--build-arg", ""}
	default:
		// A separate store keeps the build apart from the user's images, and is removed with the directory.
		args = []string{"--root", filepath.Join(j.directory, "store"), "--runroot", j.running,
			"build", "--no-cache", "--platform", j.platform, "--file", file, "--output", "type=local,dest=" + out}
		if j.plainHTTP {
			args = append(args, "--tls-verify=false")
		}
		option = []string{"--build-arg", ""}
	}
	for _, name := range slices.Sorted(maps.Keys(j.args)) {
		args = append(args, option[0], option[1]+name+"="+j.args[name])
	}
	if j.engine != "buildctl" {
		args = append(args, files)
	}
	return args
}

// clean removes the directories of a job. Files of a store may belong to users that only the engine can act for.
func (j job) clean() error {
	err := errors.Join(os.RemoveAll(j.directory), os.RemoveAll(j.running))
	if errors.Is(err, fs.ErrPermission) && (j.engine == "buildah" || j.engine == "podman") {
		if out, failed := exec.Command(j.engine, "unshare", "rm", "-rf", "--", j.directory, j.running).CombinedOutput(); failed != nil {
			return fmt.Errorf("remove %s: %w: %s", j.directory, failed, out)
		}
		return nil
	}
	return err
}

func lastLines(said []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
