package node

import (
	"context"
	"errors"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/hostpath"
)

// resumeVariable is set by a script that starts sealift to the command that started the script.
const resumeVariable = "SEALIFT_RESUME"

// nextStep returns what to do after a failure, and the command that resumes.
func nextStep(ctx context.Context, err error, resume string) string {
	again := "go on with:\n  " + resume
	var damaged *bundle.DigestError
	switch {
	case errors.As(err, &damaged):
		return "the bundle is damaged: copy it again, and " + again
	case ctx.Err() != nil:
		return "the install was interrupted: " + again
	}
	return "when the cause is gone, " + again
}

// hideSecrets replaces the secrets of a join with placeholders: the command is kept on the node, and shown.
func hideSecrets(args []string) []string {
	words := map[string]string{
		"--token": "TOKEN", "--kubeadm-token": "TOKEN", "kubeadm-token": "TOKEN",
		"--certificate-key": "KEY", "--cert-key": "KEY", "cert-key": "KEY",
	}
	hidden := slices.Clone(args)
	for i, arg := range hidden {
		name, _, together := strings.Cut(arg, "=")
		word, secret := words[name]
		switch {
		case secret && together:
			hidden[i] = name + "=" + word
		case secret && i+1 < len(hidden):
			hidden[i+1] = word
		}
	}
	return hidden
}

// resumeCommand is the command line as it can be given to a shell.
func resumeCommand(args []string, script string) string {
	if script != "" {
		return script
	}
	words := []string{"sudo"}
	for _, arg := range hostpath.Rerun(args) {
		word, err := syntax.Quote(arg, syntax.LangBash)
		if err != nil { // a NUL byte, which no argument has
			word = arg
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}
