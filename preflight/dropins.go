package preflight

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// unitFolders are where systemd looks for units and their drop-ins, the ones that win first (systemd.unit(5)).
func unitFolders() []string {
	return []string{"etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"}
}

// startSettings are drop-in settings that keep a service of the install from starting, or from starting the installed program.
var startSettings = []string{
	"ExecStart", "ExecStartPre", "ExecCondition", "Type", "User", "Group", "DynamicUser", "RootDirectory", "RootImage", "MountFlags", "PrivateMounts", "PrivateDevices",
	"PrivateNetwork", "PrivateUsers", "ProtectSystem", "ProtectHome", "ProtectKernelTunables", "ProtectKernelModules", "ProtectControlGroups", "ReadOnlyPaths",
	"InaccessiblePaths", "CapabilityBoundingSet", "SystemCallFilter", "RestrictNamespaces", "NoNewPrivileges", "Requires", "Requisite", "BindsTo", "Conflicts",
}

// dropIns checks foreign drop-ins for the two services of a node. The Kubernetes add-on starts its own kubelet regardless of
// drop-ins.
func (p probes) dropIns(r *Reporter) (found bool) {
	for _, unit := range []string{"containerd", "kubelet"} {
		seen := map[string]bool{}
		for _, folder := range unitFolders() {
			files, err := fs.Glob(p.host.Root, folder+"/"+unit+".service.d/*.conf")
			if err != nil {
				continue
			}
			for _, file := range files {
				name := path.Base(file)
				if seen[name] || strings.Contains(name, "sealift") {
					continue
				}
				seen[name], found = true, true
				p.dropIn(r, unit, file)
			}
		}
	}
	return found
}

func (p probes) dropIn(r *Reporter, unit, file string) {
	text, err := fs.ReadFile(p.host.Root, file)
	if err != nil {
		r.unknown(err)
		return
	}
	var stopping, all []string
	for key, value := range unitSettings(string(text)) {
		all = append(all, key)
		own := unit == "kubelet" && key == "ExecStart"
		switch {
		case own:
		case slices.Contains(startSettings, key) || strings.HasPrefix(key, "Condition") || strings.HasPrefix(key, "Assert"):
			stopping = append(stopping, key)
		case key == "EnvironmentFile" && strings.HasPrefix(value, "/"):
			if _, err := fs.Stat(p.host.Root, strings.TrimPrefix(path.Clean(value), "/")); err != nil && !strings.ContainsAny(value, "*?[%") {
				stopping = append(stopping, key+"="+value+", which does not exist")
			}
		}
	}
	slices.Sort(stopping)
	slices.Sort(all)
	if len(stopping) > 0 {
		r.Failf("move it away, then run systemctl daemon-reload", "/%s can keep the %s of the install from starting: it sets %s", file, unit, strings.Join(stopping, ", "))
		return
	}
	if unit == "containerd" {
		r.Warnf("see that it is meant for the containerd of the cluster, too", "/%s changes the containerd of the install: it sets %s", file, strings.Join(all, ", "))
	}
}

// unitSettings reads the settings of a unit's file, each with its last value.
func unitSettings(text string) map[string]string {
	settings := map[string]string{}
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";") {
			settings[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return settings
}

// containerdSettings checks the files that containerd reads in addition to the install's configuration.
func (p probes) containerdSettings(r *Reporter) (found bool) {
	files, err := fs.Glob(p.host.Root, "etc/containerd/conf.d/*.toml")
	if err != nil {
		return false
	}
	for _, file := range files {
		if slices.Contains([]string{"60-sealift.toml", "installer.toml"}, path.Base(file)) {
			continue
		}
		found = true
		text, err := fs.ReadFile(p.host.Root, file)
		if err != nil {
			r.unknown(err)
			continue
		}
		var config struct {
			Version  int      `toml:"version"`
			Disabled []string `toml:"disabled_plugins"`
		}
		if err := toml.Unmarshal(text, &config); err != nil {
			r.Failf("mend it, or move it away", "/%s stops the containerd of the install, which reads it: %v", file, err)
			continue
		}
		cri := slices.ContainsFunc(config.Disabled, func(name string) bool { return name == "cri" || strings.HasPrefix(name, "io.containerd.") })
		if cri {
			r.Failf("take it out, or move the file away", "/%s disables plugins of containerd that the kubelet needs: %s", file, strings.Join(config.Disabled, ", "))
			continue
		}
		r.Warnf("see that its settings are meant for the cluster, too", "the containerd of the install reads /%s", file)
	}
	return found
}
