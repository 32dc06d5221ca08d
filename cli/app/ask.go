package app

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/sealift/sealift/internal/plaintext"
)

// terminal returns the terminal that the command reads from, if it is one.
func (a *App) terminal() (*os.File, bool) {
	f, ok := a.In.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// Terminal returns the terminal that an output of an App is, if it is one. What is written to it directly is not escaped.
func Terminal(out io.Writer) (*os.File, bool) {
	f, ok := plaintext.Unwrap(out).(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// CanAsk reports whether a person can answer.
func (a *App) CanAsk() bool {
	_, ok := a.terminal()
	return ok
}

// Confirm asks on a terminal; elsewhere nobody could answer, so the command line counts as consent.
func (a *App) Confirm(question string) bool {
	if !a.CanAsk() {
		return true
	}
	answer := a.Ask(question + " (y/N)")
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes")
}

// Ask asks on a terminal, and returns the answer without the space around it.
func (a *App) Ask(question string) string {
	fmt.Fprint(a.Err, question+" ")
	answer, _ := bufio.NewReader(a.In).ReadString('\n')
	return strings.TrimSpace(answer)
}

// Passphrase reads a passphrase from an environment variable, or asks for it, twice if it is new.
func (a *App) Passphrase(variable, question string, isNew bool) ([]byte, error) {
	if text, ok := os.LookupEnv(variable); ok {
		return []byte(text), nil
	}
	f, ok := a.terminal()
	if !ok {
		return nil, UsageError("a passphrase is needed and there is no terminal to ask on; set %s", variable)
	}
	first, err := a.askHidden(f, question)
	if err != nil || !isNew {
		return first, err
	}
	second, err := a.askHidden(f, "once more: ")
	if err == nil && !bytes.Equal(first, second) {
		err = errors.New("the passphrases differ; nothing was written")
	}
	return first, err
}

func (a *App) askHidden(terminal *os.File, question string) ([]byte, error) {
	fmt.Fprint(a.Err, question)
	answer, err := term.ReadPassword(int(terminal.Fd()))
	fmt.Fprintln(a.Err)
	return answer, err
}
