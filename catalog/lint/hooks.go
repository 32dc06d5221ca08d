package lint

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sealift/sealift/catalog"
	"github.com/sealift/sealift/catalog/commands"
	"github.com/sealift/sealift/catalog/script"
	"github.com/sealift/sealift/internal/diag"
)

// hookSuffixes are the suffixes of hook names after the add-on's name. The name alone is a hook too.
func hookSuffixes() []string {
	return []string{"_pre_init", "_init", "_install", "_join", "_post_init", "_outro", "_already_applied", "_preflights"}
}

// ownHooks are the hooks that are called only for certain add-ons: for ekco as in kURL (kURL §3.6), and for Kubernetes.
func ownHooks(addOn string) []string {
	switch addOn {
	case "kubernetes":
		return []string{"kubernetes_host"}
	case "ekco":
	default:
		return nil
	}
	return []string{
		"ekco_bootstrap_internal_lb", "ekco_cleanup_bootstrap_internal_lb", "ekco_handle_load_balancer_address_change_pre_init",
		"ekco_handle_load_balancer_address_change_kubeconfigs", "ekco_handle_load_balancer_address_change_post_init",
	}
}

// lineEnds refuses scripts with Windows line ends. bash takes the carriage return for a part of the last word.
func (c *checker) lineEnds() error {
	for _, name := range c.files {
		isScript := strings.HasSuffix(name, ".sh")
		if !isScript && !strings.HasPrefix(filepath.ToSlash(name), catalog.HooksDir+"/") && name != catalog.EnabledFile {
			continue
		}
		data, err := readStart(c.path(name))
		if err != nil {
			return err
		}
		before, _, found := bytes.Cut(data, []byte("\r\n"))
		if found && (isScript || bytes.HasPrefix(data, []byte("#!"))) {
			line := bytes.Count(before, []byte("\n"))
			c.errorf(diag.Pos{File: c.path(name), Line: line + 1, Col: len(before) - bytes.LastIndexByte(before, '\n')}, "convert the file with: sed -i 's/\\r$//' "+name, "the line ends with a carriage return, which bash takes for a part of the word before it")
		}
	}
	return nil
}

// readStart reads a file up to the largest size that lint looks at.
func readStart(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFileSize))
}

// readHooks reads install.sh. A script that is not valid bash becomes a finding.
func (c *checker) readHooks() (err error) {
	c.script, err = script.Load(c.dir)
	var wrong syntax.ParseError
	var foreign syntax.LangError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.rule(c.pos(script.Name), "write one with the function "+c.name, "the add-on has no %s", script.Name)
	case errors.As(err, &wrong):
		c.errorf(c.at(wrong.Pos), "", "not bash: %s", wrong.Text)
	case errors.As(err, &foreign):
		c.errorf(c.at(foreign.Pos), "", "not bash: %s", foreign.Feature)
	default:
		return err
	}
	return nil
}

// hooks checks three things in install.sh: every function has the add-on's name, because all add-ons share one shell; at
// least one is a hook; and the commands that they call exist.
func (c *checker) hooks() error {
	if c.script == nil {
		return nil
	}
	functions := c.script.Functions()
	calls := commands.Of(c.script, commands.Facts{Assets: c.assets})
	for _, fn := range functions {
		c.function(fn, functions, calls)
	}
	if !slices.ContainsFunc(functions, func(fn *syntax.FuncDecl) bool { return c.isHook(fn.Name.Value) }) {
		c.rule(c.pos(script.Name), "name one "+c.name+", or "+c.name+hookSuffixes()[0], "no function is a hook; none would be called")
	}
	c.commands(calls)
	return nil
}

// at returns a position in install.sh.
func (c *checker) at(p syntax.Pos) diag.Pos {
	return diag.Pos{File: c.path(script.Name), Line: int(p.Line()), Col: int(p.Col())}
}

// isHook reports whether an install calls the function.
func (c *checker) isHook(function string) bool {
	suffix, own := strings.CutPrefix(function, c.name)
	return own && (suffix == "" || slices.Contains(hookSuffixes(), suffix)) || slices.Contains(ownHooks(c.name), function)
}

// function checks the name of one function.
func (c *checker) function(fn *syntax.FuncDecl, all []*syntax.FuncDecl, calls commands.Calls) {
	name, pos := fn.Name.Value, c.at(fn.Name.Pos())
	if c.isHook(name) {
		return
	}
	underscored := strings.ReplaceAll(c.name, "-", "_")
	suffix, own := strings.CutPrefix(strings.TrimLeft(name, "_"), c.name)
	if !own {
		suffix, own = strings.CutPrefix(strings.TrimLeft(name, "_"), underscored)
	}
	switch {
	case !own || suffix != "" && suffix[0] != '_' && suffix[0] != '-':
		report := c.rule
		if c.tests != nil {
			report = c.errorf
		}
		report(pos, "all add-ons share one shell; name it "+underscored+"_"+strings.TrimLeft(name, "_"),
			"function %s does not begin with the add-on's name", name)
	case calls.Name(name): // this script calls it, so it is not a misspelled hook
	case suffix == "" || slices.Contains(hookSuffixes(), suffix):
		if hook := c.name + suffix; !slices.ContainsFunc(all, func(f *syntax.FuncDecl) bool { return f.Name.Value == hook }) {
			c.rule(pos, "name it "+hook, "hook %s is never called", name)
		}
	default:
		meant := diag.Nearest(suffix, hookSuffixes())
		if meant != "" && len(meant)-len(suffix) < 2 && len(suffix)-len(meant) < 2 {
			c.rule(pos, "name it "+c.name+meant+", or otherwise if it is not a hook", "function %s looks like a hook and is never called", name)
		}
	}
}

// Core lists what hooks find on every node besides their own files.
type Core struct {
	Functions []string // of the shell that runs hooks
	Programs  []string // in $DIR/bin
}

// commands reports each command that a hook may call and nothing brings, at its first call.
func (c *checker) commands(calls commands.Calls) {
	for _, call := range calls.From(c.isHook) {
		switch {
		case call.Bin && !slices.Contains(c.core.Programs, call.Name):
			c.rule(c.at(call.At), "there are: "+strings.Join(c.core.Programs, ", "), "$DIR/bin has no program %s", call.Name)
		case call.Bin || c.known[call.Name] || commands.Brought(call.Name, c.packages, c.assets):
		case strings.Contains(call.Name, "_"):
			c.rule(c.at(call.At), "write it in this file, or look for it first with commandExists", "no function or program is named %s", call.Name)
		default:
			c.rule(c.at(call.At), "name its package in the Manifest, for apt and for yum, or look for it first with commandExists",
				"nothing brings the program %s, and a bare host may lack it", call.Name)
		}
	}
}
