// Package tour runs what the documentation shows.
package tour

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

// Follow runs what a page of the documentation shows, with a program as sealift and in a folder of its own: a block of YAML whose first line is a comment
// with a path is that file; in a console block, each line after a dollar is a command, and the lines below are its output,
// where … stands for anything and blanks for blanks.
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
		for _, step := range strings.Split("\n"+body, "\n$ ")[1:] {
			command, want, _ := strings.Cut(step, "\n")
			commands++
			cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
			cmd.Dir, cmd.Env = dir, env
			var out, errOut bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errOut
			if err := cmd.Run(); err != nil {
				t.Errorf("%s: $ %s: %v\n%s%s", page, command, err, &out, &errOut)
			}
			if !shown(want).Match(out.Bytes()) {
				t.Errorf("%s: $ %s\nprinted\n%s\nand the page has\n%s", page, command, &out, want)
			}
		}
	}
	if commands == 0 {
		t.Fatalf("%s has no commands", page)
	}
}

// shown is what an output has to look like.
func shown(text string) *regexp.Regexp {
	var lines []string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		for i, word := range words {
			words[i] = strings.ReplaceAll(regexp.QuoteMeta(word), "…", ".*")
		}
		lines = append(lines, `[ \t]*`+strings.Join(words, `[ \t]+`)+`[ \t]*`)
	}
	return regexp.MustCompile(`^` + strings.Join(lines, "\n") + `\n*$`)
}
