package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sealift/sealift/bundle"
)

// resumeVariable is how a script that starts sealift tells the command that started the script.
const resumeVariable = "SEALIFT_RESUME"

// nextStep tells what to do after a failure, and the command that goes on.
func nextStep(ctx context.Context, err error) string {
	again := "go on with:\n  " + resumeCommand(os.Args, os.Getenv(resumeVariable))
	var damaged *bundle.DigestError
	switch {
	case errors.As(err, &damaged):
		return "the bundle is damaged: copy it again, and " + again
	case ctx.Err() != nil:
		return "the install was interrupted: " + again
	}
	return "when the cause is gone, " + again
}

// resumeCommand is the command line as it can be given to a shell.
func resumeCommand(args []string, script string) string {
	if script != "" {
		return script
	}
	words := []string{"sudo"}
	for _, arg := range args {
		word, err := syntax.Quote(arg, syntax.LangBash)
		if err != nil { // a NUL byte, which no argument has
			word = arg
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}
