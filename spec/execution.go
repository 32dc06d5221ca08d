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

// Execution is something that an Installer runs as root on the host that uses it.
type Execution struct {
	Field string `json:"field"` // of the Installer, such as kurl.hostPreflights
	Runs  string `json:"runs"`  // the command, or what it does
}

// String is one line, whatever stands in the Installer.
func (e Execution) String() string { return e.Field + ": " + e.Runs }

// Executions lists what the Installer runs by itself: its commands for programs of the host, the collectors of its checks that
// do more than look, and the programs that settings of containerd name. An empty list says that it runs nothing but add-ons.
func (i *Installer) Executions() []Execution {
	all := i.CheckExecutions()
	for _, c := range i.HostCommands() {
		all = append(all, Execution{c.Field, shellWords(c.Words)})
	}
	for _, a := range i.AddOns {
		if text, ok := a.Options["tomlConfig"].(string); ok && a.Name == "containerd" {
			for _, setting := range namedPrograms(text) {
				all = append(all, Execution{"containerd.tomlConfig", setting})
			}
		}
	}
	return all
}

// CheckExecutions lists those of the Installer's executions that run while a host is looked at, before anything is changed.
func (i *Installer) CheckExecutions() []Execution {
	checks, ok := i.Section("kurl").Options["hostPreflights"]
	if !ok {
		return nil
	}
	return Collectors("kurl.hostPreflights", checks)
}

// HostCommand is a call of a host program that an Installer asks for. No shell reads its words.
type HostCommand struct {
	Field string
	Words []string
}

// HostCommands lists the calls that an Installer asks for (kURL §2.1), in the order in which they run. A section with
// preserveConfig asks for none.
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

// lookingCollectors are those of Troubleshoot's host collectors that only look at the host. Any other one counts as running
// something, also one that a later Troubleshoot may bring.
func lookingCollectors() []string {
	return []string{
		"blockDevices", "certificate", "certificatesCollection", "cgroups", "copy", "cpu", "diskUsage", "dns", "hostOS", "hostServices", "http",
		"httpLoadBalancer", "ipv4Interfaces", "journald", "kernelConfigs", "kernelModules", "kubernetes", "memory", "registryImages",
		"subnetAvailable", "sysctl", "systemPackages", "tcpConnect", "tcpLoadBalancer", "tcpPortStatus", "time", "udpPortStatus",
	}
}

// Collectors lists what a HostPreflight runs. field says where it stands. What has not the form of one counts, too: nobody can
// say what a reader makes of it.
func Collectors(field string, document any) []Execution {
	unclear := func(what string, value any) Execution {
		return Execution{field, what + " that cannot be told in advance: " + oneLine(value)}
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

// packageName is one that no package manager takes for an option or a macro.
var packageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+_:~-]*$`)

// collector says what a host collector runs, or "" if it only looks.
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
		return "a measurement that writes a file into " + oneLine(settings["directory"])
	case kind == "http" && !hasOnly(settings, "get", "collectorName", "exclude"):
		return "a request that sends something: " + oneLine(value)
	case kind == "systemPackages" && !packageNames(value):
		return "a question for packages with names that are none: " + oneLine(value)
	case !slices.Contains(lookingCollectors(), kind):
		return "the collector " + oneLine(kind) + ": " + oneLine(value)
	}
	return ""
}

// packageNames says whether all that a systemPackages collector asks for are names of packages.
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

// programKeys are the settings of containerd with which it runs a program or loads code, in small letters.
func programKeys() []string {
	return []string{
		"bin_dir", "bin_dirs", "binary", "binary_name", "binaryname", "imports", "path", "plugin_dir", "proxy_plugins", "runtime_engine",
		"runtime_path", "runtime_type", "shim", "stream_processors",
	}
}

// namedPrograms lists the settings of containerd in a TOML text that name programs.
func namedPrograms(text string) []string {
	var settings map[string]any
	if err := toml.Unmarshal([]byte(text), &settings); err != nil {
		return []string{"settings that cannot be read: " + oneLine(err)}
	}
	var found []string
	var walk func(at string, value any)
	walk = func(at string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for _, key := range sortedKeys(value) {
				if slices.Contains(programKeys(), strings.ToLower(key)) && !usual(value[key]) {
					found = append(found, at+oneLine(key)+" = "+oneLine(value[key]))
					continue
				}
				walk(at+oneLine(key)+".", value[key])
			}
		case []any:
			for _, one := range value {
				walk(at, one)
			}
		}
	}
	walk("", settings)
	return found
}

// usual says whether a setting has the value that containerd's own examples give it.
func usual(value any) bool {
	text := fmt.Sprint(value)
	return text == "io.containerd.runc.v2" || text == "/opt/cni/bin" || text == "[/opt/cni/bin]"
}

// plainWord is one that a shell and a terminal take as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellWords writes a command in one line.
func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		if quoted[i] = word; !plainWord.MatchString(word) {
			quoted[i] = strconv.Quote(word)
		}
	}
	return strings.Join(quoted, " ")
}

// maxShown is how much of a value is shown, in bytes.
const maxShown = 200

// oneLine writes a value of an Installer so that a terminal shows all of it, and nothing else.
func oneLine(value any) string {
	text := fmt.Sprint(value)
	more := len(text) > maxShown
	if text = shellWords([]string{text[:min(len(text), maxShown)]}); more {
		text += "…"
	}
	return text
}
