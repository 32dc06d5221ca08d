package firewall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"

	"github.com/sealift/sealift/internal/podnetwork"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/tail"
)

// iptablesTools are the commands that may know rules, each with its own table in the kernel: for both versions of IP, and for
// both ways in which kernels keep rules. What is not there is not asked.
func iptablesTools() []string {
	return []string{"iptables", "ip6tables", "iptables-legacy", "ip6tables-legacy", "iptables-nft", "ip6tables-nft"}
}

// savedTable is one table as iptables-save prints it.
type savedTable struct {
	name   string
	chains []string // declared by users
	rules  []string // as arguments
	// policies of the chains that are built in
	policies map[string]string
}

// savedTables reads all tables of one tool; none if it is not installed.
func savedTables(ctx context.Context, tool string) ([]savedTable, error) {
	save, err := exec.LookPath(tool + "-save")
	if err != nil {
		return nil, nil //nolint:nilerr // a host without the tool has none of its rules
	}
	out, err := exec.CommandContext(ctx, save).Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", save, err)
	}
	return parseSaved(string(out)), nil
}

func parseSaved(text string) (tables []savedTable) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, isTable := strings.CutPrefix(line, "*")
		switch {
		case isTable:
			tables = append(tables, savedTable{name: name, policies: map[string]string{}})
		case len(tables) == 0:
		case strings.HasPrefix(line, ":"):
			// built-in chains have a policy, others have "-"
			f, t := strings.Fields(line[1:]), &tables[len(tables)-1]
			switch {
			case len(f) < 2:
			case f[1] == "-":
				t.chains = append(t.chains, f[0])
			default:
				t.policies[f[0]] = f[1]
			}
		case strings.HasPrefix(line, "-A "):
			t := &tables[len(tables)-1]
			t.rules = append(t.rules, line)
		}
	}
	return tables
}

// PodChains begin the names of the chains that kube-proxy, kubelet and pod networks make.
func PodChains() []string {
	return append(podnetwork.Chains(), "KUBE-", "CNI-", "FLANNEL-")
}

// podComments begin the comments of rules that pods write into built-in chains: those of node-local-dns, which it removes itself unless it is
// killed.
func podComments() []string { return []string{"NodeLocal DNS Cache: "} }

// Rules lists all rules and chains that are not built in, each with its tool and table. A tool that fails has none.
func Rules(ctx context.Context) (found []string) {
	for _, tool := range []string{"iptables", "ip6tables"} {
		tables, err := savedTables(ctx, tool)
		if err != nil {
			continue
		}
		for _, t := range tables {
			for _, chain := range t.chains {
				found = append(found, tool+" "+t.name+" chain "+chain)
			}
			for _, rule := range t.rules {
				found = append(found, tool+" "+t.name+" "+rule)
			}
		}
	}
	slices.Sort(found)
	return found
}

// Chains lists the names of the chains that are not built in, of all tools. The tools for legacy rules are asked only where the kernel has
// such rules: asking them loads its modules.
func Chains(ctx context.Context) (found []string) {
	for _, tool := range iptablesTools() {
		if version, legacy := strings.CutSuffix(tool, "tables-legacy"); legacy {
			if text, err := regularfile.ReadFile("/proc/net/" + version + "_tables_names"); err != nil || len(text) == 0 {
				continue
			}
		}
		tables, err := savedTables(ctx, tool)
		if err != nil {
			continue
		}
		for _, t := range tables {
			found = append(found, t.chains...)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// RemoveChains removes the chains whose names begin with one of the prefixes, the rules of others that lead into them, and the rules that
// pods write into built-in chains. Each table changes atomically.
func RemoveChains(ctx context.Context, output io.Writer, prefixes []string) error {
	var errs []error
	for _, tool := range iptablesTools() {
		tables, err := savedTables(ctx, tool)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if script := removal(tables, prefixes); script != "" {
			errs = append(errs, restoreRules(ctx, output, tool, script))
		}
	}
	return errors.Join(errs...)
}

func restoreRules(ctx context.Context, output io.Writer, tool, script string) error {
	var said tail.Buffer
	cmd := exec.CommandContext(ctx, tool+"-restore", "--noflush")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(script), output, io.MultiWriter(output, &said)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s-restore: %w: %s", tool, err, said.String())
	}
	return nil
}

// removal is the input of iptables-restore.
func removal(tables []savedTable, prefixes []string) string {
	var script strings.Builder
	for _, t := range tables {
		going := slices.DeleteFunc(slices.Clone(t.chains), func(chain string) bool { return !hasPrefix(chain, prefixes) })
		rules := slices.DeleteFunc(slices.Clone(t.rules), func(rule string) bool {
			return !leadsInto(rule, going) && !hasPrefix(comment(rule), podComments()) || slices.Contains(going, strings.Fields(rule)[1])
		})
		if len(going)+len(rules) == 0 {
			continue
		}
		fmt.Fprintf(&script, "*%s\n", t.name)
		for _, rule := range rules {
			fmt.Fprintf(&script, "-D%s\n", strings.TrimPrefix(rule, "-A"))
		}
		for _, verb := range []string{"-F", "-X"} {
			for _, chain := range going {
				fmt.Fprintf(&script, "%s %s\n", verb, chain)
			}
		}
		script.WriteString("COMMIT\n")
	}
	return script.String()
}

func leadsInto(rule string, chains []string) bool {
	f := strings.Fields(rule)
	for i, word := range f[:len(f)-1] {
		if (word == "-j" || word == "-g") && slices.Contains(chains, f[i+1]) {
			return true
		}
	}
	return false
}

// comment is the text of a rule's comment, or "".
func comment(rule string) string {
	words := splitQuoted(rule)
	if i := slices.Index(words, "--comment"); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
}

func hasPrefix(s string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(s, prefix) })
}
