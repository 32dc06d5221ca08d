package hook

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// documentEnd is the line between two documents of a YAML file.
var documentEnd = regexp.MustCompile(`(?m)^---(?:[ \t].*)?\r?$\n?`)

// document prints the document of a YAML file whose object has a name: file, name.
func document(_ context.Context, args []string, out io.Writer) error {
	if err := wants(args, 2, "get_yaml_from_multidoc_yaml"); err != nil {
		return err
	}
	text, err := readText(args[0])
	if err != nil {
		return err
	}
	found, err := documentNamed(text, args[1])
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	_, err = io.WriteString(out, found)
	return err
}

// documentNamed returns the text of the document.
func documentNamed(text, name string) (string, error) {
	for number, part := range documentEnd.Split(text, -1) {
		var object struct {
			Metadata struct {
				Name string `yaml:"name"`
			} `yaml:"metadata"`
		}
		if err := yaml.Unmarshal([]byte(part), &object); err != nil {
			return "", fmt.Errorf("document %d: %w", number+1, err)
		}
		if object.Metadata.Name == name {
			return strings.TrimRight(part, "\n") + "\n", nil
		}
	}
	return "", fmt.Errorf("no document has the name %q", name)
}
