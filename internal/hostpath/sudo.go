package hostpath

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sealift/sealift/internal/regularfile"
)

// Binary is where a node keeps sealift.
const Binary = "/usr/local/bin/sealift"

// securePath is the setting of sudoers(5) with the folders in which sudo looks for programs.
var securePath = regexp.MustCompile(`(?m)^[ \t]*Defaults\S*[ \t]+(?:[^#\n]*,[ \t]*)?secure_path[ \t]*=[ \t]*(?:"([^"\n]*)"|([^\s,"]+))`)

// Sudo returns the command line with which a person runs sealift on this host with the given words, such as "certs renew". sudo of RHEL
// does not look in /usr/local/bin: there, the line has the path of the program.
func Sudo(words string) string { return sudo("/etc", Binary, words) }

func sudo(etc, program, words string) string {
	name := filepath.Base(program)
	if _, err := os.Stat(program); err == nil && !sudoLooksIn(etc, filepath.Dir(program)) {
		name = program
	}
	return "sudo " + name + " " + words
}

// Rerun returns the arguments of this process's command line with a program that sudo finds instead of the first one.
func Rerun(args []string) []string {
	program, err := os.Executable()
	if err != nil || len(args) == 0 || strings.Contains(args[0], "/") || sudoLooksIn("/etc", filepath.Dir(program)) {
		return args
	}
	return append([]string{program}, args[1:]...)
}

// WithSudo is the advice for people who ran a command without root.
func WithSudo() string {
	const advice = "run the command with sudo"
	if again := Rerun(os.Args); len(again) > 0 && again[0] != os.Args[0] {
		return advice + ", as 'sudo " + again[0] + "': sudo does not look in " + filepath.Dir(again[0])
	}
	return advice
}

// SudoAdvice is what to type on a host whose sudo does not find sealift and kubectl by name, and "" elsewhere.
func SudoAdvice() string { return sudoAdvice("/etc", Binary) }

func sudoAdvice(etc, program string) string {
	if folder := filepath.Dir(program); !sudoLooksIn(etc, folder) {
		return "sudo of this host does not look in " + folder + ": type 'sudo " + program + "' and 'sudo " + filepath.Join(folder, "kubectl") + "', or add the folder to secure_path with visudo"
	}
	return ""
}

// NameAdvice is what a person who uses sudo types for the commands that a text names in quotes, such as 'sealift certs', where sudo does
// not find sealift by its name. It is "" elsewhere, and for root's own shell, which finds it.
func NameAdvice(text string) string {
	if os.Geteuid() == 0 && os.Getenv("SUDO_COMMAND") == "" {
		return ""
	}
	return nameAdvice("/etc", Binary, text)
}

func nameAdvice(etc, program, text string) string {
	name := "'" + filepath.Base(program) + " "
	if !strings.Contains(text, name) || sudo(etc, program, "") == "sudo "+filepath.Base(program)+" " {
		return ""
	}
	return "sudo of this host does not look in " + filepath.Dir(program) + ": type 'sudo " + program + " …' for " + name + "…'"
}

// sudoLooksIn reports whether sudo finds the programs of a folder. Only root may read its settings; where they cannot be read it does not:
// a path is right everywhere. Without the setting, sudo has the PATH of its caller.
func sudoLooksIn(etc, folder string) bool {
	files, _ := filepath.Glob(filepath.Join(etc, "sudoers.d", "*")) // fails only for bad patterns
	path := ""
	for _, file := range append([]string{filepath.Join(etc, "sudoers")}, files...) {
		if base := filepath.Base(file); base != "sudoers" && (strings.Contains(base, ".") || strings.HasSuffix(base, "~")) { // which sudo skips
			continue
		}
		text, err := regularfile.ReadFile(file)
		switch {
		case os.IsNotExist(err):
			continue
		case err != nil:
			return false
		}
		for _, m := range securePath.FindAllStringSubmatch(strings.ReplaceAll(string(text), "\\\n", " "), -1) {
			path = m[1] + m[2]
		}
	}
	return path == "" || slices.Contains(filepath.SplitList(path), folder)
}
