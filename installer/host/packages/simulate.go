package packages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/sealift/sealift/installer/host/command"
)

// Obstacle is why a package cannot be installed beside the host's packages.
type Obstacle struct {
	Package string // the requested one; "" if the packages together are the problem
	Reason  string // names the packages that stand against one another
	Hint    string // what to do about it
}

// Obstacles finds out with the settings of Install what would block it. It changes nothing on the host but Dir, and needs only the
// indexes of the repositories, not their packages.
func (p Manager) Obstacles(ctx context.Context, names []string) ([]Obstacle, error) {
	if len(names) == 0 {
		return nil, nil
	}
	tool, err := p.tool()
	if err != nil {
		return nil, err
	}
	return tool.Obstacles(ctx, names)
}

// obstacles asks for all packages at once, and if that fails for each alone, to name the blocking ones.
func obstacles(names []string, ask func(names []string) (*Obstacle, error)) (found []Obstacle, err error) {
	whole, err := ask(names)
	if whole == nil || err != nil {
		return nil, err
	}
	for _, name := range names {
		one, err := ask([]string{name})
		if err != nil {
			return nil, err
		}
		if one != nil {
			one.Package = name
			found = append(found, *one)
		}
	}
	if len(found) == 0 {
		found = append(found, *whole)
	}
	return found, nil
}

// answer runs a package manager in simulation, and returns its output. failed is its refusal.
func answer(ctx context.Context, name string, args []string, environment ...string) (out string, failed bool, err error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(command.Environ(), environment...)
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		return "", false, fmt.Errorf("%s: %w", name, err)
	}
	return string(text), err != nil, nil
}

const otherVersions = "remove or replace what stands in the way, install the package from the repositories of the site, or build the add-on again with packages that fit"

// Obstacles implements the check of a host of Debian's family.
func (a APT) Obstacles(ctx context.Context, names []string) ([]Obstacle, error) {
	if err := a.prepare(); err != nil {
		return nil, err
	}
	if out, failed, err := answer(ctx, "apt-get", append(a.options(), "update"), noninteractive...); err != nil || failed {
		return nil, errors.Join(err, fmt.Errorf("apt-get update: %s", strings.TrimSpace(out)))
	}
	return obstacles(names, func(names []string) (*Obstacle, error) { return a.ask(ctx, names) })
}

// notInstalled names a dependency that cannot be installed for its own reason.
var notInstalled = regexp.MustCompile(`(?:Pre)?Depends: (\S+).* but it is not going to be installed`)

// ask simulates an installation. A dependency that apt-get does not explain is also requested by name: then it does.
func (a APT) ask(ctx context.Context, names []string) (*Obstacle, error) {
	for asked := slices.Clone(names); ; {
		args := append(a.options(), "install", "--simulate", "--fix-broken", "--yes", "--no-install-recommends", "--no-remove", "--")
		out, failed, err := answer(ctx, "apt-get", append(args, asked...), noninteractive...)
		if err != nil || !failed {
			return nil, err
		}
		more := len(asked)
		for _, m := range notInstalled.FindAllStringSubmatch(out, -1) {
			name := strings.TrimSuffix(m[1], ":any")
			if !slices.Contains(asked, name) && len(asked) < len(names)+maxAsked {
				asked = append(asked, name)
			}
		}
		if len(asked) > more {
			continue
		}
		o := parseApt(out)
		return &o, nil
	}
}

// maxAsked bounds the number of dependencies on a command line.
const maxAsked = 20

// parseApt reads why apt-get refused, in the language C.
func parseApt(out string) Obstacle {
	sections, errs := aptSections(out)
	removed := strings.Fields(strings.Join(sections["The following packages will be REMOVED:"], " "))
	held := strings.Fields(strings.Join(sections["The following held packages will be changed:"], " "))
	switch unmet := sections["The following packages have unmet dependencies:"]; {
	case len(removed) > 0:
		return Obstacle{Reason: "cannot be installed beside " + strings.Join(removed, ", "),
			Hint: "remove it with 'apt-get remove " + strings.Join(removed, " ") + "' if the host does not need it, or leave out the add-on"}
	case len(held) > 0:
		return Obstacle{Reason: strings.Join(held, ", ") + " would change, and is held", Hint: "release it with 'apt-mark unhold " + strings.Join(held, " ") + "'"}
	case len(unmet) > 0:
		return Obstacle{Reason: strings.Join(unmet, "; "), Hint: otherVersions}
	}
	return Obstacle{Reason: strings.Join(errs, "; "), Hint: otherVersions}
}

// aptSections returns the lists that apt-get prints, by heading, and its errors.
func aptSections(out string) (sections map[string][]string, errs []string) {
	sections = map[string][]string{}
	heading, subject := "", ""
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		message, isError := strings.CutPrefix(line, "E: ")
		switch {
		case isError:
			errs = append(errs, message)
		case !strings.HasPrefix(line, " "):
			heading = strings.TrimSpace(line)
		case heading == "The following packages have unmet dependencies:":
			// the further dependencies of a package stand below the first one, without its name
			if name, dependency, ok := strings.Cut(strings.TrimSpace(line), " : "); ok {
				subject, line = name, dependency
			}
			sections[heading] = append(sections[heading], subject+" "+strings.TrimSpace(line))
		default:
			sections[heading] = append(sections[heading], strings.TrimSpace(line))
		}
	}
	return sections, errs
}

// Obstacles implements the check of a host of Red Hat's family.
func (d DNF) Obstacles(ctx context.Context, names []string) ([]Obstacle, error) {
	tool, options, err := d.prepare()
	if err != nil {
		return nil, err
	}
	return obstacles(names, func(names []string) (*Obstacle, error) {
		out, failed, err := answer(ctx, tool, append(append(options, "--assumeno", "install", "--"), names...))
		if err != nil || !failed || strings.Contains(out, "Operation aborted") || strings.Contains(out, "Exiting on user command") { // it only asked whether to begin
			return nil, err
		}
		return &Obstacle{Reason: parseDNF(out), Hint: otherVersions}, nil
	})
}

// parseDNF returns why dnf or yum refused: the lines below "Error:" and "Problem:", joined.
func parseDNF(out string) string {
	var b bytes.Buffer
	wanted := false
	for line := range strings.Lines(out) {
		text := strings.TrimSpace(line)
		if strings.HasPrefix(text, "Error:") || strings.HasPrefix(text, "Problem") || strings.HasPrefix(text, "No match for argument") || strings.HasPrefix(text, "Failed to resolve") {
			wanted = true
		}
		if strings.HasPrefix(text, "(try to add") || strings.HasPrefix(text, "You can try") {
			wanted = false
		}
		if text = strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(text, "Error:"), "- ")); wanted && text != "" {
			if b.Len() > 0 {
				b.WriteString("; ")
			}
			b.WriteString(text)
		}
	}
	if b.Len() == 0 {
		return strings.TrimSpace(out)
	}
	return b.String()
}
