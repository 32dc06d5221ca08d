package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// SysctlName is the file of the install in /etc/sysctl.d. It is the last one by name, because later files win.
const SysctlName = "zz-sealift-kubernetes.conf"

// wantedSysctls are the settings that the pod network needs to be 1, by path below /proc/sys, and those that the install's own file sets to 1.
func wantedSysctls(root fs.FS, ipv6 bool) ([]string, error) {
	names := []string{
		"net/ipv4/ip_forward", "net/ipv4/conf/all/forwarding", "net/ipv4/conf/default/forwarding",
		"net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables",
	}
	if ipv6 {
		names = append(names, "net/ipv6/conf/all/forwarding")
	}
	own, err := fs.ReadFile(root, "etc/sysctl.d/"+SysctlName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(own)) {
		name, value, ok := sysctlLine(line)
		if ok && value == "1" && line[0] != '-' && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Sysctl is a setting of the kernel that breaks pods.
type Sysctl struct {
	Name string // such as net.ipv4.ip_forward
	Is   string
	From string // the file and line that sets it; "" for current ones
}

// UnwantedSysctls lists harmful settings in foreign files, as sysctl.d(5) and sysctl(8) read them: files of one name once, in the
// order of their names, the last value wins, /etc/sysctl.conf at the end. ipv6 means that pods will have IPv6 addresses; the install's own
// file tells whether they have.
func UnwantedSysctls(root fs.FS, ipv6 bool) (found []Sysctl, err error) {
	wanted, err := wantedSysctls(root, ipv6)
	if err != nil {
		return nil, err
	}
	files, err := sysctlFiles(root)
	if err != nil {
		return nil, err
	}
	last := map[string]Sysctl{}
	for _, file := range files {
		text, err := fs.ReadFile(root, file)
		if errors.Is(err, fs.ErrNotExist) { // a dangling link
			continue
		}
		if err != nil {
			return nil, err
		}
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			pattern, value, ok := sysctlLine(line)
			if !ok {
				continue
			}
			for _, name := range wanted {
				if match, _ := path.Match(pattern, name); match {
					last[name] = Sysctl{dotted(name), value, fmt.Sprintf("/%s:%d", file, number)}
				}
			}
		}
	}
	for _, name := range wanted {
		if s, set := last[name]; set && s.Is != "1" {
			found = append(found, s)
		}
	}
	return found, nil
}

// LiveSysctls lists what holds now and should not. A kernel without a setting is left out.
func LiveSysctls(root fs.FS) (found []Sysctl, err error) {
	wanted, err := wantedSysctls(root, false)
	if err != nil {
		return nil, err
	}
	for _, name := range wanted {
		text, err := fs.ReadFile(root, "proc/sys/"+name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if is := strings.TrimSpace(string(text)); is != "1" {
			found = append(found, Sysctl{Name: dotted(name), Is: is})
		}
	}
	return found, nil
}

// sysctlFiles lists the files of others in the order in which they are read.
func sysctlFiles(root fs.FS) ([]string, error) {
	files := map[string]string{}
	for _, folder := range []string{"etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d", "lib/sysctl.d"} {
		found, err := fs.Glob(root, folder+"/*.conf")
		if err != nil {
			return nil, err
		}
		for _, file := range found {
			if _, shadowed := files[path.Base(file)]; !shadowed && !strings.Contains(path.Base(file), "sealift") {
				files[path.Base(file)] = file
			}
		}
	}
	var names, ordered []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		ordered = append(ordered, files[name])
	}
	return append(ordered, "etc/sysctl.conf"), nil
}

// sysctlLine reads one setting. The name may have dots or slashes, and be a pattern; a '-' before it lets a failure pass.
func sysctlLine(line string) (pattern, value string, ok bool) {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' || line[0] == ';' {
		return "", "", false
	}
	name, value, ok := strings.Cut(line, "=")
	name = strings.TrimSpace(strings.TrimPrefix(name, "-"))
	if at := strings.IndexAny(name, "./"); at >= 0 && name[at] == '.' {
		name = strings.Map(func(r rune) rune {
			switch r {
			case '.':
				return '/'
			case '/':
				return '.'
			}
			return r
		}, name)
	}
	return strings.TrimPrefix(name, "/proc/sys/"), strings.TrimSpace(value), ok
}

func dotted(name string) string { return strings.ReplaceAll(name, "/", ".") }

// sysctls warns of files that switch off what pods need. The install's own file wins at boot, and the kubelet applies it again.
func (p probes) sysctls(_ context.Context, r *Reporter) {
	if p.needs.Role == NoNode {
		r.Passf("not checked")
		return
	}
	found, err := UnwantedSysctls(p.host.Root, p.needs.IPv6)
	if err != nil {
		r.unknown(err)
		return
	}
	for _, s := range found {
		r.Warnf("take the line out; the install's own file wins at boot, but 'sysctl --system' or the program that owns this one can switch it off again",
			"%s sets %s = %s; pods need 1", s.From, s.Name, s.Is)
	}
	if len(found) == 0 {
		r.Passf("no file switches off what pods need")
	}
}
