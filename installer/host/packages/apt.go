package packages

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/poll"
)

// APT installs packages from repositories in folders with the host's own apt-get. The host's own sources are not asked:
// behind an air gap they do not answer.
type APT struct {
	// Dir is where the lists and the cache of the repositories are kept, apart from the host's.
	Dir string
	// Repositories are folders with Packages and Release. Their files were verified against the index of the bundle right before,
	// so apt may trust them; it still checks each .deb against Packages.
	Repositories []string
	// Before are the packages that the host had before the first install, with their versions.
	Before map[string]string
	// Output receives what apt-get and dpkg print.
	Output io.Writer
	status string // dpkg's database; "" for the host's own
}

// Install installs the named packages and their dependencies. It removes nothing and forces nothing; configuration files that
// someone changed are kept.
func (a APT) Install(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if err := a.prepare(); err != nil {
		return err
	}
	if err := a.mend(ctx); err != nil {
		return err
	}
	if err := a.run(ctx, "update"); err != nil {
		return err
	}
	if err := a.run(ctx, "install", "--fix-broken", "--yes", "--no-install-recommends", "--no-remove"); err != nil {
		return err
	}
	return a.run(ctx, append([]string{"install", "--yes", "--no-install-recommends", "--no-remove", "--"}, names...)...)
}

// prepare makes the folders of the lists and the cache, and names the repositories.
func (a APT) prepare() error {
	for _, sub := range []string{"lists/partial", "cache/archives/partial"} {
		if err := files.MkdirAll(filepath.Join(a.Dir, sub), 0o755); err != nil {
			return err
		}
	}
	var sources strings.Builder
	for _, r := range a.Repositories {
		fmt.Fprintf(&sources, "deb [trusted=yes] file:%s ./\n", r)
	}
	list := filepath.Join(a.Dir, "sources.list")
	return files.Write(list, []byte(sources.String()))
}

// lockPause is the time between two checks whether another package manager has ended.
const lockPause = 2 * time.Second

// lockedByAnother matches what dpkg, and debconf in a script of a package, say about a lock that another process has. The wording depends
// on their versions. The names of packages and files may have "lock" in them.
var lockedByAnother = regexp.MustCompile(`(?m)^(dpkg: error|debconf): .* locked by another process\b`)

// dpkg calls dpkg, waiting for another package manager to end: the apt-get of an install that was killed may be running.
func (a APT) dpkg(ctx context.Context, args ...string) error {
	err := poll.Until(ctx, lockPause, nil, func(ctx context.Context) (bool, error) {
		err := run(ctx, a.Output, noninteractive, "dpkg", args, []string{"--force-confold"})
		if err != nil && lockedByAnother.MatchString(err.Error()) {
			err = poll.NotYet(err)
		}
		return err == nil, err
	})
	if poll.Ended(err) {
		return fmt.Errorf("another package manager does not end: %w", err)
	}
	return err
}

// noninteractive keeps dpkg from asking, and needrestart from restarting.
var noninteractive = []string{"DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_MODE=l"}

func (a APT) run(ctx context.Context, args ...string) error {
	return run(ctx, a.Output, noninteractive, "apt-get", args, a.options())
}

// options are the settings for only the repositories. The preferences of the site are left out, as in the builder: a pin of one version or
// origin is not about the bundle's packages, and nothing else could be installed.
func (a APT) options() (options []string) {
	settings := map[string]string{
		"Dir::Etc::SourceList": filepath.Join(a.Dir, "sources.list"), "Dir::Etc::SourceParts": "/dev/null",
		"Dir::Etc::Preferences": "/dev/null", "Dir::Etc::PreferencesParts": "/dev/null", "APT::Default-Release": "",
		"Dir::State::Lists": filepath.Join(a.Dir, "lists"), "Dir::Cache": filepath.Join(a.Dir, "cache"),
		"APT::Sandbox::User": "root", "DPkg::Lock::Timeout": "120", "Dpkg::Options::": "--force-confold",
		"Dpkg::Use-Pty": "0", "Acquire::Retries": "0",
	}
	if a.status != "" {
		settings["Dir::State::Status"] = a.status
	}
	for name, value := range settings {
		options = append(options, "-o", name+"="+value)
	}
	return options
}
