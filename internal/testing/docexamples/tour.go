// Package docexamples runs the commands that the documentation shows.
package docexamples

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Follow runs the commands of a documentation page, with a program as sealift and in a separate folder: a block of YAML whose first line is
// a comment with a path is that file; in a console block, each line after a dollar is a command, and the lines below are its output, where
// … stands for any text, a line with only … for any lines, and blanks for blanks.
func Follow(t *testing.T, page, program string, env ...string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	dir, bin := t.TempDir(), t.TempDir()
	if err := os.Symlink(program, filepath.Join(bin, "sealift")); err != nil {
		t.Fatal(err)
	}
	env = slices.Concat(os.Environ(), []string{"SEALIFT_SEALIFT=" + program, "PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + dir}, env) // the last one counts
	commands := 0
	for _, block := range regexp.MustCompile("(?ms)^```(yaml|console)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		kind, body := block[1], block[2]
		if kind == "yaml" {
			first, _, _ := strings.Cut(body, "\n")
			if name, ok := strings.CutPrefix(first, "# "); ok {
				file := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			continue
		}
		for _, step := range steps(body, Desk) {
			commands++
			cmd := exec.CommandContext(t.Context(), "bash", "-c", step.Command)
			cmd.Dir, cmd.Env = dir, env
			var out, errOut bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errOut
			if err := cmd.Run(); err != nil {
				t.Errorf("%s: $ %s: %v\n%s%s", page, step.Command, err, &out, &errOut)
			}
			if !step.Shows(out.String()) {
				t.Errorf("%s: $ %s\nprinted\n%s\nand the page has\n%s", page, step.Command, &out, step.Want)
			}
		}
	}
	if commands == 0 {
		t.Fatalf("%s has no commands", page)
	}
}

// File returns a file that a page shows: a block of YAML whose first line is a comment with its name.
func File(t *testing.T, page, name string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?ms)^```yaml\n(# " + regexp.QuoteMeta(name) + "\n.*?)^```$").FindStringSubmatch(string(text))
	if block == nil {
		t.Fatalf("%s shows no %s", page, name)
	}
	return block[1]
}

// Prompt is where a command runs.
type Prompt string

// The prompts: of a user on the machine where bundles are made, and of root on a node.
const (
	Desk Prompt = "$"
	Node Prompt = "#"
)

// Step is a command that a page shows.
type Step struct {
	Prompt  Prompt
	Command string
	Want    string // its output on the page; "" if the page shows none
}

// Steps are the commands of a page in order, with either prompt: those of root are in blocks without a language.
func Steps(t *testing.T, page string) (all []Step) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?ms)^```(console)?\n([$#] .*?)^```$").FindAllStringSubmatch(string(text), -1) {
		all = append(all, steps(block[2], Prompt(block[2][:1]))...)
	}
	if len(all) == 0 {
		t.Fatalf("%s has no commands", page)
	}
	return all
}

// steps are the commands of a block.
func steps(block string, prompt Prompt) (all []Step) {
	for _, step := range strings.Split("\n"+block, "\n"+string(prompt)+" ")[1:] {
		command, want, _ := strings.Cut(step, "\n")
		all = append(all, Step{prompt, command, want})
	}
	return all
}

// Shows reports whether an output matches the page.
func (s Step) Shows(output string) bool { return shown(s.Want).MatchString(output) }

// shown is the expected output. A line with only … stands for one line or more.
func shown(text string) *regexp.Regexp {
	var lines []string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if slices.Equal(words, []string{"…"}) {
			lines = append(lines, `(?s:.*)`)
			continue
		}
		for i, word := range words {
			words[i] = strings.ReplaceAll(regexp.QuoteMeta(word), "…", ".*")
		}
		lines = append(lines, `[ \t]*`+strings.Join(words, `[ \t]+`)+`[ \t]*`)
	}
	return regexp.MustCompile(`^` + strings.Join(lines, "\n") + `\n*$`)
}
