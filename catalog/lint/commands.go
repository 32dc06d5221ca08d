package lint

import (
	"slices"
	"strings"

	"github.com/sealift/sealift/catalog/commands"
)

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
