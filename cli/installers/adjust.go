package installers

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/internal/diag"
	"github.com/sealift/sealift/spec"
)

// Adjustment is how a command line changes an Installer: by patches, and after them by words in kURL's form or flags of the
// same names.
type Adjustment struct {
	patches, words []string
	ignored        []string // words of ForeignWords
	flags          []string // that stand for words
	Folder         string   // kURL's install directory, "" for the default
	notes          io.Writer
}

// Words of kURL that are about the run, not about the Installer (kURL §2.3).
const (
	WordYes   = "yes"
	WordPatch = "installer-spec-file"
	WordRoot  = "kurl-install-directory"
)

// IdleWords returns the words that have no effect.
func IdleWords() []string { return []string{"auto-upgrades-enabled", "force-reapply-addons"} }

// Add adds the flags to a command. Those of kURL are not shown: there are forty, and 'sealift spec flags' lists them.
func (j *Adjustment) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	j.notes = cmd.ErrOrStderr()
	flags.StringArrayVar(&j.patches, "patch", nil, "file with a part of an Installer that overrides the bundle's; may be repeated")
	_ = cmd.MarkFlagFilename("patch", "yaml", "yml")
	for _, f := range spec.Flags() {
		AddWord(flags, &j.flags, f.Name, f.Value == "")
	}
	AddWord(flags, &j.flags, WordPatch, false)
	AddWord(flags, &j.flags, WordRoot, false)
	for _, name := range append(slices.Sorted(maps.Keys(ForeignWords())), IdleWords()...) {
		AddWord(flags, &j.flags, name, !Valued(name))
	}
}

// Valued reports whether a word without effect has a value.
func Valued(word string) bool {
	return !slices.Contains([]string{"dismiss-host-packages-preflight", "preflight-ignore-warnings", "auto-upgrades-enabled", "force-reapply-addons"}, word)
}

// AddWord adds a flag for a kURL argument to a command, unless it has one of that name. It is not shown.
func AddWord(flags *pflag.FlagSet, to *[]string, name string, alone bool) {
	if flags.Lookup(name) != nil {
		return
	}
	one := flags.VarPF(&wordFlag{to: to, name: name}, name, "", "what kURL means by "+name)
	one.Hidden = true
	if alone {
		one.NoOptDefVal = "true"
	}
}

// wordFlag is a flag that stands for a word of kURL's.
type wordFlag struct {
	to          *[]string
	name, value string
}

func (w *wordFlag) String() string { return w.value }
func (w *wordFlag) Type() string   { return "value" }
func (w *wordFlag) Set(value string) error {
	w.value = value
	*w.to = append(*w.to, w.name+"="+value)
	return nil
}

// Take reads the words of a command line, after those that its flags stand for, and reports whether one of them is yes.
func (j *Adjustment) Take(words []string) (yes bool) {
	for _, word := range append(j.flags, words...) {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case name == WordYes:
			yes = true
		case name == WordPatch:
			j.patches = append(j.patches, value)
		case name == WordRoot:
			j.Folder = value
		case ForeignWords()[name] != "":
			j.ignored = append(j.ignored, name)
		case !slices.Contains(IdleWords(), name):
			j.words = append(j.words, word)
		}
	}
	return yes
}

// Apply changes an Installer.
func (j *Adjustment) Apply(i *spec.Installer) (*spec.Installer, error) {
	var patches []*spec.Patch
	for _, path := range j.patches {
		p, err := spec.LoadPatch(path)
		if err != nil {
			return nil, err
		}
		patches = append(patches, p)
	}
	merged, err := i.Merge(patches...)
	if err != nil {
		return nil, err
	}
	merged, unused, err := merged.Override(j.words...)
	if err != nil {
		return nil, app.UsageError("%v", err)
	}
	if len(unused.Unknown) > 0 {
		name, _, _ := strings.Cut(unused.Unknown[0], "=")
		return nil, app.UsageError("unknown flag %q (%s)", name, meantWord(name))
	}
	for _, word := range unused.Absent {
		name, _, _ := strings.Cut(word, "=")
		fmt.Fprintf(j.notes, "note: %s has no effect: the Installer does not have its add-on\n", name)
	}
	for _, name := range j.ignored {
		fmt.Fprintln(j.notes, ForeignNote(name))
	}
	return merged, nil
}

// Root returns the install root: that of --root, or, as in kURL, the folder kurl in the one of kURL's argument.
func Root(root, folder string) (string, error) {
	switch {
	case folder == "":
		return root, nil
	case root != node.DefaultRoot:
		return "", app.UsageError("%s and --root both name the install root; leave one out", WordRoot)
	case !filepath.IsAbs(folder):
		return "", app.UsageError("%s=%s is not an absolute path", WordRoot, folder)
	}
	return filepath.Join(folder, "kurl"), nil
}

// ForeignWords are kURL's flags for things that are done differently here, or not at all, with the reason. kURL's own commands carry
// them, so they are noted, not refused.
func ForeignWords() map[string]string {
	const network, storage = "nodes find one another through the cluster", "an install does not move storage"
	return map[string]string{
		"primary-host": network, "secondary-host": network,
		"ekco-address": storage, "ekco-auth-token": storage, "storage-migration-ready-timeout": storage,
		"dismiss-host-packages-preflight": "the packages of the host are checked before anything is changed",
		"preflight-ignore-warnings":       "a warning stops nothing",
	}
}

// ForeignNote is the line that says why a word of ForeignWords changes nothing.
func ForeignNote(word string) string {
	return "note: " + word + " has no effect: " + ForeignWords()[word]
}

// meantWord is the hint for an unknown argument.
func meantWord(name string) string {
	words := []string{WordYes, WordPatch, WordRoot}
	for _, f := range spec.Flags() {
		words = append(words, f.Name)
	}
	if near := diag.Nearest(name, words); near != "" {
		return `did you mean "` + near + `"?`
	}
	return "'sealift spec flags' lists what sets an option; besides there are " + WordYes + ", " + WordPatch + " and " + WordRoot
}
