package spec

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Execution is something that an Installer runs as root on its host.
type Execution struct {
	Field string `json:"field"` // of the Installer, such as kurl.hostPreflights
	Runs  string `json:"runs"`  // the command, or its effect
}

// String returns one line, even if the Installer's value has line breaks.
func (e Execution) String() string { return e.Field + ": " + e.Runs }

// Executions lists the commands that the Installer itself runs: calls of host programs, check collectors that do more than
// read, and settings of containerd, which runs as root, beyond the usual ones. If the list is empty, the Installer runs nothing
// but add-ons.
func (i *Installer) Executions() []Execution {
	all := i.CheckExecutions()
	for _, c := range i.HostCommands() {
		all = append(all, Execution{c.Field, shellWords(c.Words)})
	}
	for _, a := range i.AddOns {
		if text, ok := a.Options["tomlConfig"].(string); ok && a.Name == "containerd" {
			for _, setting := range unusualSettings(text) {
				all = append(all, Execution{"containerd.tomlConfig", setting})
			}
		}
	}
	return all
}

// CheckExecutions lists the executions that run during the host checks, before the install changes anything.
func (i *Installer) CheckExecutions() []Execution {
	checks, ok := i.Section("kurl").Options["hostPreflights"]
	if !ok {
		return nil
	}
	return Collectors("kurl.hostPreflights", checks)
}

// HostCommand is a call of a host program that an Installer requests. The words are passed as arguments, not through a shell.
type HostCommand struct {
	Field string
	Words []string
}

// HostCommands lists the calls that an Installer requests, in the order in which they run (kURL §2.1). A section with
// preserveConfig requests none.
func (i *Installer) HostCommands() []HostCommand {
	var calls []HostCommand
	for _, from := range []struct{ section, option, program string }{
		{"selinuxConfig", "chconCmds", "chcon"}, {"selinuxConfig", "semanageCmds", "semanage"},
		{"iptablesConfig", "iptablesCmds", "iptables"}, {"firewalldConfig", "firewalldCmds", "firewall-cmd"},
	} {
		options := i.Section(from.section).Options
		if preserve, _ := options["preserveConfig"].(bool); preserve {
			continue
		}
		lines, _ := options[from.option].([]any)
		for _, line := range lines {
			call := HostCommand{from.section + "." + from.option, []string{from.program}}
			words, _ := line.([]any)
			for _, word := range words {
				call.Words = append(call.Words, fmt.Sprint(word))
			}
			calls = append(calls, call)
		}
	}
	return calls
}

// readOnlyCollectors are Troubleshoot's host collectors that only read the host. Every other collector counts as running
// something, including those that a later Troubleshoot adds.
func readOnlyCollectors() []string {
	return []string{
		"blockDevices", "certificate", "certificatesCollection", "cgroups", "copy", "cpu", "diskUsage", "dns", "hostOS", "hostServices", "http",
		"httpLoadBalancer", "ipv4Interfaces", "journald", "kernelConfigs", "kernelModules", "kubernetes", "memory", "registryImages",
		"subnetAvailable", "sysctl", "systemPackages", "tcpConnect", "tcpLoadBalancer", "tcpPortStatus", "time", "udpPortStatus",
	}
}

// Collectors lists the collectors of a HostPreflight document. field names the document's field in the Installer. Parts with an
// unexpected form are listed too, because it is unknown how Troubleshoot reads them.
func Collectors(field string, document any) []Execution {
	unclear := func(what string, value any) Execution {
		return Execution{field, what + " that cannot be predicted: " + oneLine(value)}
	}
	root, ok := document.(map[string]any)
	if !ok {
		return []Execution{unclear("checks", document)}
	}
	var all []Execution
	for _, key := range sortedKeys(root) {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "spec"}, key) {
			all = append(all, unclear("a field", key))
		}
	}
	checks, ok := root["spec"].(map[string]any)
	if !ok && root["spec"] != nil {
		return append(all, unclear("checks", root["spec"]))
	}
	for _, key := range sortedKeys(checks) {
		if key != "collectors" && key != "analyzers" {
			all = append(all, unclear("a field", key))
		}
	}
	collectors, ok := checks["collectors"].([]any)
	if !ok && checks["collectors"] != nil {
		return append(all, unclear("collectors", checks["collectors"]))
	}
	for _, one := range collectors {
		named, ok := one.(map[string]any)
		if !ok {
			all = append(all, unclear("a collector", one))
		}
		for _, kind := range sortedKeys(named) {
			if runs := collector(kind, named[kind]); runs != "" {
				all = append(all, Execution{field, runs})
			}
		}
	}
	return all
}

