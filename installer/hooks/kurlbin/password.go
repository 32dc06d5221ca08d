package kurlbin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/internal/regularfile"
)

// hashPassword prints the bcrypt hash of its argument, or of its input.
func hashPassword(_ context.Context, args []string, s Streams) error {
	set := flags(s)
	cost := set.Int("cost", bcrypt.DefaultCost, "")
	if err := parse(set, args); err != nil {
		return err
	}
	password := set.Arg(0)
	if set.NArg() == 0 {
		data, err := io.ReadAll(io.LimitReader(s.In, 1<<10))
		if err != nil {
			return err
		}
		password = strings.TrimRight(string(data), "\r\n")
	}
	if password == "" {
		return fmt.Errorf("%w: give a password", ErrUsage)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), *cost)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.Out, string(hash))
	return err
}

// htpasswd sets the line of a user in a file, or prints it where no file is given.
func htpasswd(_ context.Context, args []string, s Streams) error {
	set := flags(s)
	user, password, file := set.String("u", "", ""), set.String("p", "", ""), set.String("f", "", "")
	if err := parse(set, args); err != nil {
		return err
	}
	if *user == "" || *password == "" || strings.ContainsAny(*user, ":\n") {
		return fmt.Errorf("%w: give a user without ':' and a password", ErrUsage)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(*password), bcrypt.DefaultCost)
	if err != nil {
		return err
	}
	line := *user + ":" + string(hash) + "\n"
	if *file == "" {
		_, err := io.WriteString(s.Out, line)
		return err
	}
	old, err := regularfile.ReadFile(*file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var kept strings.Builder
	for other := range strings.Lines(string(old)) {
		if !strings.HasPrefix(other, *user+":") {
			kept.WriteString(strings.TrimSuffix(other, "\n") + "\n")
		}
	}
	return files.WriteMode(*file, 0o600, []byte(kept.String()+line))
}
