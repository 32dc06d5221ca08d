package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/replicatedhq/troubleshoot/pkg/loader"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/preflight"
)

// maxSpecSize bounds the size of one file, in bytes.
const maxSpecSize = 8 << 20

// read returns the texts of files, or else of in.
func read(files []string, in io.Reader) (texts []string, err error) {
	if len(files) == 0 {
		text, err := readAll("standard input", in)
		return []string{text}, err
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		text, err := readAll(name, f)
		_ = f.Close()
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

func readAll(name string, r io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSpecSize+1))
	if err == nil && len(text) > maxSpecSize {
		err = fmt.Errorf("larger than %d bytes", maxSpecSize)
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return string(text), nil
}

var separator = regexp.MustCompile(`(?m)^---[ \t]*$`)

// cause returns the error that Troubleshoot has wrapped, without the texts of the wrappers.
func cause(err error) error {
	for wraps := (interface{ Cause() error })(nil); errors.As(err, &wraps); {
		err = wraps.Cause()
	}
	return err
}

// load reads the documents in texts. An invalid one fails the host, since a check that cannot run would be none; the others
// still run.
func load(ctx context.Context, texts []string) (*loader.TroubleshootKinds, []preflight.Result) {
	specs := loader.NewTroubleshootKinds()
	bad := []preflight.Result{}
	for _, text := range texts {
		for _, document := range separator.Split(text, -1) {
			one, err := loader.LoadSpecs(ctx, loader.LoadOptions{RawSpec: document, Strict: true})
			if err != nil {
				bad = append(bad, preflight.Result{Check: name(nameOf(document), "specification"), Status: preflight.Fail,
					Message: fmt.Sprintf("cannot be read: %v", cause(err)), Hint: "mend it as Troubleshoot's reference has it"})
				continue
			}
			specs.Add(one)
		}
	}
	return specs, bad
}

// nameOf is metadata.name of a document, as far as that can be read.
func nameOf(document string) string {
	var head struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	_ = yaml.Unmarshal([]byte(document), &head)
	return head.Metadata.Name
}