// packageName matches names that no package manager takes for an option or a macro.
var packageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+_:~-]*$`)

// collector returns the command of a host collector, or "" if it only reads.
func collector(kind string, value any) string {
	settings, _ := value.(map[string]any)
	switch {
	case kind == "run":
		words := []string{fmt.Sprint(settings["command"])}
		args, _ := settings["args"].([]any)
		for _, word := range args {
			words = append(words, fmt.Sprint(word))
		}
		env, _ := settings["env"].([]any)
		for _, variable := range slices.Backward(env) {
			words = append([]string{fmt.Sprint(variable)}, words...)
		}
		return shellWords(words)
	case kind == "filesystemPerformance":
		return "a measurement that writes a file to " + oneLine(settings["directory"])
	case kind == "http" && !hasOnly(settings, "get", "collectorName", "exclude"):
		return "a request that sends something: " + oneLine(value)
	case kind == "systemPackages" && !packageNames(value):
		return "a package query with invalid names: " + oneLine(value)
	case !slices.Contains(readOnlyCollectors(), kind):
		return "the collector " + oneLine(kind) + ": " + oneLine(value)
	}
	return ""
}

// packageNames reports whether a systemPackages collector asks only for valid package names.
func packageNames(value any) bool {
	settings, ok := value.(map[string]any)
	for key, list := range settings {
		names, isList := list.([]any)
		if !isList {
			ok = ok && (key == "collectorName" || key == "exclude")
			continue
		}
		for _, name := range names {
			ok = ok && packageName.MatchString(fmt.Sprint(name))
		}
	}
	return ok
}

func hasOnly(settings map[string]any, keys ...string) bool {
	for key := range settings {
		if !slices.Contains(keys, key) {
			return false
		}
	}
	return true
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// plainSettings are containerd's settings in its tables debug and plugins that give a stranger nothing. Every other setting counts
// as running something, including those that a later containerd adds: it may name a program or an image, or open a port.
func plainSettings() []string {
	return []string{
		"SystemdCgroup", "default_runtime_name", "discard_unpacked_layers", "format", "level", "max_concurrent_downloads",
		"max_container_log_line_size", "restrict_oom_score_adj", "snapshotter", "systemd_cgroup", "version",
	}
}

// unusualSettings lists the settings in containerd's TOML that are not known to be harmless.
func unusualSettings(text string) []string {
	var settings map[string]any
	if err := toml.Unmarshal([]byte(text), &settings); err != nil {
		return []string{"settings that cannot be read: " + oneLine(err)}
	}
	var found []string
	var walk func(at string, table map[string]any)
	walk = func(at string, table map[string]any) {
		for _, key := range sortedKeys(table) {
			below, isTable := table[key].(map[string]any)
			switch {
			case isTable && at == "" && key == "timeouts": // only has lengths of time
			case isTable && (key == "debug" || key == "plugins" || at != "") && len(at) < maxShown:
				walk(at+oneLine(key)+".", below)
			case isTable || !usual(key, table[key]):
				found = append(found, at+oneLine(key)+" = "+oneLine(table[key]))
			}
		}
	}
	walk("", settings)
	return found
}

// usual reports whether a setting is harmless, or has the value from containerd's own examples.
func usual(key string, value any) bool {
	switch text := fmt.Sprint(value); key {
	case "runtime_type":
		return text == "io.containerd.runc.v2"
	case "bin_dir", "bin_dirs":
		return text == "/opt/cni/bin" || text == "[/opt/cni/bin]"
	}
	return slices.Contains(plainSettings(), key)
}

// plainWord matches words that need no quotes in a shell or a terminal.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellWords writes a command on one line, with quotes where a word needs them.
func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		if quoted[i] = word; !plainWord.MatchString(word) {
			quoted[i] = strconv.Quote(word)
		}
	}
	return strings.Join(quoted, " ")
}

// maxShown is the number of bytes of a value that oneLine shows.
const maxShown = 200

// oneLine prints a value of an Installer on one line. Control characters are escaped, so a terminal shows the exact text.
func oneLine(value any) string {
	text := fmt.Sprint(value)
	more := len(text) > maxShown
	if text = shellWords([]string{text[:min(len(text), maxShown)]}); more {
		text += "…"
	}
	return text
}
