package release

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sealift/sealift/internal/sandbox"
)

// Failure is why an operation failed. It shows no values that the release was given, since they may be secret.
type Failure struct {
	Operation string // such as upgrade
	Release   string
	text      string
	cause     error // what callers may branch on
}

func (f *Failure) Error() string {
	return fmt.Sprintf("%s release %s: %s", f.Operation, f.Release, f.text)
}

func (f *Failure) Unwrap() error { return f.cause }

// fail makes a Failure of what Helm says, or nil.
func fail(ctx context.Context, operation, name string, err error, values map[string]any) error {
	if err == nil {
		return nil
	}
	f := &Failure{Operation: operation, Release: name, text: censor(err.Error(), values)}
	for _, known := range []error{ErrNotFound, ErrPending, sandbox.ErrLimit} {
		if errors.Is(err, known) {
			f.cause = known
		}
	}
	if ctx.Err() != nil {
		f.cause = context.Cause(ctx)
		f.text = context.Cause(ctx).Error() + ": " + f.text
	}
	return f
}

// shortest is how long a value is at least that is looked for in an error. Shorter ones are part of ordinary words.
const shortest = 6

// censor replaces values by their names.
func censor(text string, values map[string]any) string {
	var leaves []leaf
	collect("", values, &leaves)
	// a value may contain another one
	slices.SortFunc(leaves, func(a, b leaf) int { return len(b.value) - len(a.value) })
	for _, l := range leaves {
		name := "<value " + l.name + ">"
		text = strings.ReplaceAll(text, l.value, name)
		text = strings.ReplaceAll(text, strings.Trim(strconv.Quote(l.value), `"`), name)
		text = strings.ReplaceAll(text, base64.StdEncoding.EncodeToString([]byte(l.value)), name)
	}
	return text
}

type leaf struct{ name, value string }

func collect(name string, value any, into *[]leaf) {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			collect(strings.TrimPrefix(name+"."+key, "."), item, into)
		}
	case []any:
		for i, item := range v {
			collect(fmt.Sprintf("%s[%d]", name, i), item, into)
		}
	case string:
		if len(v) >= shortest || len(v) > 0 && secretName(name) {
			*into = append(*into, leaf{name, v})
		}
	}
}

// secretName says whether a value is secret by its name, however short it is.
func secretName(name string) bool {
	name = strings.ToLower(name[strings.LastIndex(name, ".")+1:])
	return slices.ContainsFunc([]string{"password", "passwd", "secret", "token", "credential", "key", "pin"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}
