package redact

import (
	"regexp"
	"strings"
)

// secretKey matches names of options that IsSecretName does not: only a part of them is the name of a secret. Their values, such as the
// name of a Secret, need not be masked everywhere.
var secretKey = regexp.MustCompile(`(?i)secret|token|credential|private.?key|access.?key|api.?key|cert.?key|htpasswd|licen[cs]e`)

// privateKey is the beginning of a key in PEM.
const privateKey = "PRIVATE KEY-----"

// WithoutSecrets copies a value of an Installer without options that have the name of a secret, without private keys, and without
// texts for which secret says true. secret may be nil.
func WithoutSecrets(value any, secret func(text string) bool) any {
	switch value := value.(type) {
	case map[string]any:
		kept := make(map[string]any, len(value))
		for key, v := range value {
			if !IsSecretName(key) && !secretKey.MatchString(key) {
				if v = WithoutSecrets(v, secret); v != nil {
					kept[key] = v
				}
			}
		}
		return kept
	case []any:
		kept := make([]any, 0, len(value))
		for _, v := range value {
			if v = WithoutSecrets(v, secret); v != nil {
				kept = append(kept, v)
			}
		}
		return kept
	case string:
		if strings.Contains(value, privateKey) || secret != nil && secret(value) {
			return nil
		}
	}
	return value
}

// Masks reports whether a text has something that the Redactor masks.
func (d *Redactor) Masks(text string) bool {
	var masked strings.Builder
	return d.Copy(&masked, strings.NewReader(text)) != nil || masked.String() != text
}
