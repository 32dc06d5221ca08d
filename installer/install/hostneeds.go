package install

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// What hooks may call on a machine that is no node of the cluster: builtins and programs that only work on text and on files of the
// install root, and functions of the shell that need neither a node nor an API server.
const (
	plainCommands = `: [ break continue echo exit false local mapfile printf read readarray return shift shopt test true unset
		base64 basename cat chmod cp cut dirname grep head md5sum mkdir mv rm sed seq sha256sum sort tail tr umask uniq wc`
	plainFunctions = `sealift_add_on_dir sealift_apply render_yaml_file render_yaml_file_2 insert_resources insert_bases
		insert_patches_strategic_merge insert_patches_json_6902 kubernetes_kustomize_config_migrate
		yaml_indent yaml_escape_string_quotes yaml_newline_to_literal get_yaml_from_multidoc_yaml canonical_image_name
		semverParse semverCompare common_upgrade_compare_versions kubernetes_version_minor splitHostPort
		bail log logStep logSubstep logSuccess logWarn logFail`
)

// hostPath matches a path of a host, but for devices that every machine has.
var hostPath = regexp.MustCompile(`^/(bin|boot|dev|etc|home|lib|media|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var)(/|$)`)

// devices are the devices that hooks may use.
func devices() []string {
	return []string{"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/urandom"}
}

// hostNeeds returns what an add-on needs of nodes that Sealift installs, so that it cannot be brought to a cluster by its API alone.
// ofNodes are the variables that only an install on a node sets, and templates the files that hooks may render.
func (a addOn) hostNeeds(ofNodes map[string]bool, templates [][]byte) (needs []string) {
	need := func(format string, args ...any) { needs = append(needs, fmt.Sprintf(format, args...)) }
	if a.meta.Module {
		need("it is a module of addon-operator, whose folder the operator mounts from control planes")
	}
	var packages []string
	for _, p := range a.manifest.HostPackages() {
		if !slices.Contains(packages, p.Name) {
			packages = append(packages, p.Name)
		}
	}
	if len(packages) > 0 {
		need("packages on hosts: %s", strings.Join(packages, ", "))
	}
	for _, phase := range []string{"pre_init", "init", "install", "host", "already_applied", "post_init", "outro", "join"} {
		if name := a.name() + "_" + phase; a.hasHook(name) {
			need("the hook %s, which runs on nodes", name)
		}
	}
	if !a.hasHook(a.name()) && !a.meta.Module {
		need("the function %s in its install.sh, which applies its objects: it has none", a.name())
	}
	needs = append(needs, a.scriptNeeds(ofNodes)...)
	for _, name := range slices.Sorted(maps.Keys(ofNodes)) {
		if !a.script.Set[name] && slices.ContainsFunc(templates, reads(name)) {
			need("the variable %s of a node, in a template", name)
		}
	}
	return needs
}

// reads returns whether a template names a variable.
func reads(variable string) func(template []byte) bool {
	name := regexp.QuoteMeta(variable)
	return regexp.MustCompile(`\$(` + name + `\b|\{` + name + `\})`).Match
}

// clusterHooks are the hooks that run for a cluster that is known by its API alone.
func (a addOn) clusterHooks(function string) bool {
	return function == a.name() || function == a.name()+"_preflights"
}

// scriptNeeds reads the hooks that apply the add-on, and what they call.
func (a addOn) scriptNeeds(ofNodes map[string]bool) (needs []string) {
	seen := map[string]bool{}
	need := func(at syntax.Pos, what string) {
		if !seen[what] {
			seen[what] = true
			needs = append(needs, fmt.Sprintf("%s (install.sh:%d)", what, at.Line()))
		}
	}
	plain := strings.Fields(plainCommands + " " + plainFunctions)
	for _, call := range a.calls.All(a.clusterHooks) {
		if call.Bin {
			need(call.At, "the program "+call.Name+" of a node")
		} else if !slices.Contains(plain, call.Name) {
			need(call.At, call.Name)
		}
	}
	a.walkHooks(func(n syntax.Node) {
		switch n := n.(type) {
		case *syntax.ParamExp:
			if n.Param != nil && ofNodes[n.Param.Value] && !a.script.Set[n.Param.Value] {
				need(n.Pos(), "the variable "+n.Param.Value+" of a node")
			}
		case *syntax.Word:
			if text, _ := a.script.Text(n); hostPath.MatchString(text) && !slices.Contains(devices(), text) {
				need(n.Pos(), "the path "+text+" of a host")
			}
		}
	})
	return needs
}

// walkHooks visits the nodes of the script that the hooks reach. Patterns that values are compared with are not visited.
func (a addOn) walkHooks(visit func(syntax.Node)) {
	var walk func(syntax.Node)
	walk = func(node syntax.Node) {
		syntax.Walk(node, func(n syntax.Node) bool {
			if _, declares := n.(*syntax.FuncDecl); declares || n == nil { // a function is visited when it is reached
				return false
			}
			if test, ok := n.(*syntax.BinaryTest); ok {
				if _, compares := test.X.(*syntax.Word); compares {
					walk(test.X)
					return false
				}
			}
			visit(n)
			return true
		})
	}
	walk(a.script.File)
	reached := a.calls.Reached(a.clusterHooks)
	for _, fn := range a.script.Functions() {
		if reached[fn.Name.Value] {
			walk(fn.Body)
		}
	}
}
