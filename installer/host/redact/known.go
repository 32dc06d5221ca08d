package redact

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
)

// minKnown is the shortest value that Hide masks, in bytes. Shorter ones are words that logs are full of, such as kurl: a user of a
// database may have that for a password.
const minKnown = 8

// Hide masks these values from now on, wherever they stand, and their base64. Of a value with several lines it masks each
// line.
func (d *Redactor) Hide(values ...string) {
	for _, value := range values {
		forms := strings.Split(value, "\n")
		forms = append(forms, base64.StdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value)))
		for _, form := range forms {
			if form = strings.TrimSpace(form); len(form) >= minKnown && !slices.Contains(d.known, form) {
				d.known = append(d.known, form)
			}
		}
	}
	// one that contains another comes first
	slices.SortFunc(d.known, func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
}

func (d *Redactor) withoutKnown(text []byte) []byte {
	for _, value := range d.known {
		text = bytes.ReplaceAll(text, []byte(value), []byte(Mask))
	}
	return text
}

var secretName = regexp.MustCompile(`(?i)(?:` + secretWord + `|pass|licen[cs]e(?:[_-]?(?:key|data))?)$`)

// IsSecretName reports whether the name of a value marks it as a secret: adminPassword, CERT_KEY.
func IsSecretName(name string) bool { return secretName.MatchString(name) }

// Secrets returns the texts in a value of an Installer that have the name of a secret, or are within something with such a name.
func Secrets(value any) []string { return appendSecrets(nil, false, value) }

func appendSecrets(values []string, secret bool, value any) []string {
	switch value := value.(type) {
	case string:
		if secret {
			values = append(values, value)
		}
	case []any:
		for _, one := range value {
			values = appendSecrets(values, secret, one)
		}
	case map[string]any:
		for key, one := range value {
			values = appendSecrets(values, secret || IsSecretName(key), one)
		}
	}
	return values
}

// Named returns the values with the name of a secret, such as a password that a hook has made up and left in a variable.
func Named(variables map[string]string) (values []string) {
	for name, value := range variables {
		if IsSecretName(name) {
			values = append(values, value)
		}
	}
	return values
}
