package release

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// fail converts an error of Helm to a Failure, or returns nil.
func fail(ctx context.Context, operation, name string, err error, values map[string]any) error {
	if err == nil {
		return nil
	}
	f := &Failure{Operation: operation, Release: name, text: censor(err.Error(), values)}
	if answer := new(apierrors.StatusError); errors.As(err, &answer) { // its message may quote values
		f.cause = &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Reason: answer.ErrStatus.Reason, Code: answer.ErrStatus.Code}}
	}
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

// shortest is the minimum length of a value that is masked anywhere in an error. Shorter ones are part of ordinary words, so only whole
// words are masked.
const shortest = 6

// censor replaces secret values by their names.
func censor(text string, values map[string]any) string {
	var leaves []leaf
	collect("", values, &leaves)
	// a value may contain another one
	slices.SortFunc(leaves, func(a, b leaf) int { return len(b.value) - len(a.value) })
	for _, l := range leaves {
		name := "<value " + l.name + ">"
		for _, form := range []string{l.value, strings.Trim(strconv.Quote(l.value), `"`), base64.StdEncoding.EncodeToString([]byte(l.value))} {
			if len(form) >= shortest {
				text = strings.ReplaceAll(text, form, name)
				continue
			}
			word := regexp.MustCompile(`(^|[^\pL\pN])` + regexp.QuoteMeta(form) + `($|[^\pL\pN])`)
			text = word.ReplaceAllString(text, "${1}"+strings.ReplaceAll(name, "$", "$$")+"${2}")
		}
	}
	return text
}

type leaf struct{ name, value string }

// collect lists the secrets among values.
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
		if v != "" && (secretName(name) || secretText(v)) {
			*into = append(*into, leaf{name, v})
		}
	}
}

// secretName reports whether a value is secret by its name, however short it is. Names of Secrets are not.
func secretName(name string) bool {
	name = strings.ToLower(name[strings.LastIndex(name, ".")+1:])
	if strings.HasSuffix(name, "name") || strings.HasSuffix(name, "ref") || strings.HasPrefix(name, "existing") {
		return false
	}
	return slices.ContainsFunc([]string{"password", "passwd", "secret", "token", "credential", "key", "pin"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}

var (
	// plainWord matches names, modes, paths, versions, images and addresses in charts.
	plainWord = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/:@-]*[A-Za-z0-9])?$`)
	// userInfo is a password in a URL.
	userInfo  = regexp.MustCompile(`://[^/@]+@`)
	separator = regexp.MustCompile(`[._/:@-]+`)
	// inWord is a digit between letters, as in s3cr3t, and apiVersion a harmless word with one.
	inWord     = regexp.MustCompile(`[A-Za-z][0-9]+[A-Za-z]`)
	apiVersion = regexp.MustCompile(`^v[0-9]+(alpha|beta)[0-9]+$`)
)

// secretText reports whether a value may be secret by its form: a text that is not a plain word, or one with a random-looking part.
func secretText(value string) bool {
	if len(value) < shortest {
		return false
	}
	if !plainWord.MatchString(value) || userInfo.MatchString(value) {
		return true
	}
	return slices.ContainsFunc(separator.Split(value, -1), func(part string) bool {
		const long = 16
		digits := strings.ContainsAny(part, "0123456789")
		return len(part) >= shortest && inWord.MatchString(part) && !apiVersion.MatchString(part) || len(part) >= long && digits && strings.ContainsFunc(part, unicode.IsLetter)
	})
}
