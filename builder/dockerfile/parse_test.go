package dockerfile_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/builder/dockerfile"
)

func settle(t *testing.T, text string, args map[string]string) (*dockerfile.Plan, error) {
	t.Helper()
	f, err := dockerfile.Parse(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	return f.Settle(args, "linux/arm64")
}

func TestBasesListsImagesOfDockerfile(t *testing.T) {
	for name, row := range map[string]struct {
		text string
		args map[string]string
		want []string
	}{
		"one":                                 {"FROM debian:12\nCMD x\n", nil, []string{"debian:12"}},
		"several stages, each image once":     {"FROM a AS one\nFROM b\nFROM a\nFROM ONE\nFROM scratch\n", nil, []string{"a", "b"}},
		"an argument with a default":          {"ARG tag=12\nFROM debian:$tag\n", nil, []string{"debian:12"}},
		"an argument that is given":           {"ARG tag=12\nFROM debian:${tag}\n", map[string]string{"tag": "13"}, []string{"debian:13"}},
		"defaults inside":                     {"ARG a\nARG b=2\nFROM x:${a:-1}${b:+.5}\n", nil, []string{"x:1.5"}},
		"an argument made of another":         {"ARG a=1 b=v$a\nFROM x:$b\n", nil, []string{"x:v1"}},
		"the architecture of the result":      {"FROM x-$TARGETARCH\n", nil, []string{"x-arm64"}},
		"a platform is not an image":          {"FROM --platform=$BUILDPLATFORM x AS y\n", nil, []string{"x"}},
		"images that files are taken from":    {"FROM a\nCOPY --chown=1 --from=b /x /y\nRUN --mount=type=bind,from=c,target=/c ls\n", nil, []string{"a", "b", "c"}},
		"but not stages that they come from":  {"FROM a AS one\nFROM scratch\nCOPY --from=one / /\nCOPY --from=0 / /\n", nil, []string{"a"}},
		"what is in a heredoc is not read":    {"FROM a\nRUN <<EOF\nFROM b\nEOF\nRUN <<-'E' cat <<F\nFROM c\n\tE\nFROM d\nF\nCMD x\n", nil, []string{"a"}},
		"nor comments, also between lines":    {"# FROM x\nFROM a\nRUN echo \\\n# FROM b\n\n  FROM c\n", nil, []string{"a"}},
		"a line may be continued":             {"FROM \\\n  a \\ \n  AS b\n", nil, []string{"a"}},
		"with the escape character of choice": {"# escape=`\nFROM `\n a\nRUN dir c:\\\nFROM b\n", nil, []string{"a", "b"}},
		"a frontend is not asked for":         {"# syntax=docker/dockerfile:1\nFROM a\n", nil, []string{"a"}},
		"ends of lines may be those of DOS":   {"FROM a\r\nCMD x\r\n", nil, []string{"a"}},
		"the last line may be continued":      {"FROM a\nRUN x \\\n", nil, []string{"a"}},
		"tabs divide words":                   {"FROM\ta\nCOPY\t--chown=1\t--from=b\t/x /y\n", nil, []string{"a", "b"}},
		"an escaped escape ends its line":     {"FROM a\nRUN dir c:\\\\\nFROM b\n", nil, []string{"a", "b"}},
		"a heredoc may have a name in quotes": {"FROM a\nRUN <<\"E 1\"\nFROM b\nE 1\nFROM c\n", nil, []string{"a", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := settle(t, row.text, row.args)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(plan.Bases, row.want) {
				t.Errorf("got %q, want %q", plan.Bases, row.want)
			}
		})
	}
}

func TestDockerfileMistakesNameTheirLine(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"nothing":                         {"# empty\n", "file with no instructions"},
		"no FROM at first":                {"RUN x\nFROM a\n", "line 1: the first instruction must be FROM"},
		"an argument without a value":     {"ARG tag\nFROM a:$tag\n", "line 2: $tag has no value"},
		"an image that is empty":          {"ARG image=\nFROM $image\n", "line 2: FROM $image has no image name"},
		"an expansion that is not known":  {"ARG a=1\nFROM x:${a#1}\n", `line 2: "x:${a#1}" is not understood`},
		"a FROM with too many words":      {"FROM a b\n", "line 1: write: FROM <image> [AS <name>]"},
		"a stage with an odd name":        {"FROM a AS $b\n", `line 1: "$b" is not the name of a stage`},
		"a FROM with an option":           {"FROM --pull=always a\n", "line 1: FROM has no option --pull=always"},
		"a document that does not end":    {"FROM a\nRUN <<EOF\nx\n", "line 2: unterminated heredoc"},
		"what is not an instruction":      {"FROM a\n<html>\n", `line 2: "<html>" is not an instruction`},
		"an escape character that is not": {"# escape=x\nFROM a\n", "invalid escape token 'x'"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := settle(t, row.text, nil); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

func TestRenderPinsImagesAndRunsEntrypoint(t *testing.T) {
	const end = "USER 0\nRUN [\"mkdir\", \"-p\", \"/out\"]\nRUN %s\nFROM scratch\nCOPY --from=sealift-ran /out/ /\n"
	for name, row := range map[string]struct{ text, want, run string }{
		"a CMD for the shell": {
			"# syntax=x\nARG t=1\nFROM a:$t\nRUN b\nCMD cp -r /x /out\n",
			"ARG t=1\nFROM a:1@PIN AS sealift-built\nRUN b\nCMD cp -r /x /out\nFROM sealift-built AS sealift-ran\n", "cp -r /x /out",
		},
		"a CMD as words, in a stage with a name": {
			"FROM --platform=linux/arm64 a AS z\nCMD [\"cp\", \"x\"]\n",
			"FROM --platform=linux/arm64 a@PIN AS z\nCMD [\"cp\", \"x\"]\nFROM z AS sealift-ran\n", `["cp","x"]`,
		},
		"an ENTRYPOINT with words from CMD": {
			"FROM a\nENTRYPOINT [\"cp\"]\nCMD [\"x\"]\n", "FROM a@PIN AS sealift-built\nENTRYPOINT [\"cp\"]\nCMD [\"x\"]\nFROM sealift-built AS sealift-ran\n", `["cp","x"]`,
		},
		"an ENTRYPOINT for the shell": {
			"FROM a\nENTRYPOINT cp x\nCMD [\"y\"]\n", "FROM a@PIN AS sealift-built\nENTRYPOINT cp x\nCMD [\"y\"]\nFROM sealift-built AS sealift-ran\n", "cp x",
		},
		"a CMD before its ENTRYPOINT": {
			"FROM a\nCMD [\"x\"]\nENTRYPOINT [\"cp\"]\n", "FROM a@PIN AS sealift-built\nCMD [\"x\"]\nENTRYPOINT [\"cp\"]\nFROM sealift-built AS sealift-ran\n", `["cp","x"]`,
		},
		"an ENTRYPOINT drops the CMD of an earlier stage": {
			"FROM a AS one\nCMD [\"x\"]\nFROM one\nENTRYPOINT [\"cp\"]\n",
			"FROM a@PIN AS one\nCMD [\"x\"]\nFROM one AS sealift-built\nENTRYPOINT [\"cp\"]\nFROM sealift-built AS sealift-ran\n", `["cp"]`,
		},
		"and not the one of its own stage": {
			"FROM a AS one\nCMD [\"x\"]\nFROM one\nCMD [\"x\"]\nENTRYPOINT [\"cp\"]\n",
			"FROM a@PIN AS one\nCMD [\"x\"]\nFROM one AS sealift-built\nCMD [\"x\"]\nENTRYPOINT [\"cp\"]\nFROM sealift-built AS sealift-ran\n", `["cp","x"]`,
		},
		"a CMD that an earlier stage has": {
			"FROM a AS one\nCMD x\nFROM one\nCOPY --from=b /x /y\nRUN --mount=type=bind,from=b ls\n",
			"FROM a@PIN AS one\nCMD x\nFROM one AS sealift-built\nCOPY --from=b@PIN /x /y\nRUN --mount=type=bind,from=b@PIN ls\nFROM sealift-built AS sealift-ran\n", "x",
		},
		"an escape character, documents and empty lines": {
			"# escape=`\n\nFROM a\nRUN <<E\n  FROM b\n\nE\nCMD x `\n  y\n",
			"# escape=`\nFROM a@PIN AS sealift-built\nRUN <<E\n  FROM b\n\nE\nCMD x   y\nFROM sealift-built AS sealift-ran\n", "x   y",
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := settle(t, row.text, nil)
			if err != nil {
				t.Fatal(err)
			}
			pinned := make(map[string]string)
			for _, base := range plan.Bases {
				pinned[base] = base + "@PIN"
			}
			got, err := plan.Render(pinned)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want+strings.Replace(end, "%s", row.run, 1), string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("without a CMD there is nothing to run", func(t *testing.T) {
		plan, err := settle(t, "FROM scratch\nCOPY a b\n", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := plan.Render(nil); err == nil || !strings.Contains(err.Error(), "has no CMD") {
			t.Errorf("got %v", err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("# escape=`\nARG a=1\nFROM x:${a:-2} AS b\nRUN <<E\nE\nCMD [\"x\"]\n")
	f.Add("FROM a\nCOPY --from=b \\\n# c\n x y\nENTRYPOINT x\n")
	f.Fuzz(func(t *testing.T, text string) {
		plan, err := settle(t, text, map[string]string{"a": "b"})
		if err != nil {
			return
		}
		pinned := make(map[string]string)
		for _, base := range plan.Bases {
			pinned[base] = "pinned@sha256:0"
		}
		rendered, err := plan.Render(pinned)
		if err != nil {
			return
		}
		again, err := settle(t, string(rendered), map[string]string{"a": "b"})
		if err != nil {
			t.Fatalf("what was rendered is not understood: %v\n%s", err, rendered)
		}
		for _, base := range again.Bases {
			if !strings.HasPrefix(base, "pinned@sha256:0") {
				t.Errorf("%q is not pinned in\n%s", base, rendered)
			}
		}
	})
}
