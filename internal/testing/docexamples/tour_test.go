package docexamples

import (
	"strings"
	"testing"
)

func TestPageStepsIncludeBothPrompts(t *testing.T) {
	t.Parallel()
	desk, node := 0, 0
	for _, step := range Steps(t, "../../../docs/upgrade.md") {
		if step.Prompt == Desk {
			desk++
		} else {
			node++
		}
		if step.Command == "" {
			t.Errorf("a step without a command: %+v", step)
		}
	}
	if desk == 0 || node == 0 {
		t.Errorf("%d where bundles are made, %d on a node", desk, node)
	}
}

func TestFileOfPageIsFound(t *testing.T) {
	t.Parallel()
	if text := File(t, "../../../docs/installer.md", "wrong.yaml"); !strings.HasPrefix(text, "# wrong.yaml\napiVersion: ") || strings.Contains(text, "```") {
		t.Errorf("the file is %q", text)
	}
}

func TestOutputMatchesPage(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		want, output string
		shown        bool
	}{
		"the same":               {"one\ntwo\n", "one\ntwo\n", true},
		"other blanks":           {"a  b\n", "  a b  \n", true},
		"another word":           {"a b\n", "a c\n", false},
		"a part of a line":       {"took … s\n", "took 12 s\n", true},
		"no line for any lines":  {"…\nend\n", "end\n", false},
		"one line for any lines": {"…\nend\n", "1\nend\n", true},
		"any lines before":       {"…\nend\n", "1\n2\n3\nend\n", true},
		"any lines after":        {"begin\n…\n", "begin\n1\n2\n", true},
		"any lines between":      {"begin\n…\nend\n", "begin\n1\n2\nend\n", true},
		"the end is missing":     {"…\nend\n", "1\n2\n", false},
		"… in a line is not two": {"took … s\n", "took\n12 s\n", false},
	} {
		if got := (Step{Want: row.want}).Shows(row.output); got != row.shown {
			t.Errorf("%s: %t", name, got)
		}
	}
}
